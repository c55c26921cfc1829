#!/bin/bash
# Runs a program on a machine that may be taken away (spot, preemptible). At the notice, the program gets SIGTERM, and its last
# state is captured in a store that outlives the machine. The next machine starts the same command.
#   REPRISE_URL=postgres://… examples/recipes/spot.sh python3 examples/any-program/train.py 200
# AWS answers 200 at this address two minutes before the end; GCP answers TRUE at NOTICE=http://metadata.google.internal/
# computeMetadata/v1/instance/preempted with NOTICE_HEADER='Metadata-Flavor: Google'; Azure lists Preempt events.
set -u
notice="${NOTICE:-http://169.254.169.254/latest/meta-data/spot/instance-action}"
header="${NOTICE_HEADER:-accept: */*}"
every="${NOTICE_EVERY:-5}"
: "${REPRISE:=npx reprise}"

$REPRISE exec --id "${ID:-train}" --state "${STATE:-state}" --lose-at-most 10m --grace 60s --wait 2m -- "$@" &
program=$!
trap 'kill -TERM "$program" 2>/dev/null' TERM INT
watch_notice() {
  while kill -0 "$program" 2>/dev/null; do
    answer=$(curl --silent --fail --max-time 2 --header "$header" "$notice") && [ "$answer" != FALSE ] && {
      echo "the machine will be taken away: $answer" >&2
      kill -TERM "$program"
      return
    }
    sleep "$every"
  done
}
watch_notice &
watcher=$!
wait "$program"; code=$?
while kill -0 "$program" 2>/dev/null; do wait "$program"; code=$?; done
kill "$watcher" 2>/dev/null
exit "$code"
