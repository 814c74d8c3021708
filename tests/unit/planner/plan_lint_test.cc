// P3: step plans written as blocking sends and receives, through the wait model.
#include "planner/schedule/plan_lint.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace gordian::planner {
namespace {

using runtime::InterPlan;
using runtime::PlanKind;
using runtime::StepPlan;

// A cycle is one only if each waits for the next: a half that waits for its peer's half of the same
// step, or for what its own rank does before.
void ExpectCycle(const StepPlan& plan, const LintResult& result) {
  ASSERT_GE(result.cycle.size(), 2u);
  for (size_t i = 0; i < result.cycle.size(); ++i) {
    const LintArrow& now = result.cycle[i];
    const LintArrow& next = result.cycle[(i + 1) % result.cycle.size()];
    const runtime::PlanStep step = runtime::StepAt(plan, now.rank, now.step);
    ASSERT_EQ(now.peer, now.sends ? step.to : step.from);
    if (now.waits_for_peer) {
      // Its peer has not come to the other half: it is in another half of the same step, or an
      // earlier one.
      ASSERT_EQ(next.rank, now.peer);
      ASSERT_LE(next.step, now.step);
      ASSERT_TRUE(next.step < now.step || next.sends == now.sends);
    } else {
      ASSERT_EQ(next.rank, now.rank);
      ASSERT_LE(next.step, now.step);
    }
  }
}

int Deadlocks(InterPlan inter, Posting posting, PlanKind kind, bool print) {
  int count = 0;
  for (uint32_t n = 2; n <= 64; ++n) {
    const StepPlan plan{n, 1, inter, kind};
    const LintResult result = Lint(plan, posting);
    if (!result.deadlock) continue;
    ++count;
    ExpectCycle(plan, result);
    if (print) std::printf("  n = %u: %s\n", n, CycleText(result).c_str());
  }
  return count;
}

TEST(P3, BlockingOrders) {
  const struct {
    InterPlan inter;
    Posting posting;
    int want;
  } rows[] = {{InterPlan::kRing, Posting::kSendFirst, 63},
              {InterPlan::kBruck, Posting::kSendFirst, 63},
              {InterPlan::kRing, Posting::kEvenSendsFirst, 0},
              {InterPlan::kBruck, Posting::kEvenSendsFirst, 31},
              {InterPlan::kRing, Posting::kHigherSendsFirst, 0},
              {InterPlan::kBruck, Posting::kHigherSendsFirst, 0},
              {InterPlan::kBruck, Posting::kStrideEvenFirst, 0}};
  for (const auto& row : rows) {
    std::printf("%s, %s:\n", row.inter == InterPlan::kRing ? "ring" : "Bruck", Name(row.posting));
    const int count = Deadlocks(row.inter, row.posting, PlanKind::kAllGather, true);
    std::printf("  %d of 63\n", count);
    EXPECT_EQ(count, row.want);
    // The reduce-scatter is the same backwards.
    EXPECT_EQ(Deadlocks(row.inter, row.posting, PlanKind::kReduceScatter, false), row.want);
  }
}

TEST(P3, TogetherIsAcyclicForAllPlans) {
  size_t operations = 0;
  int plans = 0;
  for (uint32_t n = 1; n <= 64; ++n) {
    for (uint32_t m = 1; n * m <= 64; ++m) {
      for (const InterPlan inter : {InterPlan::kRing, InterPlan::kDoubling, InterPlan::kBruck}) {
        for (const PlanKind kind : {PlanKind::kAllGather, PlanKind::kReduceScatter}) {
          const StepPlan plan{n, m, inter, kind};
          if (!IsValid(plan)) continue;
          const LintResult result = Lint(plan, Posting::kTogether);
          EXPECT_FALSE(result.deadlock);
          operations += result.operations;
          ++plans;
        }
      }
    }
  }
  EXPECT_EQ(plans, 1374);
  EXPECT_GT(operations, 1'000'000u);
}

}  // namespace
}  // namespace gordian::planner
