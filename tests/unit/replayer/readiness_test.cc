#include "replayer/predict/readiness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "replayer/record/buffers.h"
#include "replayer/reduce/model_run.h"
#include "tests/unit/replayer/free_orders.h"
#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer {
namespace {

using testing::RunInOrder;
using testing::ScheduleBuilder;

constexpr int kWorld = 0, kCompute = 1;
constexpr uint64_t kSmall = 1000, kMi = 1 << 18, kMedium = 1 << 20,  // elements of 4 bytes
    kLarge = 20 << 20;

// All ranks reduce these sizes at one line, on stream 0; 0: an event is recorded on another stream.
Schedule Job(int ranks, const std::vector<uint64_t>& sizes) {
  ScheduleBuilder job(ranks);
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  job.Comm("world", members);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const uint64_t size : sizes) {
      if (size == 0) {
        job.On(rank).Record(0, kCompute);
      } else {
        job.On(rank).AllReduce(kWorld, 0, size);
      }
    }
  }
  Schedule schedule = job.Build();
  ForEachOp(schedule, [](size_t, size_t, Op& op) {
    op.datatype = 7;  // float
    if (IsOperation(op.kind)) op.site = "train.cc:88 hook()";
  });
  return schedule;
}

RecordedOrders Recorded(const Schedule& schedule) {
  std::optional<RecordedOrders> orders = RunInOrder(schedule, [](size_t) { return 0; });
  EXPECT_TRUE(orders.has_value()) << "the recorded order hangs";
  orders->ready_sites = {"train.cc:88"};
  return std::move(*orders);
}

std::vector<Prediction> Found(const std::vector<uint64_t>& sizes) {
  return PredictReadiness(Recorded(Job(2, sizes)));
}

TEST(Readiness, TwoBucketsThatHang) {
  const std::vector<Prediction> found = Found({kSmall, 2 * kSmall});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].run_decides);
  EXPECT_FALSE(found[0].doubt.empty()) << "it rests on the job's word";
  EXPECT_EQ(found[0].freedom, Freedom::kReadinessOrdered);
  EXPECT_TRUE(RunModel(found[0].witness).hangs);
  EXPECT_EQ(found[0].witness.origin.signature.verdict, "mismatch");
  EXPECT_EQ(found[0].witness.origin.check, RunModel(found[0].witness).check);
}

TEST(Readiness, WithoutTheJobsWordNothing) {
  RecordedOrders orders = Recorded(Job(2, {kSmall, 2 * kSmall}));
  for (const char* const other : {"train.cc:8", "train.cc:888", "other.cc:88"}) {
    orders.ready_sites = {other};
    EXPECT_TRUE(PredictReadiness(orders).empty()) << other;
  }
  orders.ready_sites.clear();
  EXPECT_TRUE(PredictReadiness(orders).empty());
}

TEST(Readiness, AnEventBetweenThatNoneWaitsForIsABound) {
  EXPECT_TRUE(Found({kSmall, 0, 2 * kSmall}).empty());
}

TEST(Readiness, EventsOfALaunchMoveWithIt) {
  ScheduleBuilder job(2);
  job.Comm("world", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    for (const uint64_t size : {kSmall, 2 * kSmall})
      job.On(rank).Record(0, kCompute).Wait(0, 0).AllReduce(kWorld, 0, size).Record(1, 0);
  }
  Schedule schedule = job.Build();
  ForEachOp(schedule, [](size_t, size_t, Op& op) {
    if (IsOperation(op.kind)) op.site = "train.cc:88 hook()";
  });
  EXPECT_EQ(PredictReadiness(Recorded(schedule)).size(), 1u);
}

TEST(Readiness, SizesThatNcclForgivesGiveWrongData) {
  for (const uint64_t other : {2 * kMedium, kMedium}) {
    const std::vector<Prediction> found = Found({kMedium, other});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_FALSE(found[0].run_decides);
    EXPECT_NE(found[0].doubt.find("no rank hangs"), std::string::npos) << found[0].doubt;
  }
}

TEST(Readiness, OtherSizesHang) {
  for (const auto& [one, other] : {std::pair{kMi, 2 * kMi}, std::pair{kSmall, kMedium}}) {
    const std::vector<Prediction> found = Found({one, other});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].run_decides);
  }
}

// The naive twin: all orders at all ranks, each in full.
class Naive {
 public:
  bool hangs = false, differs = false, moves = false;

  explicit Naive(const Schedule& schedule) : now_(schedule) { Permute(0, 0); }

 private:
  // The calls of a rank up to the next bound.
  void Permute(size_t rank, size_t begin) {
    if (rank == now_.ranks.size()) return Judge();
    std::vector<Op>& ops = now_.ranks[rank].threads[0].ops;
    if (begin >= ops.size()) return Permute(rank + 1, 0);
    size_t end = begin;
    while (end < ops.size() && IsOperation(ops[end].kind)) ++end;
    const std::vector<Op> before(ops.begin() + static_cast<long>(begin),
                                 ops.begin() + static_cast<long>(end));
    std::vector<size_t> order;
    for (size_t i = 0; i < before.size(); ++i) order.push_back(i);
    do {
      for (size_t i = 0; i < order.size(); ++i) ops[begin + i] = before[order[i]];
      Permute(rank, end + 1);
    } while (std::next_permutation(order.begin(), order.end()));
    moves |= before.size() > 1;
  }
  void Judge() {
    hangs |= RunModel(now_).hangs;
    const std::vector<Op>& first = now_.ranks.front().threads[0].ops;
    for (const RankProgram& rank : now_.ranks) {
      for (size_t i = 0; i < first.size(); ++i)
        differs |= rank.threads[0].ops[i].count != first[i].count;
    }
  }
  Schedule now_;
};

TEST(Readiness, AgreesWithEveryOrder) {
  size_t hanging = 0, going_on = 0, nothing = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    std::mt19937 random(seed);
    const int ranks = random() % 4 == 0 ? 3 : 2;
    std::vector<uint64_t> sizes;
    const size_t calls = ranks == 3 ? 3 : 4;
    const uint64_t unit[] = {kSmall, kMi, kMedium, kLarge};
    const uint64_t of = random() % 4, kinds = 1 + random() % 2;
    for (size_t i = 0; i < calls; ++i) {
      if (i > 0 && random() % 2 == 0) sizes.push_back(0);
      sizes.push_back(unit[(of + random() % kinds) % 4] * (1 + random() % 2));
    }
    const Schedule schedule = Job(ranks, sizes);
    const Naive naive(schedule);
    const std::vector<Prediction> found = PredictReadiness(Recorded(schedule));
    ASSERT_EQ(!found.empty(), naive.moves) << "seed " << seed;
    ASSERT_EQ(!found.empty() && found[0].run_decides, naive.hangs) << "seed " << seed;
    ASSERT_EQ(!found.empty() && !found[0].witness.origin.check.empty(), naive.differs)
        << "seed " << seed;
    hanging += naive.hangs;
    going_on += naive.differs && !naive.hangs;
    nothing += !naive.moves;
  }
  EXPECT_GT(hanging, 10u);
  EXPECT_GT(going_on, 10u);
  EXPECT_GT(nothing, 5u);
}

}  // namespace
}  // namespace gordian::replayer
