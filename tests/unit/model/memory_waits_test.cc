// W10: streams that wait for values in memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/model/facts/execution_graph.h"
#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

MemoryOp Word(uint64_t address, uint64_t value, MemoryCondition condition = {}, bool wide = false) {
  return {address, value,
          static_cast<uint8_t>(static_cast<uint8_t>(condition) | (wide ? kMemory64 : 0))};
}

TEST(MemoryWaits, WhatSatisfiesACondition) {
  using C = MemoryCondition;
  const auto may = [](uint64_t written, uint64_t wanted, C condition, bool wide = false) {
    return MaySatisfy(Word(64, written, C{}, wide), Word(64, wanted, condition, wide));
  };
  EXPECT_TRUE(may(1, 1, C::kGreaterOrEqual));
  EXPECT_TRUE(may(2, 1, C::kGreaterOrEqual));
  EXPECT_FALSE(may(0, 1, C::kGreaterOrEqual));
  EXPECT_TRUE(may(1, 0xffff'ffff, C::kGreaterOrEqual));  // wrapped around
  EXPECT_FALSE(may(1, 0xffff'ffff, C::kGreaterOrEqual, true));
  EXPECT_TRUE(may(1, ~uint64_t{0}, C::kGreaterOrEqual, true));
  EXPECT_TRUE(may(3, 3, C::kEqual));
  EXPECT_FALSE(may(4, 3, C::kEqual));
  EXPECT_TRUE(may(6, 2, C::kAnd));
  EXPECT_FALSE(may(4, 2, C::kAnd));
  EXPECT_TRUE(may(0, 1, C::kNor));
  EXPECT_FALSE(may(0xffff'fffe, 1, C::kNor));
  // Another word; and one that covers this only in part, of which nothing can be said.
  EXPECT_FALSE(MaySatisfy(Word(68, 1), Word(64, 1)));
  EXPECT_TRUE(MaySatisfy(Word(64, 0, C{}, true), Word(68, 1)));
}

// Rank 0's stream 1 waits for a value that its stream 2 writes behind the other operation.
Program Gated(std::vector<Op> wait, std::vector<Op> write) {
  return Inits(2) + std::move(wait) + Program{AllReduce(0, 1), AllReduce(1, 2)} + std::move(write) +
         Program{StreamSync(1), StreamSync(2)};
}
const Program kOneStream = Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()};
const Program kOtherWay = Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()};

Want Suspected(std::vector<int> culprits, VerdictKind verdict, const char* check) {
  return {verdict, Confidence::kSuspected, std::move(culprits), check};
}

TEST(MemoryWaits, WriteBehindWhatWaitsForIt) {
  const Program gated = Gated({WaitValue(1, 1)}, {WriteValue(1, 2)});
  ExpectHang(Comms(2, 2), {gated, kOneStream},
             Suspected({0, 1}, VerdictKind::kDeadlock, "memory-wait-cycle"), 6);
  ExpectHealthy(Comms(2, 2), {gated, kOtherWay});
}

TEST(MemoryWaits, NameWhatTheyAssume) {
  SimJob job(Comms(2, 2), {Gated({WaitValue(1, 1)}, {WriteValue(1, 2)}), kOneStream});
  JobModel model;
  job.Run();
  // However often it is seen, it stays a suspicion.
  job.Rounds(&model, 20);
  const Finding finding = model.Current().main;
  EXPECT_EQ(finding.check, "memory-wait-cycle");
  EXPECT_EQ(finding.confidence, Confidence::kSuspected);
  EXPECT_TRUE(std::any_of(finding.evidence.assumes.begin(), finding.evidence.assumes.end(),
                          [](const std::string& text) {
                            return text ==
                                   "no other process and no operation of NCCL writes to the "
                                   "memory that rank 0's stream waits for";
                          }));
}

TEST(MemoryWaits, MemoryThatOthersMayWriteProvesNothing) {
  Op wait = WaitValue(1, 1);
  wait.own = false;
  ExpectHang(Comms(2, 2), {Gated({wait}, {WriteValue(1, 2)}), kOneStream},
             Suspected({0}, VerdictKind::kStuckKernel, "memory-wait"), 6);
}

TEST(MemoryWaits, NobodyWrites) {
  ExpectHang(Comms(2, 2), {Gated({WaitValue(1, 1)}, {}), kOneStream},
             Suspected({0}, VerdictKind::kStuckKernel, "memory-wait"), 6);
  // A write of something else, or to another word, is none.
  ExpectHang(Comms(2, 2), {Gated({WaitValue(1, 1, 5)}, {WriteValue(1, 2, 4)}), kOneStream},
             Suspected({0}, VerdictKind::kStuckKernel, "memory-wait"), 6);
  ExpectHang(Comms(2, 2), {Gated({WaitValue(1, 1)}, {WriteValue(2, 2)}), kOneStream},
             Suspected({0}, VerdictKind::kStuckKernel, "memory-wait"), 6);
}

TEST(MemoryWaits, AnyWritesThatCanBeReachedWillDo) {
  const Program two = Gated({WaitValue(1, 1)}, {WriteValue(1, 2), WriteValue(1, 3)});
  ExpectHealthy(Comms(2, 2), {two, kOneStream});
}

// A kernel that runs may be the writer.
TEST(MemoryWaits, AKernelThatRunsMayWrite) {
  SimJob job(Comms(2, 2),
             {Gated({testing::Kernel(3, true), WaitValue(1, 1)}, {WriteValue(1, 2)}), kOneStream});
  JobModel model;
  job.Run();
  job.Rounds(&model, 8);
  EXPECT_TRUE(AccusesNone(model.Current())) << model.Current().main.summary;
}

// ... but not for ever.
TEST(MemoryWaits, AKernelThatRunsForLongIsNotTheLikelierStory) {
  SimJob job(Comms(2, 2), {Gated({testing::Kernel(3, true), WaitValue(1, 1)}, {}), kOneStream});
  JobModel model;
  job.Run();
  job.Rounds(&model, 8);
  EXPECT_TRUE(AccusesNone(model.Current())) << model.Current().main.summary;
  job.Rounds(&model, 60, 0.5);
  ExpectVerdict(model.Current(), Suspected({0}, VerdictKind::kStuckKernel, "memory-wait"));
}

// The host may write, or call what writes, as long as it is not held itself.
TEST(MemoryWaits, AThreadThatRunsMayWrite) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{WaitValue(1, 1), AllReduce(0, 1), AllReduce(1, 2),
                                              WriteValue(1, 2), Spin()},
                           kOneStream});
  JobModel model;
  job.Run();
  job.Rounds(&model, 8);
  EXPECT_NE(model.Current().main.verdict, VerdictKind::kDeadlock) << model.Current().main.summary;
}

TEST(MemoryWaits, WriteBehindItsOwnWait) {
  SimJob job(Comms(1, 2),
             {Program{Init(0), WaitValue(1, 1), WriteValue(1, 1), AllReduce(0, 1), StreamSync()},
              Program{Init(0), AllReduce(0), StreamSync()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 6);
  const Finding finding = model.Current().main;
  EXPECT_EQ(finding.check, "memory-wait-cycle") << finding.summary;
  EXPECT_EQ(finding.confidence, Confidence::kSuspected);
  EXPECT_EQ(finding.culprit_ranks, std::vector<int>{0});
  EXPECT_EQ(finding.victim_ranks, std::vector<int>{1});
  EXPECT_EQ(
      finding.summary,
      "Rank 0 waits for itself: rank 0 is in a stream's wait for a value in memory and has not "
      "reached the write of the value that a stream waits for.");
}

// What was handed to another process, or registered with NCCL, others may write.
TEST(MemoryWaits, SharedMemoryIsNotItsOwn) {
  for (const bool touches : {true, false}) {
    SimJob job(Comms(2, 2), {Gated({WaitValue(1, 1)}, {WriteValue(1, 2)}), kOneStream});
    JobModel model;
    job.Run();
    CallRecord shared;
    shared.process = 1;
    shared.thread = 1;
    shared.call = Call::kStreamWork;
    shared.payload =
        ring::WorkPayload{.kind = WorkKind::kMemoryShared,
                          .event = touches ? 0x7000u : 0x7014u,  // word 1 lies at 0x7010
                          .value = 0x11};
    job.Feed(&model);
    for (const CallRecord& record : job.log) {
      if (record.process == 1) shared.order = std::max(shared.order, record.order + 1);
    }
    model.OnRecord(shared);
    job.Rounds(&model, 6);
    EXPECT_EQ(model.Current().main.check, touches ? "memory-wait" : "memory-wait-cycle")
        << model.Current().main.summary;
  }
}

}  // namespace
}  // namespace gordian::model
