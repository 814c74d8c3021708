// Which operations of a job's program meet, and who then waits for whom.
#include "planner/proof/job_program.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gordian::planner {
namespace {

using model::Call;

Meeting MeetingOf(int comm, const model::Role& role) {
  Meeting meeting{.comm = comm, .size = 2, .role = role};
  meeting.signature.call = role.call;
  meeting.signature.count = role.count;
  meeting.what = std::string(1, static_cast<char>('A' + comm));
  return meeting;
}

// Rank 0 makes its call on communicator A and then on B, rank 1 on B and then on A; each begins
// when the one before it is done. Whether all of it ends.
bool OppositeOrdersEnd(const model::Role& rank0, const model::Role& rank1, bool strict) {
  JobProgram program(strict);
  for (const auto& [role, comms] :
       {std::pair(rank0, std::vector{0, 1}), std::pair(rank1, std::vector{1, 0})}) {
    const auto first = program.Operation(role.member, {MeetingOf(comms[0], role)});
    const auto second = program.Operation(role.member, {MeetingOf(comms[1], role)});
    program.Wait(second.first, first.second);
  }
  EXPECT_EQ(program.Meet(), "");
  return program.Decide().ends;
}

bool OppositeCollectivesEnd(Call call, uint64_t count, bool strict) {
  return OppositeOrdersEnd({call, 0, 0, count}, {call, 1, 0, count}, strict);
}

TEST(JobProgram, OrdersMatterWhereMembersWaitForEachOther) {
  for (const Call call :
       {Call::kAllReduce, Call::kAllGather, Call::kReduceScatter, Call::kAllToAll}) {
    EXPECT_FALSE(OppositeCollectivesEnd(call, 1, false));
  }
  // One side pushes its data and goes on, unless there are no buffers.
  for (const Call call : {Call::kBroadcast, Call::kReduce, Call::kGather, Call::kScatter}) {
    EXPECT_TRUE(OppositeCollectivesEnd(call, 1, false));
    EXPECT_FALSE(OppositeCollectivesEnd(call, 1, true));
  }
  const model::Role send = {Call::kSend, 0, 1, 1}, receive = {Call::kRecv, 1, 0, 1};
  EXPECT_TRUE(OppositeOrdersEnd(send, receive, false));
  EXPECT_FALSE(OppositeOrdersEnd(send, receive, true));
}

// NCCL launches nothing for it.
TEST(JobProgram, CollectivesOfNothingAreNoRendezvous) {
  for (const Call call : {Call::kAllReduce, Call::kBroadcast, Call::kAllToAll}) {
    EXPECT_TRUE(OppositeCollectivesEnd(call, 0, false));
    EXPECT_TRUE(OppositeCollectivesEnd(call, 0, true));
  }
}

TEST(JobProgram, WhoMakesAnotherCallIsTold) {
  const auto meet = [](const Meeting& other) {
    JobProgram program(false);
    program.Operation(0, {MeetingOf(0, {Call::kAllReduce, 0, -1, 8})});
    program.Operation(1, {other});
    return program.Meet();
  };
  const Meeting same = MeetingOf(0, {Call::kAllReduce, 1, -1, 8});
  EXPECT_EQ(meet(same), "");
  EXPECT_NE(meet(MeetingOf(0, {Call::kAllReduce, 1, -1, 9})), "");
  EXPECT_NE(meet(MeetingOf(0, {Call::kAllGather, 1, -1, 8})), "");
  Meeting other = same;
  other.signature.root = 1;  // an all-reduce has none
  EXPECT_EQ(meet(other), "");
  other.send = "bucket 3";
  EXPECT_NE(meet(other), "");
}

}  // namespace
}  // namespace gordian::planner
