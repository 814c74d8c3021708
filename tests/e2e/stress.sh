#!/usr/bin/env bash
# The long form of the end-to-end tests: every hanging job and every twin 20 times, and twins
# perturbed. Restartable: finished lines are kept in BUILD/stress.log and not run again; delete that
# file to start over.
#   stress.sh BUILD_FOLDER [REPEATS]
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
repeats=${2:-20}
log="$build/stress.log"
touch "$log"
jobs=$(python3 - "$here" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import run_job
print(" ".join(run_job.JOBS))
PY
)
failed=0
one() {
  local name="$*"
  if grep -qxF "passed: $name" "$log"; then return; fi
  if python3 "$here/run_job.py" --build "$build" "$@"; then
    echo "passed: $name" >>"$log"
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
}
for job in $jobs; do
  one --job "$job" --repeat "$repeats"
  one --job "$job" --twin --repeat "$repeats"
done
for job in $jobs; do
  for perturb in late busy load; do one --job "$job" --twin --perturb "$perturb" --repeat 3; done
done
name="fleet --long $repeats"
if ! grep -qxF "passed: $name" "$log"; then
  if python3 "$here/fleet.py" "$build" --long --repeat "$repeats"; then
    echo "passed: $name" >>"$log"
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
fi
echo "stress: $(grep -c '^passed' "$log") passed, $failed failed"
[ "$failed" -eq 0 ]
