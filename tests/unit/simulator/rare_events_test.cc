// S4: estimators of rare deadlocks. In full: ./dev bench simulate S4.
#include <gtest/gtest.h>

#include <cmath>

#include "simulator/sampling/estimate.h"
#include "simulator/simulate.h"
#include "testing/simulator/table1.h"

namespace gordian::simulator {
namespace {

struct Built {
  Problem problem;
  SamplerOptions options;
};

Built Build(const Config& config) {
  Built built;
  EXPECT_EQ(BuildProblem(config, true, &built.problem), "");
  built.options.model = config.model;
  built.options.disorder_prob = config.disorder_prob;
  built.options.sync_prob = config.sync_prob;
  return built;
}

TEST(S4, TheRareRowsOfTheTable) {
  for (const Row& row : Table1()) {
    if (row.exact.ratio > 1e-3) {
      continue;
    }
    SimulateOptions options;
    options.wanted = {false, true};
    options.relative_error = 0.02;
    SimulateReport report;
    ASSERT_EQ(Simulate(row.config, options, &report), "");
    const Estimate& estimate = report.exact.estimate;
    EXPECT_NEAR(100 * estimate.ratio / row.exact.ratio, 1, 0.04) << row.name;
    EXPECT_NEAR((estimate.interval.high - estimate.interval.low) / 2 / estimate.ratio, 0.02, 0.004)
        << row.name;
    EXPECT_EQ(estimate.method, "forced pair");
  }
}

TEST(S4, CheckPointOfForcedPairs) {
  const Built b = Build(With(Free64(), Model::kStreamWithSync, 2e-3, 5e-4));
  const Estimate estimate = ForcedPair(b.problem, b.options, 1, 8000, 0, {.threads = 1});
  EXPECT_NEAR(estimate.ratio / 1.152e-4, 1, 0.03);
}

TEST(S4, ForcedPairsAndPlainRoundsAgreeWhereBothCount) {
  // Rates at which much is of second order: without the rounds that show no site it would be too
  // low.
  const Built b = Build(With(Megatron(3, 2, 1, 12, 30), Model::kStreamWithSync, 0.02, 0.03));
  SamplerOptions exact = b.options;
  exact.wanted = {false, true};
  const PlainCounts counts = CountPlain(b.problem, exact, 3, 200000, {.threads = 1});
  const Interval plain = WilsonInterval(counts.exact, counts.rounds, kZ999);
  const Estimate forced = ForcedPair(b.problem, b.options, 4, 40000, 100000, {.threads = 1});
  EXPECT_GT(forced.interval.high, plain.low);
  EXPECT_LT(forced.interval.low, plain.high);
  const Estimate without = ForcedPair(b.problem, b.options, 4, 40000, 0, {.threads = 1});
  EXPECT_LT(without.interval.high, plain.low);
  EXPECT_GT(without.residual, 0);
}

TEST(S4, ForcedSwapsAndPlainRoundsAgree) {
  const Built b = Build(With(Megatron(3, 2, 2, 12, 30), Model::kSingle, 1e-3, 0));
  const PlainCounts counts = CountPlain(b.problem, b.options, 3, 100000, {.threads = 1});
  for (const bool exact : {true, false}) {
    const Interval plain =
        WilsonInterval(exact ? counts.exact : counts.by_default, counts.rounds, kZ999);
    const Estimate forced = ForcedSwap(b.problem, b.options, exact, 4, 20000, {.threads = 1});
    EXPECT_GT(forced.interval.high, plain.low) << exact;
    EXPECT_LT(forced.interval.low, plain.high) << exact;
  }
}

TEST(S4, ConditionedCountsAndPlainRoundsAgree) {
  const Config config = With(ShippedArbitrary(-1), Model::kStreamWithSync, 0.1, 0.01);
  const Built b = Build(config);
  const PlainCounts counts = CountPlain(b.problem, b.options, 3, 400000, {.threads = 1});
  for (const bool exact : {true, false}) {
    const Interval plain =
        WilsonInterval(exact ? counts.exact : counts.by_default, counts.rounds, kZ999);
    const Estimate forced =
        ConditionedCounts(b.problem, b.options, exact, 4, 100000, {.threads = 1});
    EXPECT_GT(forced.interval.high, plain.low) << exact;
    EXPECT_LT(forced.interval.low, plain.high) << exact;
  }
}

TEST(S4, CheckPointOfConditionedCounts) {
  const Built b = Build(With(Free64(), Model::kStreamWithSync, 4e-5, 4e-6));
  const Estimate estimate =
      ConditionedCounts(b.problem, b.options, false, 1, 400000, {.threads = 1});
  EXPECT_GT(estimate.interval.high, 5.58e-6);
  EXPECT_LT(estimate.interval.low, 6.54e-6);
}

TEST(S4, IntervalsCover) {
  const Built b = Build(With(Free64(), Model::kStreamWithSync, 2e-3, 5e-4));
  const double truth = ForcedPair(b.problem, b.options, 77, 40000, 0, {.threads = 1}).ratio;
  int covered = 0;
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    const Estimate estimate = ForcedPair(b.problem, b.options, seed, 100, 0, {.threads = 1});
    covered += estimate.interval.low <= truth && truth <= estimate.interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 88);  // of 100 at 95 %: fewer once in a thousand
}

TEST(S4, Wilson) {
  const Interval none = WilsonInterval(0, 1000);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 3.8415 / 1003.8415, 1e-6);
  const Interval ten = WilsonInterval(10, 100);
  EXPECT_NEAR(ten.low, 0.05522, 1e-5);
  EXPECT_NEAR(ten.high, 0.17437, 1e-5);
}

TEST(S4, BinomialTails) {
  EXPECT_NEAR(BinomialTail(10, 0.5, 10), 0x1p-10, 1e-12);
  EXPECT_NEAR(BinomialTail(92800, 4e-6, 2) / 0.0541, 1, 0.01);
  EXPECT_NEAR(BinomialTail(1000000, 1e-9, 2) / 5e-7, 1, 1e-3);
}

}  // namespace
}  // namespace gordian::simulator
