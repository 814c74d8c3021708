#include "replayer/reduce/fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tensor-parallel ranks in each of three replicas; rank 0 tells all of them something.
Schedule ThreeReplicas() {
  testing::ScheduleBuilder builder(6);
  const int all = builder.Comm("all", {0, 1, 2, 3, 4, 5});
  const int dp[] = {builder.Comm("dp_0", {0, 2, 4}), builder.Comm("dp_1", {1, 3, 5})};
  const int tp[] = {builder.Comm("tp_0", {0, 1}), builder.Comm("tp_1", {2, 3}),
                    builder.Comm("tp_2", {4, 5})};
  builder.schedule().comms[static_cast<size_t>(dp[0])].label =
      builder.schedule().comms[static_cast<size_t>(dp[1])].label = "dp";
  for (int rank = 0; rank < 6; ++rank) {
    auto calls = builder.On(rank);
    calls.Broadcast(all, 0).AllReduce(tp[rank / 2]).AllReduce(dp[rank % 2]);
    if (rank == 0) calls.Send(all, 5);
    if (rank == 5) calls.Recv(all, 0);
    calls.Sync();
  }
  return builder.Build();
}

TEST(Fold, LeavesTheFirstReplicas) {
  const StatusOr<Schedule> folded = Fold(ThreeReplicas(), "dp", 2);
  ASSERT_TRUE(folded.ok());
  EXPECT_TRUE(Check(*folded).empty());
  ASSERT_EQ(folded->ranks.size(), 4u);
  std::vector<size_t> members;
  for (const Communicator& comm : folded->comms) members.push_back(comm.members.size());
  EXPECT_THAT(members, ElementsAre(4, 2, 2, 2, 2));  // all, two dp, two tp; the third tp is gone
  // The transfer to the last rank is gone at its sender too.
  for (const RankProgram& rank : folded->ranks) {
    std::vector<OpKind> kinds;
    for (const Op& op : rank.threads[0].ops) kinds.push_back(op.kind);
    EXPECT_THAT(kinds, ElementsAre(OpKind::kBroadcast, OpKind::kAllReduce, OpKind::kAllReduce,
                                   OpKind::kStreamSync));
  }
  EXPECT_THAT(folded->origin.notes,
              ::testing::Contains("dp folded from 3 members to 2: 4 of 6 ranks"));
}

TEST(Fold, ByTheNameOfOneCommunicatorAlone) {
  const StatusOr<Schedule> folded = Fold(ThreeReplicas(), "dp_1", 1);
  ASSERT_TRUE(folded.ok());
  EXPECT_EQ(folded->ranks.size(), 4u);  // 3 and 5 are gone
  EXPECT_EQ(folded->ranks[1].rank, 1);
}

TEST(Fold, ByTheKindOfCommunicator) {
  const StatusOr<Schedule> folded = Fold(ThreeReplicas(), "tp", 1);
  ASSERT_TRUE(folded.ok());
  EXPECT_EQ(folded->ranks.size(), 3u);
}

TEST(Fold, SaysWhatThereIsToFold) {
  EXPECT_THAT(Fold(ThreeReplicas(), "pp", 1).status().message(),
              HasSubstr("there are all, dp, tp_0, tp_1, tp_2"));
  EXPECT_THAT(Fold(ThreeReplicas(), "dp", 3).status().message(), HasSubstr("a number from 1 to 2"));
  EXPECT_FALSE(Fold(ThreeReplicas(), "dp", 0).ok());
}

}  // namespace
}  // namespace gordian::replayer
