#!/usr/bin/env bash
# 10,000 random orders of 64 operations on 8 ranks, strict on one stream and detached, in parts of 100
# (tests/unit/runtime/orders_test.cc). Prints each part that has passed, and adds it to LOG; what LOG has is
# not run again.
#   orders.sh BUILD_FOLDER LOG [FIRST_PART LAST_PART]
set -u
build=$1
log=$2
touch "$log"
failed=0
for ((part = ${3:-0}; part <= ${4:-99}; ++part)); do
  name="orders $((part * 100)) to $((part * 100 + 99))"
  if grep -qxF "passed: $name" "$log"; then continue; fi
  began=$SECONDS
  # Ten minutes for what takes half of one on an idle machine: a hang is a failure, not a wait.
  if GORDIAN_TEST_ORDERS=100 GORDIAN_TEST_FIRST_ORDER=$((part * 100)) timeout 600 \
      "$build/tests/runtime_orders_test" --gtest_filter='Orders.OneStreamStrict:Orders.Detached' --gtest_brief=1; then
    echo "passed: $name" >>"$log"
    echo "passed: $name ($((SECONDS - began)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
done
exit $((failed != 0))
