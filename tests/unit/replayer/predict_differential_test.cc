// Predictions of small random jobs against a naive twin, which tries every move in every state,
// without persistent sets, keys or graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "analyzer/explore/collective_order_graph.h"
#include "analyzer/explore/order_search.h"
#include "replayer/predict/predict.h"
#include "replayer/predict/schedule_state.h"
#include "replayer/reduce/model_run.h"
#include "tests/unit/replayer/free_orders.h"
#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer {
namespace {

using testing::Calls;
using testing::RunInOrder;
using testing::ScheduleBuilder;

// Two or three ranks, which deal the same few steps to one or two threads.
Schedule RandomJob(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  const int ranks = below(4) == 0 ? 3 : 2;
  ScheduleBuilder job(ranks);
  const bool cold = below(3) == 0;
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  job.Comm("a", all, cold);
  job.Comm("b", below(2) == 0 ? all : std::vector<int>{0, 1}, cold && below(2) == 0);
  struct Step {
    int comm, stream, thread, after;
    bool transfer;
  };
  std::vector<Step> steps;
  for (int i = 0, count = 2 + below(ranks == 2 ? 3 : 2); i < count; ++i)
    steps.push_back({below(2), below(3) == 0 ? 1 : 0, below(2), below(7), below(5) == 0});
  for (int rank = 0; rank < ranks; ++rank) {
    // Calls that differ only in their thread at this rank.
    const bool one_thread = rank > 0 && below(2) == 0;
    std::vector<Calls> threads = {job.On(rank, 0)};
    if (!one_thread) threads.push_back(job.On(rank, 1));
    for (const Step& step : steps) {
      if (step.comm == 1 && job.schedule().comms[1].members.size() <= static_cast<size_t>(rank))
        continue;
      Calls& calls = threads[static_cast<size_t>(step.thread) % threads.size()];
      if (!step.transfer) {
        calls.AllReduce(step.comm, step.stream);
      } else if (rank == 0) {
        calls.Send(step.comm, 1, step.stream);
      } else if (rank == 1) {
        calls.Recv(step.comm, 0, step.stream);
      }
      if (step.after == 0) calls.Sync(step.stream);
      if (step.after == 1) calls.Record(0, step.stream).Wait(0, 1 - step.stream);
      if (step.after == 2) calls.Wait(0, step.stream);
      if (step.after == 3 && below(2) == 0) calls.DeviceSync();
    }
  }
  Schedule schedule = job.Build();
  for (RankProgram& rank : schedule.ranks)
    std::erase_if(rank.threads, [](const ThreadProgram& thread) { return thread.ops.empty(); });
  return schedule;
}

// Every state in which nothing moves and something is left, by how far each thread has come and how
// the model calls it. Returns nothing if there are too many ways.
class Naive {
 public:
  using Ends = std::set<std::pair<std::vector<size_t>, std::string>>;

  std::optional<Ends> Run(const explore::Explorable& root) {
    Visit(root);
    return visits_ > kMost ? std::nullopt : std::optional(ends_);
  }
  static void Add(const explore::Explorable& state, Ends* ends) {
    const Machine& machine = static_cast<const ScheduleState&>(state).machine();
    if (machine.AllEnded()) return;
    std::vector<size_t> at;
    for (const explore::Actor& actor : state.Actors()) at.push_back(actor.at);
    ends->insert({at, state.Key()});
  }

 private:
  static constexpr size_t kMost = 5'000;

  void Visit(const explore::Explorable& state) {
    if (++visits_ > kMost) return;
    bool moved = false;
    const std::vector<explore::Actor> actors = state.Actors();
    for (size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].enabled) continue;
      moved = true;
      const std::unique_ptr<explore::Explorable> next = state.Clone();
      next->Move(i);
      Visit(*next);
    }
    if (!moved) Add(state, &ends_);
  }

  size_t visits_ = 0;
  Ends ends_;
};

std::string Show(const Schedule& schedule) {
  std::string text;
  ForEachOp(schedule, [&](size_t rank, size_t thread, const Op& op) {
    text += "rank " + std::to_string(rank) + " thread " + std::to_string(thread) + ": " +
            Name(op.kind) + " comm " + std::to_string(op.comm) + " stream " +
            std::to_string(op.stream) + "\n";
  });
  return text;
}

size_t Jobs() {
  const char* const asked = std::getenv("GORDIAN_RANDOM_JOBS");
  return asked == nullptr ? 500 : std::strtoul(asked, nullptr, 10);
}

TEST(PredictDifferential, AgreesWithEveryOrder) {
  size_t judged = 0, hanging = 0, predicted = 0, candidates_only = 0, unforced = 0;
  size_t states = 0;
  for (size_t seed = 1; seed <= Jobs(); ++seed) {
    std::mt19937_64 random(seed);
    const std::optional<RecordedOrders> orders =
        RunInOrder(RandomJob(random), [&](size_t n) { return random() % n; });
    if (!orders) continue;  // a run that hangs is not recorded as a healthy one
    const Footprints footprints = FootprintsOf(orders->schedule);
    const ScheduleState root(orders->schedule, footprints);
    const std::optional<Naive::Ends> all = Naive().Run(root);
    if (!all) continue;
    ++judged;
    hanging += !all->empty();

    // The search meets the same dead ends.
    Naive::Ends met;
    explore::SearchOptions options;
    options.on_end = [&](const explore::Explorable& state, const std::vector<explore::Step>&) {
      Naive::Add(state, &met);
      return true;
    };
    const explore::SearchReport report = explore::SearchOrders(root, options);
    states += report.states;
    ASSERT_TRUE(report.complete);
    ASSERT_EQ(met, *all) << "seed " << seed << "\n" << Show(orders->schedule);

    // Without a candidate there is none, and a prediction is one of them.
    const explore::Candidates candidates = explore::FindCandidates(OrderedCallsOf(*orders).calls);
    candidates_only += !candidates.found.empty() && all->empty();
    ASSERT_TRUE(!candidates.found.empty() || all->empty()) << "seed " << seed << "\n"
                                                           << Show(orders->schedule);
    const Predictions predictions = Predict(*orders);
    ASSERT_TRUE(predictions.unconfirmed.empty());
    ASSERT_EQ(predictions.complete, predictions.not_judged.empty());
    if (!predictions.complete) {
      // Two threads that both make a first use may go on in any order, which gates cannot force.
      unforced += predictions.predicted.empty();
      ASSERT_TRUE(!orders->schedule.comms[0].connected) << "seed " << seed << "\n"
                                                        << predictions.not_judged.front() << "\n"
                                                        << Show(orders->schedule);
    }
    ASSERT_TRUE(predictions.predicted.empty() || !all->empty()) << "seed " << seed << "\n"
                                                                << Show(orders->schedule);
    predicted += !predictions.predicted.empty();
    for (const Prediction& found : predictions.predicted) {
      ASSERT_FALSE(found.cycle.empty());
      ASSERT_FALSE(found.orders.empty()) << "seed " << seed << "\n" << Show(orders->schedule);
      ASSERT_TRUE(std::any_of(found.orders.begin(), found.orders.end(),
                              [](const CallOrder& order) { return !order.as_recorded; }))
          << "seed " << seed << "\n"
          << Show(orders->schedule);
      for (const Turns turns : {kFirstFirst, Turns{1}, LastThreadFirst(0), LastThreadFirst(1)})
        ASSERT_EQ(RunModel(found.witness, turns).signature.verdict, "deadlock")
            << "seed " << seed << "\n"
            << Show(orders->schedule);
    }
    ASSERT_TRUE(!predictions.complete || predictions.predicted.empty() == all->empty())
        << "seed " << seed << "\n"
        << Show(orders->schedule);
  }
  std::printf(
      "%zu jobs judged, %zu can hang, %zu predicted, %zu with candidates alone, %zu not judged in "
      "full, %zu states\n",
      judged, hanging, predicted, candidates_only, unforced, states);
  EXPECT_LT(unforced * 20, judged);
  EXPECT_GT(hanging * 20, judged);
  EXPECT_GT((judged - hanging) * 4, judged);
}

}  // namespace
}  // namespace gordian::replayer
