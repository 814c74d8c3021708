#include "replayer/verify/witness.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/replayer/hand_made.h"

namespace gordian::replayer {
namespace {

using testing::SampleOf;
using testing::Samples;

TEST(Witness, WhatTheVerdictDoesNotNameGoes) {
  const Schedule cut = CutToWitness(SampleOf(Samples(), "inversion"));
  EXPECT_TRUE(Check(cut).empty());
  EXPECT_EQ(CountOperations(cut), 5u);
  ASSERT_EQ(cut.comms.size(), 2u);  // nothing is called on `idle` any more
  EXPECT_EQ(cut.comms[0].name, "dp");
  EXPECT_EQ(cut.comms[1].name, "tp");
  EXPECT_EQ(cut.ranks.size(), 3u);  // rank 2 is a member of dp
}

TEST(Witness, WhatTheVerdictNamesStays) {
  for (const testing::Sample& sample : Samples()) {
    if (sample.name == "inversion") continue;
    Schedule cut = CutToWitness(sample.schedule);
    EXPECT_EQ(cut, sample.schedule) << sample.name;
  }
}

TEST(Witness, AGroupStaysAsLongAsItHoldsSomething) {
  Schedule schedule = SampleOf(Samples(), "transfers");
  std::vector<Op>& ops = schedule.ranks[1].threads[0].ops;
  for (Op& op : ops) op.witness = op.kind == OpKind::kRecv && op.root_or_peer == 2;
  Schedule cut = CutToWitness(schedule);
  ASSERT_EQ(cut.ranks[1].threads[0].ops.size(), 3u);
  EXPECT_EQ(cut.ranks[1].threads[0].ops[1].root_or_peer, 2);
  EXPECT_TRUE(Check(cut).empty());

  for (Op& op : ops) op.witness = op.kind == OpKind::kStreamSync;
  cut = CutToWitness(schedule);
  ASSERT_EQ(cut.ranks[1].threads[0].ops.size(), 1u);
  EXPECT_EQ(cut.ranks[1].threads[0].ops[0].kind, OpKind::kStreamSync);
}

TEST(Witness, ARankThatWouldHaveNothingToDoKeepsAll) {
  Schedule schedule = SampleOf(Samples(), "inversion");
  for (Op& op : schedule.ranks[2].threads[0].ops) op.witness = false;
  const Schedule cut = CutToWitness(schedule);
  EXPECT_EQ(cut.ranks[2].threads[0].ops.size(), 3u);
  EXPECT_TRUE(Check(cut).empty());
}

TEST(Witness, RanksOfNoCommunicatorGoAndTheRestIsRenumbered) {
  Schedule schedule = SampleOf(Samples(), "inversion");
  schedule.comms[0].members = {1, 0};  // dp is of two now
  schedule.comms[2].members = {2, 1};
  schedule.ranks[2].threads[0].ops = {schedule.ranks[2].threads[0].ops[1]};
  schedule.ranks[2].threads[0].ops[0].kind = OpKind::kSleep;
  schedule.ranks[2].threads[0].ops[0].comm = schedule.ranks[2].threads[0].ops[0].stream = -1;
  std::swap(schedule.ranks[0], schedule.ranks[2]);
  for (Communicator& comm : schedule.comms) {
    for (int& member : comm.members) member = member == 1 ? 1 : 2 - member;
  }
  DropUnused(&schedule);
  ASSERT_EQ(schedule.ranks.size(), 2u);
  EXPECT_EQ(schedule.ranks[0].rank, 1);
  EXPECT_EQ(schedule.ranks[1].rank, 0);
  EXPECT_EQ(schedule.comms[0].members, (std::vector<int>{0, 1}));
  EXPECT_EQ(schedule.comms.size(), 2u);
  EXPECT_TRUE(Check(schedule).empty());
}

}  // namespace
}  // namespace gordian::replayer
