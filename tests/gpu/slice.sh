#!/usr/bin/env bash
# Runs the end-to-end jobs with real NCCL on real GPUs, every job and its twin, and prints one line
# each. Needs one GPU a rank (4 for all jobs).
#   slice.sh BUILD_FOLDER OUTPUT_FOLDER [NCCL_LIBRARY_FOLDER]
# The third argument names the NCCL to use where a machine has several.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=$2
[ -n "${3:-}" ] && export LD_LIBRARY_PATH="$3${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
gpus=$(nvidia-smi -L | wc -l)
mkdir -p "$out"
jobs=$(python3 - "$here/../e2e" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import run_job
print(" ".join([j for j in run_job.JOBS if j not in run_job.EMULATED_ONLY] + run_job.INNOCENT))
PY
)
passed=0
failed=0
for job in $jobs; do
  for twin in "" --twin; do
    # shellcheck disable=SC2086
    if timeout 100 python3 "$here/../e2e/run_job.py" --hardware --build "$build" --job "$job" $twin >"$out/$job$twin.txt" 2>&1; then
      passed=$((passed + 1))
      head -n 1 "$out/$job$twin.txt"
    else
      failed=$((failed + 1))
      echo "FAILED $job $twin"
      grep -m1 FAILED "$out/$job$twin.txt"
    fi
  done
done
echo "$gpus GPUs: $passed passed, $failed failed" | tee "$out/summary.txt"
