#include "replayer/predict/predict.h"

#include <gtest/gtest.h>

#include <set>

#include "replayer/reduce/model_run.h"
#include "tests/unit/replayer/free_orders.h"
#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer {
namespace {

using testing::Calls;
using testing::RunInOrder;
using testing::ScheduleBuilder;

constexpr int kDp = 0, kTp = 1;

// Two ranks, whose second threads use the other communicator on the stream.
ScheduleBuilder TwoThreads(int second_stream = 0, bool cold = false) {
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1}, cold);
  job.Comm("tp", {0, 1}, cold);
  for (int rank = 0; rank < 2; ++rank) {
    job.On(rank, 0).AllReduce(kDp);
    job.On(rank, 1).AllReduce(kTp, second_stream);
  }
  return job;
}

// As if each rank's first thread had made all of its calls before the second one's.
RecordedOrders Recorded(ScheduleBuilder& job) {
  std::optional<RecordedOrders> orders = RunInOrder(job.Build(), [](size_t) { return 0; });
  EXPECT_TRUE(orders.has_value()) << "the recorded order hangs";
  return std::move(*orders);
}

TEST(Predict, TwoThreadsOnOneStream) {
  ScheduleBuilder job = TwoThreads();
  const RecordedOrders orders = Recorded(job);
  const Predictions predictions = Predict(orders);
  EXPECT_TRUE(predictions.judged);
  ASSERT_EQ(predictions.predicted.size(), 1u);
  const Prediction& found = predictions.predicted.front();
  EXPECT_EQ(found.alike, 1u);  // the other rank may depart as well
  EXPECT_EQ(found.cycle.size(), 2u);
  ASSERT_EQ(found.orders.size(), 2u);
  EXPECT_NE(found.orders[0].as_recorded, found.orders[1].as_recorded);
  EXPECT_NE(found.orders[0].rank, found.orders[1].rank);
  // Whatever runs first, the witness hangs.
  for (const Turns turns : {kFirstFirst, LastThreadFirst(0), LastThreadFirst(1), Turns{1}}) {
    const ModelRun run = RunModel(found.witness, turns);
    EXPECT_TRUE(run.hangs);
    EXPECT_EQ(run.check, "communicator-order-cycle");
  }
}

TEST(Predict, StreamsOfTheirOwnAreInnocentUnlessCold) {
  ScheduleBuilder warm = TwoThreads(1);
  const Predictions none = Predict(Recorded(warm));
  EXPECT_TRUE(none.predicted.empty() && none.unconfirmed.empty() && none.complete);
  // A first use makes its own thread wait, not the other one.
  ScheduleBuilder cold = TwoThreads(1, true);
  EXPECT_TRUE(Predict(Recorded(cold)).predicted.empty());
}

TEST(Predict, AnOrderThatTheRecordShowsIsKept) {
  ScheduleBuilder job = TwoThreads();
  Schedule& schedule = job.schedule();
  for (RankProgram& rank : schedule.ranks)
    rank.threads[1].ops[0].gates.push_back({rank.threads[0].ops[0].id, Gate::Moment::kReturned});
  const Predictions predictions = Predict(Recorded(job));
  EXPECT_TRUE(predictions.judged && predictions.complete);
  EXPECT_TRUE(predictions.predicted.empty());
}

TEST(Predict, OneRankOfTwoThreadsSuffices) {
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1});
  job.Comm("tp", {0, 1});
  job.On(0, 0).AllReduce(kDp);
  job.On(0, 1).AllReduce(kTp);
  job.On(1).AllReduce(kDp).AllReduce(kTp);
  const Predictions predictions = Predict(Recorded(job));
  ASSERT_EQ(predictions.predicted.size(), 1u);
  const auto& found = predictions.predicted.front().orders;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().rank, 0u);
  EXPECT_FALSE(found.front().as_recorded);
}

TEST(Predict, AHostWaitBetweenTwoStreams) {
  // The second thread waits for all of the device before it reduces.
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1});
  job.Comm("tp", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    job.On(rank, 0).AllReduce(kDp, 0);
    job.On(rank, 1).DeviceSync().AllReduce(kTp, 1).DeviceSync();
  }
  EXPECT_TRUE(Predict(Recorded(job)).predicted.empty()) << "dp is called by another thread";
}

TEST(Predict, HostWaitsInBothThreadsOfWhichOneIsJoined) {
  // Each thread waits for all of the device before it reduces. Then the first one joins the second.
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1});
  job.Comm("tp", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    job.On(rank, 0).DeviceSync().AllReduce(kDp, 0).DeviceSync();
    job.On(rank, 1).DeviceSync().AllReduce(kTp, 1);
  }
  std::set<OpId> joined;
  for (RankProgram& rank : job.schedule().ranks) {
    rank.threads[0].ops.back().gates.push_back(
        {rank.threads[1].ops.back().id, Gate::Moment::kReturned});
    joined.insert(rank.threads[0].ops.back().id);
  }
  const Predictions predictions = Predict(Recorded(job));
  EXPECT_TRUE(predictions.judged && predictions.not_judged.empty());
  ASSERT_EQ(predictions.predicted.size(), 1u);
  const Prediction& found = predictions.predicted.front();
  const ModelRun run = RunModel(found.witness);
  EXPECT_TRUE(run.hangs);
  EXPECT_EQ(run.check, "host-wait-cycle");
  // The thread that would join never comes to it: the witness does without, so that it ends.
  ASSERT_EQ(found.unreached.size(), 1u);
  EXPECT_TRUE(joined.contains(found.unreached.front().op.id));
  ForEachOp(found.witness,
            [&](size_t, size_t, const Op& op) { EXPECT_NE(op.id, found.unreached.front().op.id); });
}

TEST(Predict, CandidatesThatARankContradictsAreNotListed) {
  // Each thread's stream waits for what is on the other one: so at one rank alone the graph has
  // cycles, of orders that no run can have.
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1});
  job.Comm("tp", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 0; step < 2; ++step) {
      job.On(rank, 0).Record(2 * step, 1).Wait(2 * step, 0).AllReduce(kDp, 0);
      job.On(rank, 1).Record(2 * step + 1, 0).Wait(2 * step + 1, 1).AllReduce(kTp, 1);
    }
  }
  const RecordedOrders orders = Recorded(job);
  const Predictions predictions = Predict(orders, {.max_states = 1});  // a search that is cut short
  EXPECT_FALSE(predictions.complete);
  EXPECT_GT(predictions.candidates, predictions.predicted.size());
  for (const Prediction& left : predictions.unconfirmed) {
    std::set<size_t> ranks;
    for (const CallOrder& order : left.orders) ranks.insert(order.rank);
    EXPECT_GT(ranks.size(), 1u);
  }
}

TEST(Predict, TurnsAreADoubt) {
  ScheduleBuilder job = TwoThreads();
  RecordedOrders orders = Recorded(job);
  for (size_t rank = 0; rank < 2; ++rank) {
    orders.schedule.ranks[rank].threads[0].ops[0].site = "a.cc:1";
    orders.schedule.ranks[rank].threads[1].ops[0].site = "b.cc:2";
    orders.turns.insert({rank, "a.cc:1", "b.cc:2"});
  }
  const Predictions predictions = Predict(orders);
  EXPECT_TRUE(predictions.predicted.empty());
  ASSERT_EQ(predictions.unconfirmed.size(), 1u);
  EXPECT_NE(predictions.unconfirmed.front().doubt.find("took turns"), std::string::npos);
  // A rank that has not taken turns suffices.
  orders.turns.erase(orders.turns.begin());
  EXPECT_EQ(Predict(orders).predicted.size(), 1u);
}

TEST(Predict, ThreadsThatShareACommunicatorAreADoubt) {
  ScheduleBuilder job = TwoThreads();
  RecordedOrders orders = Recorded(job);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(Predict(orders).predicted.size(), 1u);
    orders.sharing.insert({rank, 0, 1});
  }
  const Predictions predictions = Predict(orders);
  EXPECT_TRUE(predictions.predicted.empty());
  ASSERT_EQ(predictions.unconfirmed.size(), 1u);
  EXPECT_NE(predictions.unconfirmed.front().doubt.find("threads 1 and 2"), std::string::npos);
}

TEST(Predict, AThreadThatWaitedForOthersIsADoubt) {
  for (const bool seen : {false, true}) {
    ScheduleBuilder job = TwoThreads();
    RecordedOrders orders = Recorded(job);
    // Rank 0's second thread made the later call; that rank 1's did is not in doubt.
    (seen ? orders.held : orders.unseen).insert(orders.schedule.ranks[0].threads[1].ops[0].id);
    EXPECT_EQ(Predict(orders).predicted.size(), 1u);
    (seen ? orders.held : orders.unseen).insert(orders.schedule.ranks[1].threads[1].ops[0].id);
    const Predictions predictions = Predict(orders);
    EXPECT_TRUE(predictions.predicted.empty());
    ASSERT_EQ(predictions.unconfirmed.size(), 1u);
    EXPECT_NE(predictions.unconfirmed.front().doubt.find(seen ? "seen to wait" : "was not seen"),
              std::string::npos);
  }
}

// Eight ranks, whose threads make 120 calls each, on streams of their own or on one.
RecordedOrders ManyCalls(bool one_stream) {
  ScheduleBuilder job(8);
  job.Comm("dp", {0, 1, 2, 3, 4, 5, 6, 7});
  job.Comm("tp", {0, 1, 2, 3, 4, 5, 6, 7});
  for (int rank = 0; rank < 8; ++rank) {
    for (int step = 0; step < 60; ++step) {
      job.On(rank, 0).AllReduce(kDp, 0).Sync(0);
      job.On(rank, 1).AllReduce(kTp, one_stream ? 0 : 1).Sync(one_stream ? 0 : 1);
    }
  }
  // Threads alternate, and no rank is far ahead.
  size_t turn = 0;
  std::optional<RecordedOrders> orders =
      RunInOrder(job.Build(), [&](size_t n) { return turn++ % n; });
  EXPECT_TRUE(orders.has_value());
  return std::move(*orders);
}

TEST(Predict, ManyCallsOnStreamsOfTheirOwn) {
  const Predictions predictions = Predict(ManyCalls(false));
  EXPECT_TRUE(predictions.judged && predictions.complete);
  EXPECT_TRUE(predictions.predicted.empty());
}

TEST(Predict, ManyCallsOnOneStream) {
  const Predictions predictions = Predict(ManyCalls(true));
  EXPECT_TRUE(predictions.judged);
  EXPECT_GE(predictions.predicted.size(), 1u);
}

TEST(Predict, NothingIsClaimedOfWhatWasNotJudged) {
  RecordedOrders orders;
  orders.not_judged = {"3 records were lost"};
  const Predictions predictions = Predict(orders);
  EXPECT_FALSE(predictions.judged);
  EXPECT_EQ(predictions.not_judged, orders.not_judged);
}

TEST(Predict, ARecordedOrderThatHangsInTheModelIsNotJudged) {
  ScheduleBuilder job(2);
  job.Comm("dp", {0, 1});
  job.Comm("tp", {0, 1});
  job.On(0).AllReduce(kDp).AllReduce(kTp);
  job.On(1).AllReduce(kTp).AllReduce(kDp);
  RecordedOrders orders{.schedule = job.Build()};
  uint64_t moment = 0;
  for (const RankProgram& rank : orders.schedule.ranks) {
    std::vector<OpId>& ids = orders.recorded.emplace_back();
    for (const Op& op : rank.threads[0].ops) {
      ids.push_back(op.id);
      orders.moments[op.id] = {moment + 1, moment + 2};
      moment += 2;
    }
  }
  const Predictions predictions = Predict(orders);
  EXPECT_FALSE(predictions.judged);
  ASSERT_EQ(predictions.not_judged.size(), 1u);
  EXPECT_NE(predictions.not_judged.front().find("does not end"), std::string::npos);
}

}  // namespace
}  // namespace gordian::replayer
