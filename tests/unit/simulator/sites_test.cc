// The counts of sites, against counts without any thought, and on groups as large as they come.
#include "simulator/sampling/sites.h"

#include <gtest/gtest.h>

#include <numeric>

#include "simulator/simulate.h"
#include "testing/simulator/table1.h"
#include "testing/simulator/twins.h"

namespace gordian::simulator {
namespace {

// Where each GPU has each collective; -1: nowhere.
std::vector<std::vector<int64_t>> Positions(const Component& c) {
  std::vector<std::vector<int64_t>> position(c.gpus, std::vector<int64_t>(c.collectives, -1));
  for (uint32_t u = 0; u < c.gpus; ++u) {
    for (uint32_t at = 0; at < c.Length(u); ++at) position[u][c.Collective(u, at)] = at;
  }
  return position;
}

// By the definitions in sites.h, word by word.
uint64_t NaiveM2(const Component& c) {
  const auto position = Positions(c);
  uint64_t sum = 0;
  for (uint32_t u = 0; u < c.gpus; ++u) {
    for (uint32_t at = 0; at + 1 < c.Length(u); ++at) {
      const uint32_t x = c.Collective(u, at);
      const uint32_t y = c.Collective(u, at + 1);
      for (uint32_t h = 0; h < c.gpus; ++h) {
        if (h == u || position[h][x] < 0 || position[h][y] < position[h][x]) continue;
        sum += static_cast<uint64_t>(position[h][y] - position[h][x]);
      }
    }
  }
  return sum;
}

// GPU u skips x and waits before the next emission; `other`, in y's group, has emitted something
// from x on, but not y.
uint64_t NaiveSites(const Component& c) {
  const auto position = Positions(c);
  uint64_t sum = 0;
  for (uint32_t u = 0; u < c.gpus; ++u) {
    for (uint32_t at = 0; at + 1 < c.Length(u); ++at) {
      const uint32_t x = c.Collective(u, at);
      const uint32_t y = c.Collective(u, at + 1);
      for (uint32_t h = 0; h < c.gpus; ++h) {
        if (h == u || position[h][y] < 0) continue;
        for (int64_t wait = 1; wait <= position[h][y]; ++wait) {
          const uint32_t last = c.Collective(h, static_cast<uint32_t>(wait - 1));
          sum += c.rank[last] >= c.rank[x] ? 1 : 0;
        }
      }
    }
  }
  return sum;
}

Problem ProblemOf(const Config& config) {
  Problem problem;
  EXPECT_EQ(BuildProblem(config, true, &problem), "");
  return problem;
}

Config OneGroupOf(uint32_t gpus, uint32_t collectives) {
  Config config;
  config.gpu_num = gpus;
  GroupSpec group{.gpus = std::vector<uint32_t>(gpus), .count = collectives};
  std::iota(group.gpus.begin(), group.gpus.end(), 0u);
  config.groups.push_back(std::move(group));
  return config;
}

TEST(Sites, AreThoseOfTheDefinition) {
  uint64_t counted = 0;
  for (uint64_t job = 0; job < 400; ++job) {
    Config config = RandomJob(job, 9, 40);
    if (job % 2 == 1) config.lists = ListOrder::kConcat;
    for (const Component& c : ProblemOf(config).components) {
      ASSERT_EQ(CountM2(c), NaiveM2(c)) << job;
      ASSERT_EQ(PairSites(c).count(), NaiveSites(c)) << job;
      counted += NaiveM2(c);
    }
  }
  EXPECT_GT(counted, 10000u);
}

// Lists of GPUs' own, without a common order.
TEST(Sites, OfListsThatAreGiven) {
  for (uint64_t job = 0; job < 100; ++job) {
    Config config = RandomJob(job, 6, 20);
    config.lists = ListOrder::kGiven;
    config.order.resize(static_cast<size_t>(config.gpu_num));
    for (uint32_t gpu = 0; gpu < config.gpu_num; ++gpu) {
      for (uint32_t i = 0; i < config.groups.size(); ++i) {
        const auto g = static_cast<uint32_t>((i + gpu * job) % config.groups.size());
        const GroupSpec& group = config.groups[g];
        if (std::find(group.gpus.begin(), group.gpus.end(), gpu) == group.gpus.end()) continue;
        config.order[gpu].insert(config.order[gpu].end(), group.count, g);
      }
    }
    for (const Component& c : ProblemOf(config).components) {
      ASSERT_EQ(CountM2(c), NaiveM2(c)) << job;
    }
  }
}

// Cubic counts would take days here.
TEST(Sites, OfLargeGroups) {
  const uint64_t n = 200'000, k = 20;
  const Component c = ProblemOf(OneGroupOf(n, k)).components.at(0);
  EXPECT_EQ(CountM2(c), n * (n - 1) * (k - 1));
  EXPECT_EQ(PairSites(c).count(), n * (n - 1) * (k - 1));
  // Of 400 and 500 GPUs: no two GPUs are in the same two groups.
  Problem grid = ProblemOf(Megatron(400, 500, 1, 4, 8));
  EXPECT_GT(CountM2(grid.components.at(0)).value_or(0), 0u);
}

TEST(Sites, AStopIsHeard) {
  const Component c = ProblemOf(OneGroupOf(5000, 300)).components.at(0);
  int asked = 0;
  EXPECT_EQ(CountM2(c, [&] { return ++asked > 0; }), std::nullopt);
  EXPECT_EQ(CountM1(c, [&] { return ++asked > 0; }), std::nullopt);
  EXPECT_GE(asked, 2);
  EXPECT_LT(asked, 100);
  EXPECT_TRUE(CountM2(c).has_value());
}

TEST(Sites, AStopBeforeTheFirstRoundLeavesTheFirstOrderOut) {
  const Config config = With(Megatron(8, 8, 1, 40, 40), Model::kStreamWithSync, 1e-3, 1e-3);
  SimulateOptions options;
  options.rounds = 100;
  options.control.stop = [] { return true; };
  SimulateReport report;
  ASSERT_EQ(Simulate(config, options, &report), "");
  EXPECT_FALSE(report.m2.has_value());
  EXPECT_FALSE(report.complete);
}

// Rounds that would look at pairs of GPUs for hours are refused, not begun.
TEST(Sites, WhatNoRoundCanDoIsRefused) {
  const Config config = With(OneGroupOf(1'000'000, 50), Model::kStreamWithSync, 1e-3, 0.1);
  SimulateReport report;
  const std::string wrong = Simulate(config, SimulateOptions(), &report);
  EXPECT_NE(wrong.find("sync_prob"), std::string::npos) << wrong;
  const Config rare = With(OneGroupOf(1'000'000, 50), Model::kStreamWithSync, 1e-3, 1e-7);
  SimulateOptions options;
  options.rounds = 2;
  EXPECT_EQ(Simulate(rare, options, &report), "");
  EXPECT_EQ(report.rounds, 2);
}

}  // namespace
}  // namespace gordian::simulator
