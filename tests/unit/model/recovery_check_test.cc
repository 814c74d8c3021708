// Which cycles could be recovered: each class, and a program for each condition that fails.
#include "analyzer/model/verdict/recovery_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

Recovery RecoveryOf(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
                    bool cold = false, const std::function<void(SimJob*)>& set = {}) {
  SimJob job(comms, programs, cold, 1);
  if (set) set(&job);
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.7);
  const Verdict verdict = model.Current();
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kDeadlock) << verdict.main.summary;
  EXPECT_TRUE(verdict.main.recovery.checked);
  return verdict.main.recovery;
}

void ExpectPossible(const Recovery& recovery, size_t units) {
  EXPECT_EQ(recovery.refused, RecoveryCondition::kHold)
      << Name(recovery.refused) << ": " << recovery.why;
  EXPECT_EQ(recovery.units.size(), units);
}

void ExpectRefused(const Recovery& recovery, RecoveryCondition condition, int rank,
                   const std::string& says) {
  EXPECT_STREQ(Name(recovery.refused), Name(condition)) << recovery.why;
  EXPECT_EQ(recovery.rank, rank) << recovery.why;
  EXPECT_NE(recovery.why.find(says), std::string::npos) << recovery.why;
  EXPECT_TRUE(recovery.units.empty());
}

TEST(Recovery, TwoCommunicatorsInOppositeOrder) {
  const Recovery recovery =
      RecoveryOf(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                               Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  ExpectPossible(recovery, 4);
  EXPECT_EQ(std::set<std::string>(recovery.operations.begin(), recovery.operations.end()),
            (std::set<std::string>{"AllReduce #0 on A", "AllReduce #0 on B"}));
  // The second operation of each rank stands behind the first and nothing else; the first behind
  // nothing, so that its stream has come to it.
  for (size_t i = 0; i < 4; i += 2) {
    EXPECT_EQ(recovery.units[i].process, recovery.units[i + 1].process);
    EXPECT_TRUE(recovery.units[i + 1].early);
    EXPECT_EQ(recovery.units[i + 1].after, std::vector<uint32_t>{0});
    EXPECT_TRUE(recovery.units[i].after.empty());
  }
}

TEST(Recovery, ThreeCommunicatorsInACycle) {
  std::vector<SimComm> comms = Comms(3, 3);
  comms[0].members = {0, 1};
  comms[1].members = {1, 2};
  comms[2].members = {0, 2};
  ExpectPossible(RecoveryOf(comms, {{Init(0), Init(2), AllReduce(0), AllReduce(2), StreamSync()},
                                    {Init(0), Init(1), AllReduce(1), AllReduce(0), StreamSync()},
                                    {Init(1), Init(2), AllReduce(2), AllReduce(1), StreamSync()}}),
                 6);
}

TEST(Recovery, ACommunicatorAgainstASubset) {
  std::vector<SimComm> comms = Comms(2, 3);
  comms[1].members = {0, 1};
  ExpectPossible(RecoveryOf(comms, {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                                    Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()},
                                    {Init(0), AllReduce(0), StreamSync()}}),
                 5);
}

TEST(Recovery, OppositeEventWaits) {
  const Program a = {AllReduce(0, 1), Record(1, 1), WaitEvent(1, 2), AllReduce(1, 2), DeviceSync()};
  const Program b = {AllReduce(1, 2), Record(1, 2), WaitEvent(1, 1), AllReduce(0, 1), DeviceSync()};
  ExpectPossible(RecoveryOf(Comms(2, 2), {Inits(2) + a, Inits(2) + b}), 4);
}

// What stands behind the cycle, with work in between, waits for its turn as ever.
TEST(Recovery, LaterOperationsBehindOtherWork) {
  const Recovery recovery = RecoveryOf(
      Comms(2, 2),
      {Inits(2) + Program{AllReduce(0), AllReduce(1), Kernel(), AllReduce(0), StreamSync()},
       Inits(2) + Program{AllReduce(1), AllReduce(0), Kernel(), AllReduce(0), StreamSync()}});
  ExpectPossible(recovery, 6);
  EXPECT_FALSE(recovery.units[2].early);
  EXPECT_FALSE(recovery.units[5].early);
}

// At one rank of two, the other's operation overtakes.
TEST(Recovery, OtherWorkBetweenAtOneRank) {
  ExpectPossible(
      RecoveryOf(Comms(2, 2),
                 {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                  Inits(2) + Program{AllReduce(1), Kernel(), AllReduce(0), StreamSync()}}),
      4);
}

TEST(Recovery, OtherWorkBetweenIsHard) {
  const Recovery recovery = RecoveryOf(
      Comms(2, 2), {Inits(2) + Program{AllReduce(0), Kernel(), AllReduce(1), StreamSync()},
                    Inits(2) + Program{AllReduce(1), Kernel(), AllReduce(0), StreamSync()}});
  EXPECT_EQ(recovery.refused, RecoveryCondition::kHardEdge) << recovery.why;
  EXPECT_NE(recovery.why.find("has kernels or copies in front of AllReduce #0 on"),
            std::string::npos)
      << recovery.why;
}

// A second circle of the same communicators has other work between, so that the job would hang again.
TEST(Recovery, AnotherCircleIsHard) {
  const Program other = {Kernel(1)};
  const Recovery recovery =
      RecoveryOf(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), AllReduce(0)} +
                                   other + Program{AllReduce(1), StreamSync()},
                               Inits(2) + Program{AllReduce(1), AllReduce(0), AllReduce(1)} +
                                   other + Program{AllReduce(0), StreamSync()}});
  ExpectRefused(recovery, RecoveryCondition::kHardEdge, recovery.rank, "has kernels or copies in");
}

TEST(Recovery, R1AHostWaitBetween) {
  const Recovery recovery = RecoveryOf(
      Comms(2, 2),
      {Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
       Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}});
  EXPECT_EQ(recovery.refused, RecoveryCondition::kPosted) << recovery.why;
}

TEST(Recovery, R1FirstUses) {
  const Recovery recovery =
      RecoveryOf(Comms(2, 2),
                 {Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
                  Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}},
                 true);
  EXPECT_EQ(recovery.refused, RecoveryCondition::kPosted) << recovery.why;
}

TEST(Recovery, R3WhatEndsAtOneEndAlone) {
  const Recovery recovery =
      RecoveryOf(Comms(2, 2), {Inits(2) + Program{Recv(0, 1), AllReduce(1), StreamSync()},
                               Inits(2) + Program{AllReduce(1), Send(0, 0), StreamSync()}});
  EXPECT_EQ(recovery.refused, RecoveryCondition::kIntact) << recovery.why;
}

// Whether there is a copy of its input the process knows.
TEST(Recovery, InPlace) {
  Op in_place = AllReduce(0);
  in_place.in_place = true;
  ExpectPossible(
      RecoveryOf(Comms(2, 2), {Inits(2) + Program{in_place, AllReduce(1), StreamSync()},
                               Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}}),
      4);
}

TEST(Recovery, R4CapturedGraphs) {
  const Program a = {Graph(1, {AllReduce(0, 3)}), Graph(2, {AllReduce(1, 3)}), StreamSync()};
  const Program b = {Graph(1, {AllReduce(1, 3)}), Graph(2, {AllReduce(0, 3)}), StreamSync()};
  const Recovery recovery = RecoveryOf(Comms(2, 2), {Inits(2) + a, Inits(2) + b});
  EXPECT_TRUE(recovery.refused == RecoveryCondition::kAbort ||
              recovery.refused == RecoveryCondition::kHardEdge)
      << Name(recovery.refused) << ": " << recovery.why;
}

TEST(Recovery, R4WhatTheRuntimeHasAlready) {
  const Recovery recovery =
      RecoveryOf(Comms(2, 2),
                 {Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 1), StreamSync()},
                  Inits(2) + Program{AllReduce(1, 1), DeviceSync(), AllReduce(0, 1), StreamSync()}},
                 false, [](SimJob* job) {
                   job->elsewhere = {0, 1};
                 });
  EXPECT_NE(recovery.refused, RecoveryCondition::kHold);
}

TEST(Recovery, R5AMemberThatHasGone) {
  // Rank 2 takes part in A alone, and ends once the cycle of the others stands.
  std::vector<SimComm> comms = Comms(2, 3);
  comms[1].members = {0, 1};
  const Recovery recovery =
      RecoveryOf(comms, {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                         Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()},
                         {Init(0), AllReduce(0), Exit(1)}});
  ExpectRefused(recovery, RecoveryCondition::kOneHost, 2, "does not take part any more");
}

TEST(Recovery, R7MembersThatDiffer) {
  // An earlier step differed in its operator, which NCCL does not notice.
  Op other = AllReduce(0);
  other.reduce_op = 2;
  const Recovery recovery = RecoveryOf(
      Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(0), AllReduce(1), StreamSync()},
                    Inits(2) + Program{other, AllReduce(1), AllReduce(0), StreamSync()}});
  EXPECT_EQ(recovery.refused, RecoveryCondition::kAgree) << recovery.why;
}

}  // namespace
}  // namespace gordian::model
