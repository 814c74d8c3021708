// D1: the figures of DeFT's VGG-19 table, recomputed.
#include "tests/unit/planner/vgg19.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "planner/proof/generation_machine.h"
#include "planner/schedule/baselines.h"

namespace gordian::planner {
namespace {

using testing::kMu;
using testing::Vgg19;
using testing::Vgg19Items;

TEST(D1, SumsOfTheTable) {
  const Totals totals = Sum(Vgg19());
  EXPECT_EQ(totals.forward, 37'166);
  EXPECT_EQ(totals.backward, 93'119);
  EXPECT_EQ(totals.comm, 247'725);
  EXPECT_NEAR(totals.CoverageRate(), 1.90, 0.005);
  EXPECT_EQ(ReadyTimes(Vgg19()), (std::vector<Micros>{93'119, 20'623, 7'837, 2'965, 646, 162}));
}

TEST(D1, WfbpAndPriority) {
  const Baseline wfbp = Wfbp(Vgg19());
  EXPECT_EQ(wfbp.step, 285'053);
  std::vector<Micros> ends;
  for (const Span& span : wfbp.sends) ends.push_back(span.end);
  EXPECT_EQ(ends, (std::vector<Micros>{8'813, 40'567, 219'210, 234'657, 245'919, 247'887}));
  EXPECT_EQ(Priority(Vgg19(), 11'209).step, 248'316);
  EXPECT_EQ(Priority(Vgg19(), 0).step, 253'299);
  EXPECT_EQ(PriorityBound(Vgg19()), 247'990);
}

TEST(D1, ItemsAtTheSmallestKnapsack) {
  EXPECT_EQ(SmallestKnapsack(Sum(Vgg19()), kMu), 22'524);
  const std::vector<Item> items = Vgg19Items();
  EXPECT_EQ(items.size(), 14u);
  std::map<int, int> pieces;
  Bucket sum;
  for (const Item& item : items) {
    ++pieces[item.bucket];
    sum.comm += item.time.comm;
    sum.forward += item.time.forward;
    sum.backward += item.time.backward;
    EXPECT_LE(item.time.comm, 22'524);
  }
  EXPECT_EQ(pieces, (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}, {4, 8}, {5, 2}, {6, 1}}));
  EXPECT_EQ(sum.comm, 247'725);
  EXPECT_EQ(sum.forward, 37'166);
  EXPECT_EQ(sum.backward, 93'119);
  // Remainders stand first: 178643 = 8 * 22330 + 3.
  EXPECT_EQ(items[3].time.comm, 22'331);
  EXPECT_EQ(items[5].time.comm, 22'331);
  EXPECT_EQ(items[6].time.comm, 22'330);
}

TEST(D1, SpeedUps) {
  const PeriodicSchedule deft = RunUntilPeriodic(Vgg19Items(), {.links = 1});
  EXPECT_EQ(deft.step, 130'285);
  EXPECT_NEAR(static_cast<double>(Wfbp(Vgg19()).step) / deft.step, 2.188, 0.0005);
  // Over the best that any priority order could do, and over the best that was simulated.
  EXPECT_NEAR(static_cast<double>(PriorityBound(Vgg19())) / deft.step, 1.903, 0.0005);
  EXPECT_GT(Priority(Vgg19(), 11'209).step, PriorityBound(Vgg19()));
}

struct Row {
  int links;
  double scale;
  double frequency;
  std::vector<int> merged;  // sorted
  double step;
};

// The exact steps of the scaled rows hang on which of several equally good choices is taken.
TEST(D1, FrequenciesAndSteps) {
  const std::vector<Row> rows = {
      {1, 1.0, 0.500, {2}, 130'285},          {1, 1.2, 0.600, {1, 2, 2}, 151'195},
      {1, 1.5, 0.750, {1, 1, 2}, 187'502},    {1, 2.0, 1.000, {1}, 247'875},
      {2, 1.0, 0.800, {1, 1, 1, 2}, 130'285}, {2, 1.1, 0.875, {1, 1, 1, 1, 1, 1, 2}, 140'856},
      {2, 1.2, 1.000, {1}, 156'155}};
  for (const Row& row : rows) {
    PeriodicSchedule schedule =
        RunUntilPeriodic(Vgg19Items(), {.links = row.links, .scale = row.scale});
    SCOPED_TRACE("links " + std::to_string(row.links) + ", scale " + std::to_string(row.scale));
    EXPECT_TRUE(schedule.exact);
    EXPECT_NEAR(schedule.updates_per_iteration, row.frequency, 1e-9);
    std::sort(schedule.merged.begin(), schedule.merged.end());
    EXPECT_EQ(schedule.merged, row.merged);
    EXPECT_NEAR(schedule.step, row.step, 0.001 * row.step);
    if (row.scale == 1.0) {
      EXPECT_EQ(schedule.step, row.step);
    }
  }
}

TEST(D1, FirstBackwardStage) {
  for (const auto& [links, want] : {std::pair{1, std::array<Micros, 2>{91'863, 0}},
                                    std::pair{2, std::array<Micros, 2>{91'863, 87'965}}}) {
    GenerationMachine machine(Vgg19Items(), {.links = links});
    std::array<Micros, 2> sent{};
    for (const Send& send : machine.Next().backward.sends) {
      sent[send.link - 1] += send.end - send.begin;
    }
    EXPECT_EQ(sent, want);
  }
}

TEST(D1, FillAndLimits) {
  const std::vector<Item> items = Vgg19Items();
  for (const auto& [links, solver, want] : {std::tuple{1, Solver::kExact, 0.9506},
                                            {1, Solver::kGreedy, 0.9506},
                                            {2, Solver::kExact, 0.9470},
                                            {2, Solver::kGreedy, 0.9470}}) {
    GenerationMachine machine(items, {.links = links, .solver = solver});
    Micros sending = 0, time = 0;
    int updates = 0;
    for (int i = 0; i < 2000; ++i) {
      const Iteration iteration = machine.Next();
      for (const Stage* stage : {&iteration.forward, &iteration.backward}) {
        time += stage->length;
        for (const Send& send : stage->sends) sending += send.end - send.begin;
      }
      updates += static_cast<int>(iteration.updates.size());
    }
    // Which of equally good choices is taken moves the second link by a few thousandths.
    EXPECT_NEAR(static_cast<double>(sending) / (static_cast<double>(time) * links), want,
                links == 1 ? 5e-5 : 2e-3);
    EXPECT_NEAR(updates / 2000.0, links == 1 ? 0.5 : 0.8, 0.002);
  }
  const double cr = Sum(Vgg19()).CoverageRate();
  EXPECT_NEAR(1 / cr, 0.526, 0.0005);
  EXPECT_NEAR((1 + 1 / kMu) / cr, 0.845, 0.0005);
}

TEST(D1, BoundsOfTableI) {
  const auto ratio = [](double f, double b, double c) {
    return std::pair{(f + b + c - b) / (f + b), c / (f + b)};
  };
  const auto [wfbp, priority] = ratio(59, 118, 242);  // all communication, then forward
  EXPECT_NEAR(wfbp, 1.70, 0.005);
  EXPECT_NEAR(priority, 1.367, 0.0005);
}

TEST(D1, NothingToHide) {
  // Communication far below the computation, as with large models: an update in every iteration,
  // but for the bucket nearest the input, whose gradient is ready last: it goes in the next forward
  // pass.
  const std::vector<Bucket> buckets = {{100, 200, 5}, {100, 200, 5}, {100, 200, 5}};
  const PeriodicSchedule schedule = RunUntilPeriodic(Partition(buckets, 0, kMu), {.links = 1});
  EXPECT_EQ(schedule.updates_per_iteration, 1);
  EXPECT_EQ(schedule.step, 900);
  EXPECT_EQ(schedule.max_staleness, 1);
}

TEST(D1, PartitionByElements) {
  const std::vector<Item> items = Partition({{10, 20, 30, 7}, {1, 2, 3, 2}}, 0, kMu, 3);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0].elements, 3);
  EXPECT_EQ(items[1].first_element, 3);
  EXPECT_EQ(items[1].elements, 2);
  EXPECT_EQ(items[2].first_element, 5);
  EXPECT_EQ(items[2].elements, 2);
  EXPECT_EQ(items[3].bucket, 2);
  EXPECT_EQ(items[3].elements, 2);
}

TEST(D1, PiecesHaveAPrice) {
  // One of 100 in 10 pieces without a price; with 5 each, what moves takes 95.
  const std::vector<Bucket> buckets = {{10, 20, 100, 50}};
  for (const auto& [startup, pieces, longest, all] :
       {std::tuple(0, 10, 10, 100), {5, 19, 10, 190}, {9, 91, 10, 910}}) {
    const std::vector<Item> items = Partition(buckets, 10, kMu, 0, startup);
    if (pieces > 50) {  // not in more pieces than it has elements
      EXPECT_EQ(items.size(), 50u);
      continue;
    }
    ASSERT_EQ(items.size(), static_cast<size_t>(pieces));
    Micros sum = 0;
    for (const Item& item : items) {
      EXPECT_LE(item.time.comm, longest);
      sum += item.time.comm;
    }
    EXPECT_EQ(sum, all);
  }
  EXPECT_TRUE(Partition(buckets, 10, kMu, 0, 10).empty()) << "no piece is short enough";
  EXPECT_EQ(Partition(buckets, 100, kMu, 0, 10).size(), 1u) << "whole, it fits";
  EXPECT_EQ(Priority({{10, 20, 100, 50}}, 50, 0).step + 30,
            Priority({{10, 20, 100, 50}}, 50, 30).step);
}

TEST(D1, BadTables) {
  EXPECT_EQ(CheckBuckets(Vgg19()), "");
  EXPECT_NE(CheckBuckets({}), "");
  EXPECT_EQ(CheckBuckets({{1, 1, 1}, {1, -1, 1}}), "bucket 2: backward is negative");
  EXPECT_NE(CheckBuckets({{0, 1, 1}}), "");
  EXPECT_NE(CheckBuckets({{1, 1, int64_t{1} << 60}}), "");
}

}  // namespace
}  // namespace gordian::planner
