#!/bin/sh
# Durable progress for a shell script, with curl alone: it numbers the lines of its input, and when it is killed and started
# again it goes on after the last line that was acknowledged. Nothing is done twice.
#
#   reprise serve &
#   REPRISE_TOKEN=… sh sidecar.sh < lines.txt
set -eu
url=${REPRISE_SERVER:-http://127.0.0.1:4400}
id=${1:-shell/lines}
timeline="$url/v1/timelines/$(printf %s "$id" | sed 's|/|%2F|g')"

# The token goes in by a file of its own: a command line can be read by others.
config=$(mktemp)
trap 'rm -f "$config"' EXIT
chmod 600 "$config"
printf 'header = "Authorization: Bearer %s"\n' "$REPRISE_TOKEN" > "$config"

# Tried again while the server is away, or asks for it; the Idempotency-Key makes that harmless.
ask() {
  tries=0
  while [ "$tries" -lt 60 ]; do
    tries=$((tries + 1))
    if answer=$(curl --silent --fail-with-body --config "$config" "$@"); then
      printf '%s' "$answer"
      return 0
    fi
    case $answer in
    *'"remedy":"retry"'*) ;;
    *'"remedy":'*) printf '%s\n' "$answer" >&2 && return 1 ;;
    esac
    sleep 1
  done
  echo 'the server did not come back' >&2
  return 1
}

# Where we were: the last sequence of the timeline, or 0 if there is none yet.
done_lines=$(ask "$timeline/history?before=1000000000&limit=1" 2>/dev/null | sed -n 's/.*"coordinate":{[^}]*"seq":\([0-9]*\).*/\1/p' || true)
done_lines=${done_lines:-0}

n=0
while IFS= read -r line; do
  n=$((n + 1))
  [ "$n" -gt "$done_lines" ] || continue
  # Do the work here. The key makes a repeated request harmless; `expect` refuses a second copy of this script.
  length=${#line}
  ask --request POST "$timeline/entries" --header 'Content-Type: application/json' \
    --header "Idempotency-Key: line-$n" \
    --data "{\"expect\": $((n - 1)), \"entries\": [{\"type\": \"line\", \"data\": {\"n\": $n, \"length\": $length}}]}" > /dev/null
  echo "line $n: $length"
done
