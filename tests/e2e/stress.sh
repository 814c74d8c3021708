#!/usr/bin/env bash
# The long form of the end-to-end tests: every hanging job and every twin 20 times, and twins
# perturbed; 200 kills; the same jobs with rings of 4 KiB; ten minutes of shim_torture; 10,000 orders of the runtime's operations. Restartable: finished lines are kept in BUILD/stress.log and not run again; delete that
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
print(" ".join(j for j in run_job.JOBS if j not in run_job.BY_OTHER_WAYS and j != "inversion_300_threads"))
PY
)
lost=$(python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import run_job; print(*run_job.LOST_WITH_RECORDS)' "$here")
failed=0
run_once() {  # NAME COMMAND...
  local name=$1
  shift
  if grep -qxF "passed: $name" "$log"; then return; fi
  if "$@"; then
    echo "passed: $name" >>"$log"
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
}
one() {
  run_once "$*" python3 "$here/run_job.py" --build "$build" "$@"
}
for job in $jobs; do
  one --job "$job" --repeat "$repeats"
  one --job "$job" --twin --repeat "$repeats"
done
for job in $jobs; do
  for perturb in late busy load; do one --job "$job" --twin --perturb "$perturb" --repeat 3; done
done
run_once "fleet --long $repeats" python3 "$here/fleet.py" "$build" --long --repeat "$repeats"
# 200 kills, in parts, so that a restart does not begin at the first again.
for part in 0 1 2 3 4 5 6 7 8 9; do
  run_once "crash part $part" python3 "$here/crash.py" --build "$build" --kills 20 --first $((part * 20))
done
# Rings of 4 KiB that are overrun: the same verdicts, with less confidence; tests/e2e/run_job.py.
for job in $jobs; do
  case " $lost " in *" $job "*) forms=--twin ;; *) forms="hanging --twin" ;; esac
  for form in $forms; do one --job "$job" ${form#hanging} --ring-slots 64 --flood 3000 --repeat 3; done
done
# Ten minutes against the shim alone, in parts of one.
for part in 1 2 3 4 5 6 7 8 9 10; do
  run_once "shim_torture part $part" python3 "$here/../stress/shim_torture.py" --build "$build" --seconds 60
done
# Hostile records, rings and files; tests/hostile.
run_once "hostile records" env GORDIAN_TEST_HOSTILE=20000 "$build/tests/server_analysis_test" --gtest_filter='Hostile*' --gtest_brief=1
for part in 1 2 3 4 5; do
  run_once "hostile part $part" env GORDIAN_TEST_HOSTILE="$((10 * part))" python3 "$here/../hostile/neighbours.py" "$build"
  run_once "hostile peers part $part" python3 "$here/../hostile/peers.py" "$build" --long --repeat 1
done
# 200 kills of the server and of nodes, in parts.
for part in 1 2 3 4 5; do
  for case in server_of_a_job_that_runs server_of_a_job_that_hangs node; do
    run_once "hostile kills $case part $part" python3 "$here/../hostile/kills.py" "$build" "$case" --long --repeat 10 --seed "$part"
  done
done
# Random jobs against the theorem, in parts of two minutes.
for part in 1 2 3 4 5; do
  run_once "preemptive part $part" python3 "$here/../stress/preemptive/fuzz.py" "$build" --seed $((part * 1000000)) --seconds 120
done
# Random jobs that are recovered or refused, in parts of two minutes.
for part in 1 2 3 4 5; do
  run_once "recover part $part" python3 "$here/../stress/preemptive/recover.py" "$build" --together --seed $((part * 1000000)) --count 100000 --seconds 120
done
# The runtime's 64 operations on 8 ranks in 10,000 random orders, in parts of 100.
"$here/../stress/orders.sh" "$build" "$log" || failed=$((failed + 1))
echo "stress: $(grep -c '^passed' "$log") passed, $failed failed"
[ "$failed" -eq 0 ]
