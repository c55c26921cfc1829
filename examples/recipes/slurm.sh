#!/bin/bash
# A SLURM job that is captured before its time is over, and queued again until its program has ended.
#   sbatch examples/recipes/slurm.sh python3 examples/any-program/train.py 200
#SBATCH --job-name=train
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# SIGTERM goes to this script (B:) two minutes before the end: more than --grace and the last capture need.
#SBATCH --signal=B:TERM@120
set -u

# On a shared file system, so that the job may continue on any node. The id outlives the job's number.
: "${REPRISE_URL:=sqlite:$HOME/reprise.db}"
: "${REPRISE:=npx reprise}"
state="${STATE:-$HOME/train-state}"
export REPRISE_URL

preempted=0
# --wait: after a node failure, the lease of the former start has to run out.
$REPRISE exec --id "${SLURM_JOB_NAME:-train}" --state "$state" --lose-at-most 10m --grace 60s --wait 2m -- "$@" &
program=$!
trap 'preempted=1; kill -TERM "$program" 2>/dev/null' TERM
wait "$program"; code=$?
# A signal ends `wait` early: wait for the last capture as well.
while kill -0 "$program" 2>/dev/null; do wait "$program"; code=$?; done

if [ "$preempted" = 1 ]; then
  echo "the time is over: captured, and queued again"
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
