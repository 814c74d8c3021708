// What the minimiser does with callbacks and limits, with sizes and with names.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "replayer/record/buffers.h"
#include "replayer/reduce/minimizer.h"
#include "replayer/reduce/minimizer_cuts.h"
#include "replayer/reduce/mismatch.h"
#include "replayer/reduce/model_run.h"
#include "tests/measured/unequal_counts.h"
#include "tests/unit/replayer/hang_shapes.h"

namespace gordian::replayer {
namespace {

using testing::Bury;
using testing::Calls;
using testing::HangShapes;
using testing::ScheduleBuilder;

Schedule BuriedInversion() { return Bury(HangShapes().front(), /*twin=*/false, 8, 3); }

bool Has(const Schedule& schedule, OpId id) {
  for (const RankProgram& rank : schedule.ranks) {
    for (const ThreadProgram& thread : rank.threads) {
      if (std::any_of(thread.ops.begin(), thread.ops.end(),
                      [&](const Op& op) { return op.id == id; }))
        return true;
    }
  }
  return false;
}

OpId AnyKernel(const Schedule& schedule, size_t rank) {
  for (const Op& op : schedule.ranks[rank].threads[0].ops) {
    if (op.kind == OpKind::kKernel) return op.id;
  }
  return 0;
}

TEST(Minimizer, ARunIsAskedForOnceWhereTheModelIsRight) {
  size_t runs = 0;
  const MinimizeReport report =
      Minimize(BuriedInversion(), {.confirm = [&](const Schedule& candidate) {
                 EXPECT_EQ(CountOperations(candidate), 4u);
                 ++runs;
                 return true;
               }});
  EXPECT_TRUE(report.confirmed);
  EXPECT_EQ(runs, 1u);
  EXPECT_EQ(report.confirmations, 1u);
  EXPECT_EQ(report.operations_after, 4u);
}

// A kernel that the model knows nothing of is what makes it hang when it runs.
TEST(Minimizer, WhatRunsSayIsNeededStays) {
  const Schedule whole = BuriedInversion();
  const OpId needed = AnyKernel(whole, 5);
  ASSERT_NE(needed, 0u);
  size_t runs = 0;
  const MinimizeReport report = Minimize(whole, {.confirm =
                                                     [&](const Schedule& candidate) {
                                                       ++runs;
                                                       return Has(candidate, needed);
                                                     },
                                                 .max_confirmations = 1000});
  EXPECT_EQ(report.refused, "");
  EXPECT_TRUE(report.confirmed);
  EXPECT_TRUE(report.minimal);
  EXPECT_TRUE(Has(report.schedule, needed));
  EXPECT_EQ(report.operations_after, 4u);
  EXPECT_EQ(report.calls_after, 5u);  // the kernel, and nothing else beside the smallest
  EXPECT_EQ(report.confirmations, runs);
}

TEST(Minimizer, WhatDoesNotHangWhenItRunsIsRefused) {
  const MinimizeReport report =
      Minimize(BuriedInversion(), {.confirm = [](const Schedule&) { return false; }});
  EXPECT_NE(report.refused.find("a run of it does not hang in that way"), std::string::npos)
      << report.refused;
  EXPECT_TRUE(report.schedule.ranks.empty());
  EXPECT_EQ(report.confirmations, 2u);  // the smallest, the whole
}

TEST(Minimizer, LimitsEndTheSearchWithWhatThereIs) {
  const Schedule whole = BuriedInversion();
  const MinimizeReport few = Minimize(whole, {.max_candidates = 4});
  EXPECT_EQ(few.refused, "");
  EXPECT_FALSE(few.minimal);
  EXPECT_EQ(few.candidates, 4u);
  EXPECT_TRUE(RunModel(few.schedule).hangs);
  size_t asked = 0, least = SIZE_MAX;
  const MinimizeReport stopped =
      Minimize(whole, {.progress = [&](const MinimizeProgress& progress) {
                 EXPECT_NE(std::string(progress.step), "");
                 EXPECT_LE(progress.operations, least);
                 least = progress.operations;
                 return ++asked <= 20;
               }});
  EXPECT_FALSE(stopped.minimal);
  EXPECT_EQ(stopped.candidates, 20u);
  EXPECT_EQ(Describe(stopped).find("not searched to the end") == std::string::npos, false)
      << Describe(stopped);
}

TEST(Minimizer, SixtyFourRanksOfNoiseAreNoMore) {
  const Schedule whole = Bury(HangShapes().front(), /*twin=*/false, 64, 12);
  EXPECT_GT(CountCalls(whole), 6000u);
  const MinimizeReport report = Minimize(whole);
  EXPECT_TRUE(report.minimal);
  EXPECT_EQ(report.ranks_after, 2u);
  EXPECT_EQ(report.operations_after, 4u);
  EXPECT_LT(report.candidates, 400u);
}

TEST(Minimizer, RanksAreNumberedAnewAndKeepTheirNames) {
  const Schedule whole = BuriedInversion();
  const MinimizeReport report = Minimize(whole);
  ASSERT_EQ(report.schedule.ranks.size(), 2u);
  EXPECT_EQ(report.schedule.ranks[0].rank, 4);
  EXPECT_EQ(report.schedule.ranks[1].rank, 5);
  EXPECT_EQ(report.schedule.ranks[1].device, 1);
  ASSERT_EQ(report.schedule.comms.size(), 2u);
  EXPECT_EQ(report.schedule.comms[0].name, "dp");
  EXPECT_EQ(report.schedule.comms[0].members, (std::vector<int>{0, 1}));
  EXPECT_EQ(report.schedule.origin, whole.origin);
  EXPECT_EQ(report.ranks_before, 8u);
  EXPECT_EQ(Describe(report).rfind("2 of 8 ranks, 4 of ", 0), 0u) << Describe(report);
}

// Peers and roots are places among the members, which change when one before them goes.
TEST(Minimizer, PeersAndRootsMoveWithTheMembers) {
  ScheduleBuilder job(6);
  const int world = job.Comm("world", {0, 1, 2, 3, 4, 5});
  job.On(3).Recv(world, 5).Send(world, 5).Sync().Stands();
  job.On(5).Recv(world, 3).Broadcast(world, 3).Sync().Stands();
  for (const int rank : {0, 1, 2, 4}) job.On(rank).Broadcast(world, 3).Sync().Stands();
  const MinimizeReport report = Minimize(job.Build());
  ASSERT_EQ(report.refused, "");
  ASSERT_EQ(report.schedule.ranks.size(), 2u);
  EXPECT_EQ(report.schedule.comms[0].members, (std::vector<int>{0, 1}));
  EXPECT_EQ(report.schedule.ranks[0].threads[0].ops[0].root_or_peer, 1);
  EXPECT_EQ(report.schedule.ranks[1].threads[0].ops[0].root_or_peer, 0);
}

TEST(Minimizer, SizesShrinkWithinTheirClass) {
  // The least bytes of each class, but the first.
  const std::vector<uint64_t> from = {256 << 10, 1792 << 10,     2 << 20,
                                      32 << 20,  (64 << 20) + 8, (65 << 20) + 8};
  for (size_t i = 0; i <= from.size(); ++i) {
    const uint64_t count = i == from.size() ? uint64_t{1} << 25 : from[i] / 4 - 2;
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1}), tp = job.Comm("tp", {0, 1});
    job.On(0).AllReduce(dp, 0, count).AllReduce(tp, 0, count).Sync().Stands();
    job.On(1).AllReduce(tp, 0, count).AllReduce(dp, 0, count).Sync().Stands();
    const Schedule whole = job.Build();
    const MinimizeReport report = Minimize(whole);
    const Op &before = whole.ranks[0].threads[0].ops[0],
             &after = report.schedule.ranks[0].threads[0].ops[0];
    EXPECT_LT(after.count, before.count);
    EXPECT_EQ(ClassOf(after, 2), ClassOf(before, 2));
    EXPECT_EQ(after.count,
              report.schedule.ranks[1].threads[0].ops[1].count);  // of the same operation
  }
}

TEST(Minimizer, MismatchesKeepTheirOutcome) {
  for (const measured::Pair& pair : measured::UnequalCounts()) {
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1});
    job.On(0).AllReduce(dp, 0, pair.smaller_bytes).Sync().Stands();
    job.On(1).AllReduce(dp, 0, pair.larger_bytes).Sync().Stands();
    Schedule whole = job.Build();
    ForEachOp(whole, [](size_t, size_t, Op& op) { op.datatype = 0; });  // of one byte
    const Schedule reduced = WithLeastBytes(whole, whole, Steps(whole));
    const uint64_t smaller = Bytes(reduced.ranks[0].threads[0].ops[0]),
                   larger = Bytes(reduced.ranks[1].threads[0].ops[0]);
    EXPECT_LT(smaller, larger) << pair;
    EXPECT_LE(larger, pair.larger_bytes) << pair;
    EXPECT_EQ(EndsUnequal(smaller, smaller, larger),
              EndsUnequal(pair.smaller_bytes, pair.smaller_bytes, pair.larger_bytes))
        << pair;
    EXPECT_EQ(EndsUnequal(larger, smaller, larger),
              EndsUnequal(pair.larger_bytes, pair.smaller_bytes, pair.larger_bytes))
        << pair;
  }
}

TEST(Minimizer, CountsThatDifferedStillDo) {
  for (const uint64_t count : {uint64_t{1} << 12, uint64_t{1} << 26}) {
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1});
    job.On(0).AllReduce(dp, 0, count).Sync().Stands();
    job.On(1).AllReduce(dp, 0, count / 2).Sync().Stands();
    const MinimizeReport report = Minimize(job.Build());
    const uint64_t first = report.schedule.ranks[0].threads[0].ops[0].count,
                   second = report.schedule.ranks[1].threads[0].ops[0].count;
    EXPECT_LT(second, first);
    EXPECT_LT(first, count);
    EXPECT_EQ(RunModel(report.schedule).check, "mismatch-count");
  }
}

TEST(Minimizer, CommunicatorsAreMadeBeforehandWhereThatChangesNothing) {
  ScheduleBuilder job(2);
  const int world = job.Comm("world", {0, 1});
  const int dp = job.UnmadeComm("dp", {0, 1}), tp = job.UnmadeComm("tp", {0, 1}, world);
  for (int rank = 0; rank < 2; ++rank) {
    job.On(rank).Init(dp).Split(world, tp, 0).AllReduce(dp).AllReduce(tp).Sync(0);
    job.On(rank).AllReduce(rank == 0 ? dp : tp).AllReduce(rank == 0 ? tp : dp).Sync(0).Stands();
  }
  const MinimizeReport report = Minimize(job.Build());
  ASSERT_EQ(report.schedule.comms.size(), 2u);
  EXPECT_TRUE(report.schedule.comms[0].ready);
  EXPECT_TRUE(report.schedule.comms[1].ready);
  EXPECT_EQ(report.schedule.comms[1].parent, -1);
}

TEST(Minimizer, ThreadsAndStreamsBecomeOneWhereThatChangesNothing) {
  ScheduleBuilder job(2);
  const int dp = job.Comm("dp", {0, 1}), tp = job.Comm("tp", {0, 1});
  const OpId first = job.On(0).AllReduce(dp, 1).last();
  const OpId second = job.On(0, 1).AllReduce(tp, 1).After(first).last();
  job.On(0).Sync(1).After(second).Stands();
  job.On(1).AllReduce(tp, 0).AllReduce(dp, 0).Sync(0).Stands();
  const MinimizeReport report = Minimize(job.Build());
  ASSERT_EQ(report.refused, "");
  EXPECT_EQ(report.schedule.ranks[0].threads.size(), 1u);
  EXPECT_EQ(report.schedule.ranks[0].streams.size(), 1u);
  for (const Op& op : report.schedule.ranks[0].threads[0].ops) EXPECT_TRUE(op.gates.empty());
}

// Both ranks' threads in their order, or both the other way round, hang; one of each does not.
TEST(Minimizer, AGateThatAnotherOrderNeedsStays) {
  ScheduleBuilder job(2);
  const int dp = job.Comm("dp", {0, 1}), tp = job.Comm("tp", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    const OpId first = job.On(rank).AllReduce(rank == 0 ? dp : tp).last();
    job.On(rank).Sync().Stands();
    job.On(rank, 1).AllReduce(rank == 0 ? tp : dp).After(first).Sync().Stands();
  }
  Schedule free = job.Build();
  for (RankProgram& rank : free.ranks) rank.threads[1].ops[0].gates.clear();
  EXPECT_TRUE(RunModel(free).hangs);
  EXPECT_TRUE(RunModel(free, ~kFirstFirst).hangs);
  EXPECT_FALSE(RunModel(free, LastThreadFirst(1)).hangs);
  const MinimizeReport report = Minimize(job.Build());
  for (const RankProgram& rank : report.schedule.ranks) {
    ASSERT_EQ(rank.threads.size(), 2u);
    EXPECT_EQ(rank.threads[0].ops[0].gates.size() + rank.threads[1].ops[0].gates.size(), 1u);
  }
}

// What a capture uses first connects on the host, which the model does not know.
TEST(Minimizer, CapturedCommunicatorsStayConnected) {
  const auto shape = std::find_if(HangShapes().begin(), HangShapes().end(),
                                  [](const auto& s) { return s.name == "graph_order"; });
  const MinimizeReport report = Minimize(Bury(*shape, /*twin=*/false, 6, 2));
  ASSERT_EQ(report.schedule.comms.size(), 2u);
  for (const Communicator& comm : report.schedule.comms) {
    EXPECT_TRUE(comm.connected);
    EXPECT_TRUE(comm.connected_pairs.empty());
  }
}

TEST(Minimizer, AGateThatIsNeededStays) {
  const auto shape = std::find_if(HangShapes().begin(), HangShapes().end(),
                                  [](const auto& s) { return s.name == "two_threads"; });
  const MinimizeReport report = Minimize(Bury(*shape, /*twin=*/false, 6, 2));
  size_t gates = 0;
  for (const RankProgram& rank : report.schedule.ranks) {
    for (const ThreadProgram& thread : rank.threads) {
      for (const Op& op : thread.ops) gates += op.gates.size();
    }
  }
  EXPECT_EQ(gates, 1u);
}

}  // namespace
}  // namespace gordian::replayer
