// Programs of which hardware has said what becomes of them (docs/emulator-truth.md), each beside
// the same without the detail that makes it hang.
#include "replayer/reduce/model_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "replayer/reduce/mismatch.h"
#include "tests/measured/unequal_counts.h"
#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer {
namespace {

using testing::Calls;
using testing::ScheduleBuilder;

std::string Of(ScheduleBuilder& builder) {
  const Schedule schedule = builder.Build();
  const ModelRun run = RunModel(schedule);
  return run.hangs ? run.check + ": " + Describe(run.signature) : "ends";
}

// Two ranks and communicators `dp` (0) and `tp` (1) of both.
ScheduleBuilder Pair(bool cold = false) {
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1}, cold);
  job.Comm("tp", {0, 1}, cold);
  return job;
}
constexpr int kDp = 0, kTp = 1;

TEST(ModelRun, InversionOnOneStream) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp).AllReduce(kTp).Sync();
    job.On(1).AllReduce(twin ? kDp : kTp).AllReduce(twin ? kTp : kDp).Sync();
    EXPECT_EQ(Of(job), twin ? "ends" : "communicator-order-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, InversionOnTwoStreamsHangsWithASynchroniseBetween) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    Calls first = job.On(0).AllReduce(kDp, 0);
    if (!twin) first.Sync(0);
    first.AllReduce(kTp, 1).DeviceSync();
    job.On(1).AllReduce(kTp, 1).Sync(1).AllReduce(kDp, 0).DeviceSync();
    EXPECT_EQ(Of(job), twin ? "ends" : "host-wait-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, FreeWaitsForTheDevice) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    Calls first = job.On(0).AllReduce(kDp, 0);
    if (!twin) first.Free();
    first.AllReduce(kTp, 1);
    job.On(1).AllReduce(kTp, 1).Sync(1).AllReduce(kDp, 0);
    EXPECT_EQ(Of(job), twin ? "ends" : "host-wait-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, FirstUseOfTwoCommunicatorsInOppositeOrder) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair(/*cold=*/true);
    job.On(0).AllReduce(kDp, 0).AllReduce(kTp, 1);
    job.On(1).AllReduce(kTp, 1).AllReduce(kDp, 0);
    if (twin) job.schedule().environment.emplace_back("NCCL_RUNTIME_CONNECT", "0");
    EXPECT_EQ(Of(job), twin ? "ends" : "first-use-order-cycle: deadlock (first_use)");
  }
}

TEST(ModelRun, OneGroupConnectsTwoCommunicatorsInAnyOrder) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair(/*cold=*/true);
    if (twin) {
      job.On(0).GroupStart().AllReduce(kDp, 0).AllReduce(kTp, 0).GroupEnd();
      job.On(1).GroupStart().AllReduce(kTp, 0).AllReduce(kDp, 0).GroupEnd();
    } else {
      job.On(0).AllReduce(kDp, 0).AllReduce(kTp, 0);
      job.On(1).AllReduce(kTp, 0).AllReduce(kDp, 0);
    }
    EXPECT_EQ(Of(job), twin ? "ends" : "first-use-order-cycle: deadlock (first_use)");
  }
}

TEST(ModelRun, StreamsThatWaitForEachOthersEvents) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp, 0).Record(0, 0).Wait(0, 1).AllReduce(kTp, 1);
    if (twin) {
      job.On(1).AllReduce(kDp, 0).Record(0, 0).Wait(0, 1).AllReduce(kTp, 1);
    } else {
      job.On(1).AllReduce(kTp, 1).Record(0, 1).Wait(0, 0).AllReduce(kDp, 0);
    }
    EXPECT_EQ(Of(job), twin ? "ends" : "event-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, BlockingStreamsWaitForTheLegacyOneBetween) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp, 0).Kernel(2).AllReduce(kTp, 1);
    job.On(1).AllReduce(kTp, 1).Kernel(2).AllReduce(kDp, 0);
    for (RankProgram& rank : job.schedule().ranks) {
      for (Stream& stream : rank.streams) stream.kind = StreamKind::kBlocking;
      if (!twin) rank.streams[2].kind = StreamKind::kLegacy;
    }
    EXPECT_EQ(Of(job), twin ? "ends" : "communicator-order-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, RecvBeforeTheCollectiveThatTheSendStandsBehind) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    if (twin) {
      job.On(0).Send(kDp, 1).AllReduce(kDp);
      job.On(1).AllReduce(kDp).Recv(kDp, 0);
    } else {
      job.On(0).Recv(kDp, 1).AllReduce(kDp);
      job.On(1).AllReduce(kDp).Send(kDp, 0);
    }
    EXPECT_EQ(Of(job),
              twin ? "ends" : "point-to-point-order-cycle: deadlock (receive, started_collective)");
  }
}

TEST(ModelRun, BothReceiveFirst) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    for (int rank = 0; rank < 2; ++rank) {
      Calls calls = job.On(rank);
      if (twin) calls.GroupStart();
      calls.Recv(kDp, 1 - rank).Send(kDp, 1 - rank);
      if (twin) calls.GroupEnd();
    }
    EXPECT_EQ(Of(job), twin ? "ends" : "point-to-point-order-cycle: deadlock (receive)");
  }
}

TEST(ModelRun, ARootWaitsForNobodyAndAReceiverDoes) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    job.On(0).Broadcast(kDp, twin ? 0 : 1).AllReduce(kTp);
    job.On(1).AllReduce(kTp).Broadcast(kDp, twin ? 0 : 1);
    EXPECT_EQ(Of(job), twin ? "ends" : "communicator-order-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, OneRankDoesNotCome) {
  const char* const expected[] = {"host-blocked: host_blocked", "rank-not-joined: rank_not_joined",
                                  "rank-exited: rank_exited",   "rank-exited: rank_exited",
                                  "rank-stopped: rank_stopped", "ends"};
  for (int way = 0; way < 6; ++way) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp).Sync();
    Calls other = job.On(1);
    if (way == 0) other.Sleep();
    if (way == 1) other.Spin();
    if (way == 2) other.Exit(3);
    if (way == 3) other.Kill(9);
    if (way == 4) other.Stop();
    if (way == 5) other.AllReduce(kDp);
    EXPECT_EQ(Of(job), expected[way]);
  }
}

TEST(ModelRun, ALeaverIsToldFromOneThatAborts) {
  const char* const expected[] = {"rank-aborted: rank_aborted", "ends"};
  for (int way = 0; way < 2; ++way) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp).Sync();
    Calls other = job.On(1);
    if (way == 1) other.AllReduce(kDp).Sync();
    other.Abort(kDp).Sleep();
    EXPECT_EQ(Of(job), expected[way]);
  }
}

TEST(ModelRun, WhoExitsWellLeavesTheOthersBehind) {
  ScheduleBuilder job = Pair();
  job.On(0).AllReduce(kDp).AllReduce(kDp).Sync();
  job.On(1).AllReduce(kDp);
  EXPECT_EQ(Of(job), "rank-exited: rank_exited");
}

TEST(ModelRun, MismatchesEndAsMeasured) {
  const auto counts = [](uint64_t mine, uint64_t theirs, OpKind theirs_kind = OpKind::kAllReduce) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp, 0, mine).Sync();
    job.On(1).Do(theirs_kind, kDp, 0, theirs).Sync();
    return Of(job);
  };
  EXPECT_EQ(counts(1024, 512), "mismatch-count: mismatch");
  EXPECT_EQ(counts(1 << 20, 1 << 19), "ends");
  EXPECT_EQ(counts(1 << 18, 1 << 17), "mismatch-count: mismatch");
  EXPECT_EQ(counts(1 << 20, 1 << 10), "mismatch-count: mismatch");
  EXPECT_EQ(counts(1 << 25, 1 << 24), "mismatch-count: mismatch");
  EXPECT_EQ(counts(1024, 1024, OpKind::kAllGather), "mismatch-kind: mismatch");
  EXPECT_EQ(counts(1024, 1024), "ends");
}

TEST(ModelRun, UnequalCountsEndAsOnH200s) {
  std::vector<measured::Pair> differ;
  for (const measured::Pair& pair : measured::UnequalCounts()) {
    const uint64_t least = pair.smaller_bytes, most = pair.larger_bytes;
    const bool smaller = EndsUnequal(least, least, most), larger = EndsUnequal(most, least, most);
    const measured::Ends ends = smaller
                                    ? (larger ? measured::Ends::kBoth : measured::Ends::kSmaller)
                                    : (larger ? measured::Ends::kLarger : measured::Ends::kNone);
    if (ends != pair.ends) differ.push_back(pair);
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp, 0, least).Sync();
    job.On(1).AllReduce(kDp, 0, most).Sync();
    Schedule schedule = job.Build();
    ForEachOp(schedule, [](size_t, size_t, Op& op) { op.datatype = 0; });  // of one byte
    EXPECT_EQ(RunModel(schedule).hangs, ends != measured::Ends::kBoth) << pair;
  }
  EXPECT_EQ(differ, measured::NotFollowed());
}

// With four ranks on H200s the rank with fewer elements hangs, too.
TEST(ModelRun, OfTwoRanksAloneTheSmallerEnds) {
  for (const bool two : {true, false}) {
    ScheduleBuilder job(3);
    const int comm = two ? job.Comm("pair", {0, 1}) : job.Comm("all", {0, 1, 2});
    job.On(0).AllReduce(comm, 0, 512).Sync().AllReduce(comm, 0, 512).Sync();
    for (int rank = 1; rank < (two ? 2 : 3); ++rank) job.On(rank).AllReduce(comm, 0, 1024).Sync();
    const Schedule schedule = job.Build();
    const ModelRun run = RunModel(schedule);
    EXPECT_TRUE(run.hangs);
    const OpId first_sync = schedule.ranks[0].threads[0].ops[1].id;
    EXPECT_EQ(std::count(run.standing.begin(), run.standing.end(), first_sync), two ? 0 : 1);
  }
}

TEST(ModelRun, CommunicatorsMadeInOppositeOrder) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job(2);
    const int a = job.UnmadeComm("a", {0, 1}), b = job.UnmadeComm("b", {0, 1});
    job.On(0).Init(a).Init(b);
    job.On(1).Init(twin ? a : b).Init(twin ? b : a);
    EXPECT_EQ(Of(job), twin ? "ends" : "communicator-init-order: init_hang (communicator_init)");
  }
}

TEST(ModelRun, ASplitThatOneMemberDoesNotMake) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job(2);
    const int world = job.Comm("world", {0, 1});
    const int half = job.UnmadeComm("half", {0}, world);
    job.On(0).Split(world, half, 0);
    if (twin) {
      job.On(1).Split(world, -1, -1);
    } else {
      job.On(1).AllReduce(world).Sync();
    }
    EXPECT_EQ(Of(job),
              twin
                  ? "ends"
                  : "communicator-init-missing: init_hang (communicator_init, started_collective)");
  }
}

TEST(ModelRun, GraphsHoldTheirOrder) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    for (int rank = 0; rank < 2; ++rank) {
      const bool first = rank == 0 || twin;
      job.On(rank)
          .CaptureBegin(0, 0)
          .AllReduce(first ? kDp : kTp)
          .AllReduce(first ? kTp : kDp)
          .CaptureEnd(0, 0)
          .Launch(0, 0)
          .Sync(0);
    }
    EXPECT_EQ(Of(job), twin ? "ends" : "communicator-order-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, GatesForceTheOrderBetweenThreads) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job = Pair();
    job.On(0).AllReduce(kDp, 0).Sync(0);
    Calls second = job.On(0, 1).AllReduce(kTp, 0);
    second.After(job.schedule().ranks[0].threads[0].ops[0].id);
    // The second rank's threads come the other way round.
    Calls late = job.On(1, 0).AllReduce(kDp, 0);
    Calls early = job.On(1, 1).AllReduce(kTp, 0);
    if (twin) {
      early.After(late.last());
    } else {
      late.After(early.last());
    }
    EXPECT_EQ(Of(job), twin ? "ends" : "communicator-order-cycle: deadlock (started_collective)");
  }
}

TEST(ModelRun, NobodyWaitsForWhoOnlySleeps) {
  ScheduleBuilder job = Pair();
  job.On(0).AllReduce(kDp).Sync().Sleep();
  job.On(1).AllReduce(kDp).Sync().Spin();
  EXPECT_EQ(Of(job), "ends");
}

TEST(ModelRun, IsTheSameEachTime) {
  ScheduleBuilder job = Pair();
  job.On(0).AllReduce(kDp).AllReduce(kTp).Sync();
  job.On(1).AllReduce(kTp).AllReduce(kDp).Sync();
  const Schedule schedule = job.Build();
  const ModelRun first = RunModel(schedule);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(RunModel(schedule).summary, first.summary);
  EXPECT_NE(first.summary.find("wait for each other"), std::string::npos) << first.summary;
}

}  // namespace
}  // namespace gordian::replayer
