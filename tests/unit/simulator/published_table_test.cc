// S2: what the engines count agrees with what is known of the published table's rows. The rows in
// full:
// ./dev bench simulate S2.
#include <gtest/gtest.h>

#include <cmath>

#include "simulator/sampling/estimate.h"
#include "simulator/sampling/sites.h"
#include "testing/simulator/table1.h"

namespace gordian::simulator {
namespace {

struct Numbers {
  uint64_t m1 = 0;
  uint64_t m1_direct = 0;
  uint64_t m2 = 0;
  uint64_t t = 0;
  uint64_t total = 0;
};

Numbers NumbersOf(const Config& config) {
  Problem problem;
  EXPECT_EQ(BuildProblem(config, true, &problem), "");
  Numbers numbers;
  for (const Component& c : problem.components) {
    numbers.m1 += CountM1(c).value_or(0) * c.copies;
    numbers.m1_direct += CountM1Direct(c).value_or(0) * c.copies;
    numbers.m2 += CountM2(c).value_or(0) * c.copies;
    numbers.t += PairSites(c).count() * c.copies;
    numbers.total += c.total * c.copies;
  }
  return numbers;
}

TEST(S2, FirstOrderCounts) {
  Numbers n = NumbersOf(Megatron(4, 4, 4, 400, 1200));
  EXPECT_EQ(n.m1, 51200u);
  EXPECT_EQ(n.m2, 153600u);
  n = NumbersOf(Megatron(4, 4, 4, 800, 2400));
  EXPECT_EQ(n.m1, 102400u);
  EXPECT_EQ(n.m2, 307200u);
  n = NumbersOf(Megatron(8, 6, 1, 400, 1200));
  EXPECT_EQ(n.m1, 38400u);
  EXPECT_EQ(n.m2, 192000u);
  n = NumbersOf(OneGroup());
  EXPECT_EQ(n.m1, 1280u);
  EXPECT_EQ(n.m2, 8960u);
  n = NumbersOf(Free64());
  EXPECT_EQ(n.m1, 81145u);
  EXPECT_EQ(n.m2, 231419u);
  EXPECT_EQ(n.t, 290996u);
  EXPECT_EQ(n.total, 92800u);
  EXPECT_EQ(NumbersOf(Free64(2)).m2, 463019u);
  n = NumbersOf(Free128());
  EXPECT_EQ(n.m1, 107086u);
  EXPECT_EQ(n.m1_direct, 101494u);
  EXPECT_EQ(n.m2, 738361u);
  EXPECT_EQ(n.t, 811541u);
  EXPECT_EQ(n.total, 144000u);
}

const Row& RowOf(const std::string& name) {
  static const std::vector<Row> rows = Table1();
  for (const Row& row : rows) {
    if (row.name == name) {
      return row;
    }
  }
  ADD_FAILURE() << "no row " << name;
  return rows.front();
}

void Agrees(const std::string& name, const char* what, int64_t hits, int64_t n,
            const Known& known) {
  const Interval seen = WilsonInterval(hits, n, kZ999);
  const double ratio = 100.0 * static_cast<double>(hits) / static_cast<double>(n);
  const Interval wide = Wide(known);
  const double allowed = ratio > known.ratio
                             ? std::hypot(ratio - 100 * seen.low, wide.high - known.ratio)
                             : std::hypot(100 * seen.high - ratio, known.ratio - wide.low);
  EXPECT_LE(std::abs(ratio - known.ratio), allowed)
      << name << " " << what << ": " << hits << " of " << n << ", known " << known.ratio << " %";
}

void Count(const std::string& name, int64_t rounds) {
  const Row& row = RowOf(name);
  Problem problem;
  ASSERT_EQ(BuildProblem(row.config, true, &problem), "");
  SamplerOptions options;
  options.model = row.config.model;
  options.disorder_prob = row.config.disorder_prob;
  options.sync_prob = row.config.sync_prob;
  const PlainCounts counts = CountPlain(problem, options, 2023, rounds, {.threads = 1});
  ASSERT_EQ(counts.rounds, rounds);
  if (row.by_default.ratio > 0) {
    Agrees(name, "default", counts.by_default, rounds, row.by_default);
  }
  Agrees(name, "exact", counts.exact, rounds, row.exact);
}

TEST(S2, Single) {
  Count("A2", 20000);
  Count("A5", 400000);
  Count("A6", 500);
  Count("A8", 500);
}

TEST(S2, StreamWithSync) {
  Count("B2", 8000);
  Count("B3", 5000);
  Count("B7", 300000);
  Count("B8", 50000);
  Count("B10", 50000);
}

TEST(S2, WithoutDisorderTheDefaultDetectorStillFindsDeadlocks) {
  Problem problem;
  ASSERT_EQ(BuildProblem(Free64(), true, &problem), "");
  SamplerOptions options;
  options.model = Model::kStreamWithSync;
  options.sync_prob = 4e-5;
  const PlainCounts counts = CountPlain(problem, options, 1, 300000, {.threads = 1});
  EXPECT_EQ(counts.exact, 0);
  Agrees("B7 with p=0", "default", counts.by_default, counts.rounds, {0.4824, 0.4781, 0.4867});
}

}  // namespace
}  // namespace gordian::simulator
