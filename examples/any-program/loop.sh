#!/bin/sh
# Adds numbers up. It says itself when its files are complete: nothing else is captured.
#
#   reprise exec --state ckpt --when word -- sh loop.sh 100

set -eu
last=${1:-100}
cd "$REPRISE_EXEC_STATE"
n=0
sum=0
if [ -s state ]; then
  read -r n sum <state
  echo "goes on after $n, restored from capture $REPRISE_EXEC_RESTORED"
fi
while [ "$n" -lt "$last" ]; do
  n=$((n + 1))
  sum=$((sum + n))
  echo "$n $sum" >state.tmp
  mv state.tmp state
  echo "progress $n/$last" >"$REPRISE_EXEC_PIPE"
  if [ $((n % 10)) -eq 0 ]; then echo "capture up to $n" >"$REPRISE_EXEC_PIPE"; fi
  sleep 0.02
done
echo "the sum is $sum"
