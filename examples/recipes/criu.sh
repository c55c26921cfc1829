#!/bin/bash
# Captures the image of a process that cannot write its own state: CRIU freezes it into files, and `reprise exec` keeps,
# verifies and restores them. CRIU needs Linux, root or CAP_CHECKPOINT_RESTORE, and a kernel that allows it.
#   reprise exec --state image --when word -- examples/recipes/criu.sh ./simulation
# Every EVERY seconds (600), and at SIGTERM, the process is dumped, and the capture requested (the step before a capture).
set -u
every="${EVERY:-600}"
state="${REPRISE_EXEC_STATE:?run it under reprise exec: reprise exec --state image --when word -- $0 COMMAND}"
: "${REPRISE:=npx reprise}"

refuse() {
  echo "criu.sh: $1" >&2
  echo "criu.sh: nothing was started: a process image cannot be taken here; let the program write its state (docs/guides/any-program.md)" >&2
  exit 78
}
command -v criu >/dev/null || refuse 'criu is not installed'
problem=$(criu check 2>&1) || refuse "this kernel, or the permissions of this user, forbid it: $(tail -n 1 <<<"$problem")"

dump() { # $1: further options of criu
  rm -rf "$state/next.tmp" && mkdir -p "$state/next.tmp"
  criu dump --tree "$process" --images-dir "$state/next.tmp" --shell-job --tcp-established $1 || return 1
  rm -rf "$state/image" && mv "$state/next.tmp" "$state/image"
  $REPRISE exec --say "capture process image"
}

if [ -d "$state/image" ]; then
  criu restore --images-dir "$state/image" --shell-job --tcp-established --restore-detached --pidfile "$state/pid.tmp"
  process=$(cat "$state/pid.tmp")
else
  # A session of its own, so that its tree is what CRIU dumps.
  setsid "$@" </dev/null &
  process=$!
fi
stopped=0
trap 'stopped=1' TERM
while kill -0 "$process" 2>/dev/null; do
  for ((second = 0; second < every && stopped == 0; second++)); do
    kill -0 "$process" 2>/dev/null || break
    sleep 1
  done
  kill -0 "$process" 2>/dev/null || break
  if [ "$stopped" = 1 ]; then dump '' ; exit 143; fi
  dump --leave-running || echo 'criu.sh: the dump failed; the former image stays' >&2
done
wait "$process" 2>/dev/null
