#!/usr/bin/env bash
# The planner's acceptance lines D1 to D5 and P1 to P4 in full.
#
#   bench/plan/plan.sh BUILD [RUNS]
set -euo pipefail
build=$1
runs=${2:-1000}
here=$(dirname "$(readlink -f "$0")")
for name in vgg19 stage_solver preserver cost_model plans plan_lint plan_choice; do
  echo "== $name"
  GORDIAN_PLAN_FULL=1 "$build/tests/planner_${name}_test" --gtest_brief=1
done
for story in by_hand runs rank_local refused from_a_trace; do
  echo "== $story"
  python3 "$here/../../tests/e2e/plan.py" "$build" "$story" --runs "$runs"
done
