// D3: the Preserver's expectations to nine digits, and what it accepts.
#include "planner/proof/preserver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "planner/schedule/plan.h"

namespace gordian::planner {
namespace {

constexpr LossWalk kWalk{
    .loss = 0.0050, .least = 0, .rate = 0.01, .drift = 0.45, .deviation = 40, .batch = 256};

void ExpectLosses(const std::vector<int>& merged, Merge merge, const std::vector<double>& want) {
  const std::vector<double> losses = ExpectedLosses(kWalk, merged, merge);
  ASSERT_EQ(losses.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(losses[i], want[i], 1e-9) << i;
}

TEST(D3, ListedValues) {
  ExpectLosses({1, 1, 1, 1}, Merge::kSum, {0.019951103, 0.023640009, 0.025523407, 0.026612143});
  ExpectLosses({2, 1, 1}, Merge::kSum, {0.028389828, 0.028419976, 0.028439905});
  ExpectLosses({2, 1, 1}, Merge::kMean, {0.014110381, 0.021403072, 0.024340386});
  EXPECT_NEAR(
      ExpectedLoss({.loss = 1, .least = 0, .rate = 1, .drift = 0, .deviation = 1, .batch = 1}),
      1.1666309412, 1e-9);
}

TEST(D3, TheExpectationIsThatOfTheWalk) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> step(kWalk.drift, kWalk.deviation / std::sqrt(kWalk.batch));
  constexpr int kDraws = 2'000'000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double to = kWalk.loss - kWalk.rate * step(random);
    sum += to >= kWalk.least ? to : 2 * kWalk.least - to;
  }
  // Standard deviation of one draw is about 0.015.
  EXPECT_NEAR(sum / kDraws, ExpectedLoss(kWalk), 5 * 0.015 / std::sqrt(kDraws));
}

TEST(D3, WhatIsAccepted) {
  EXPECT_NEAR(0.1922 / 0.1935, 0.993, 0.0005);
  EXPECT_TRUE(RatioAccepted(0.1922 / 0.1935, 0.01));
  EXPECT_FALSE(RatioAccepted(0.98, 0.01));
  EXPECT_TRUE(RatioAccepted(0.98, 0.02));
  EXPECT_FALSE(RatioAccepted(1.02, 0.01));
  const Preservation merged = Assess(kWalk, {2, 1, 1}, 0.01);
  EXPECT_NEAR(merged.plain, 0.026612143, 1e-9);
  EXPECT_NEAR(merged.delayed, 0.028439905, 1e-9);
  EXPECT_FALSE(merged.accepted);
  EXPECT_TRUE(Assess(kWalk, {1, 1, 1}, 0.01).accepted);
}

// Stages are stretched until merging is rare enough, ten times at most.
TEST(D3, Retries) {
  const auto plan = [](Micros comm, double epsilon) {
    std::string error;
    const std::optional<Plan> made = MakePlan({{3000, 9000, comm}, {3000, 9000, comm}},
                                              {.epsilon = epsilon, .walk = kWalk}, &error);
    EXPECT_TRUE(made) << error;
    return *made;
  };
  const Plan kept = plan(18'000, 0.01);
  EXPECT_EQ(kept.convergence, Convergence::kKept);
  EXPECT_GT(kept.retries, 0);
  EXPECT_LE(kept.retries, kMostRetries);
  EXPECT_NEAR(kept.scale, std::pow(1.1, kept.retries), 1e-9);
  const Plan refused = plan(90'000, 0.01);
  EXPECT_EQ(refused.convergence, Convergence::kRefused);
  EXPECT_EQ(refused.retries, kMostRetries);
  EXPECT_EQ(plan(90'000, 0.9).convergence, Convergence::kKept);
  EXPECT_EQ(plan(90'000, 0.9).retries, 0);
}

TEST(D3, NoNoise) {
  EXPECT_DOUBLE_EQ(ExpectedLoss({.loss = 1, .least = 0.2, .rate = 0.1, .drift = 2, .deviation = 0}),
                   0.8);
  EXPECT_DOUBLE_EQ(ExpectedLoss({.loss = 1, .least = 0.9, .rate = 0.1, .drift = 2, .deviation = 0}),
                   1.0);
}

}  // namespace
}  // namespace gordian::planner
