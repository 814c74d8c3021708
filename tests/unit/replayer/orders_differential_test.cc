// Predictions and explorations of small random jobs against a naive twin, which tries every move in
// every state, without source sets, sleep sets, keys or graph, and counts preemptions by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "analyzer/explore/collective_order_graph.h"
#include "analyzer/explore/explorer.h"
#include "replayer/predict/explore.h"
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
Schedule RandomJob(std::mt19937_64& random, bool large) {
  const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  const int ranks = large && below(4) == 0 ? 3 : 2;
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
  const int count = large ? 2 + below(ranks == 2 ? 3 : 2) : 2 + below(5) / 4;
  for (int i = 0; i < count; ++i)
    steps.push_back({below(2), below(3) == 0 ? 1 : 0, below(2), below(large ? 7 : 16),
                     below(large ? 5 : 8) == 0});
  if (!large) {
    // Few calls, of which most compete.
    steps[1].thread = 1 - steps[0].thread;
    if (below(4) != 0) steps[1].comm = 1 - steps[0].comm;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    // Calls that differ only in their thread at this rank.
    const bool one_thread = rank > 0 && below(large ? 2 : 4) != 0;
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

// A dead end: how far each thread has come, and the state's key.
using End = std::pair<std::vector<size_t>, std::string>;
End EndOf(const explore::Explorable& state) {
  std::vector<size_t> at;
  for (const explore::Actor& actor : state.Actors()) at.push_back(actor.at);
  return {at, state.Key()};
}
bool IsDead(const explore::Explorable& state) {
  return !static_cast<const ScheduleState&>(state).machine().AllEnded();
}

// Every state in which nothing moves and something is left, with the fewest preemptions that lead
// there. Returns nothing if there are too many ways.
class Naive {
 public:
  using Ends = std::map<End, size_t>;

  Naive(const Schedule& schedule, size_t most) : schedule_(schedule), most_(most) {}
  std::optional<Ends> Run(const ScheduleState& root) {
    last_.assign(schedule_.ranks.size(), nullptr);
    Visit(root.Clone(), 0);
    return visits_ > most_ ? std::nullopt : std::optional(ends_);
  }

 private:
  struct Last {
    size_t actor = 0;
    const Op* op = nullptr;    // the call that it was in
    const Op* then = nullptr;  // the next one in its thread
  };

  void Visit(std::unique_ptr<explore::Explorable> state, size_t preemptions) {
    if (++visits_ > most_) return;
    const std::vector<explore::Actor> actors = state->Actors();
    size_t left = static_cast<size_t>(std::count_if(
        actors.begin(), actors.end(), [](const auto& actor) { return actor.enabled; }));
    if (left == 0 && IsDead(*state)) {
      const auto [end, added] = ends_.try_emplace(EndOf(*state), preemptions);
      if (!added) end->second = std::min(end->second, preemptions);
    }
    for (size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].enabled) continue;
      const auto& here = static_cast<const ScheduleState&>(*state);
      const size_t rank = here.RankOf(i);
      const std::vector<Op>& ops = schedule_.ranks[rank].threads[here.ThreadOf(i)].ops;
      const Last now{i, &ops[actors[i].at],
                     actors[i].at + 1 < ops.size() ? &ops[actors[i].at + 1] : nullptr};
      const Last* const before = last_[rank];
      // Not where the other one could not go on by itself: it has ended, is in a call, or its last
      // call was a wait.
      const bool preempts = before != nullptr && before->actor != i &&
                            !actors[before->actor].in_call && before->then != nullptr &&
                            !IsHostWait(before->op->kind);
      // The last one needs no copy.
      std::unique_ptr<explore::Explorable> next = --left == 0 ? std::move(state) : state->Clone();
      next->Move(i);
      last_[rank] = &now;
      Visit(std::move(next), preemptions + preempts);
      last_[rank] = before;
    }
  }

  const Schedule& schedule_;
  const size_t most_;
  std::vector<const Last*> last_;  // by rank: its last move
  size_t visits_ = 0;
  Ends ends_;
};

struct Met {
  std::set<End> ends;
  std::set<std::pair<uint64_t, std::vector<size_t>>> ways;  // number and actors
  explore::ExploreCounts counts;
  bool all = false;
};
// `broken_off`: after how many states another explorer goes on.
Met Explored(const ScheduleState& root, size_t jobs, std::optional<size_t> preemptions,
             std::optional<size_t> broken_off = {}) {
  Met met;
  std::mutex mutex;
  explore::ExploreOptions options{.max_preemptions = preemptions};
  if (jobs > 1) options.for_each = ByThreads(jobs);
  options.on_end = [&](uint64_t number, const explore::Explorable& state,
                       const std::vector<explore::Step>& path, size_t) {
    if (!IsDead(state)) return;
    const std::lock_guard lock(mutex);
    met.ends.insert(EndOf(state));
    std::vector<size_t> actors;
    for (const explore::Step& step : path) actors.push_back(step.actor);
    met.ways.insert({number, std::move(actors)});
  };
  explore::Frontier frontier;
  if (broken_off) {
    explore::ExploreOptions first = options;
    first.max_states = *broken_off;
    explore::Explorer explorer(root, std::move(first));
    explorer.Run();
    frontier = explorer.Save();
  }
  explore::Explorer explorer(root, std::move(options));
  if (broken_off) {
    EXPECT_TRUE(explorer.Resume(frontier));
  }
  met.all = explorer.Run();
  met.counts = explorer.counts();
  return met;
}

std::string Show(const Schedule& schedule) {
  std::string text;
  ForEachOp(schedule, [&](size_t rank, size_t thread, const Op& op) {
    text += "rank " + std::to_string(rank) + " thread " + std::to_string(thread) + ": " +
            Name(op.kind) + " comm " + std::to_string(op.comm) + " stream " +
            std::to_string(op.stream) + "\n";
  });
  return text;
}

// GORDIAN_RANDOM_JOBS: how many jobs.
size_t Jobs() {
  const char* const asked = std::getenv("GORDIAN_RANDOM_JOBS");
  return asked == nullptr ? 20'000 : std::strtoul(asked, nullptr, 10);
}

TEST(OrdersDifferential, AgreeWithEveryOrder) {
  size_t hanging = 0, predicted = 0, candidates_only = 0, unforced = 0;
  size_t states = 0, bounded_less = 0;
  const size_t jobs = Jobs();
  size_t seed = 0;
  for (size_t judged = 0; judged < jobs;) {
    std::mt19937_64 random(++seed);
    const bool large = seed % 128 == 0;
    const std::optional<RecordedOrders> orders =
        RunInOrder(RandomJob(random, large), [&](size_t n) { return random() % n; });
    if (!orders) continue;  // a run that hangs is not recorded as a healthy one
    const Schedule& schedule = orders->schedule;
    const std::string shown = "seed " + std::to_string(seed) + "\n" + Show(schedule);
    const Footprints footprints = FootprintsOf(schedule);
    const ScheduleState root(schedule, footprints);
    const std::optional<Naive::Ends> all = Naive(schedule, large ? 5000 : 300).Run(root);
    if (!all) continue;
    ++judged;
    hanging += !all->empty();

    // The explorer meets the same dead ends, within any bound, by any number of threads.
    std::vector<std::optional<size_t>> bounds = {std::nullopt};
    if (large || seed % 2 == 0) bounds.push_back(seed / 2 % 3);
    for (const std::optional<size_t>& bound : bounds) {
      std::set<End> expected;
      for (const auto& [end, preemptions] : *all) {
        if (!bound || preemptions <= *bound) expected.insert(end);
      }
      const Met met = Explored(root, 1, bound);
      states += met.counts.states;
      bounded_less += expected.size() < all->size();
      ASSERT_TRUE(met.all);
      ASSERT_EQ(met.ends, expected)
          << (bound ? std::to_string(*bound) + " preemptions, " : "") << shown;
      if (!large && seed % 16 != 0) continue;
      for (const Met& again :
           {Explored(root, 2, bound), Explored(root, 1, bound, 1 + random() % 8)}) {
        ASSERT_EQ(met.ways, again.ways) << shown;
        ASSERT_EQ(met.counts.Schedules(), again.counts.Schedules()) << shown;
      }
    }

    // Without a candidate there is none, and a prediction is one of them.
    const explore::Candidates candidates = explore::FindCandidates(OrderedCallsOf(*orders).calls);
    candidates_only += !candidates.found.empty() && all->empty();
    ASSERT_TRUE(!candidates.found.empty() || all->empty()) << shown;
    const Predictions predictions = Predict(*orders);
    ASSERT_TRUE(predictions.unconfirmed.empty());
    ASSERT_EQ(predictions.complete, predictions.not_judged.empty());
    if (!predictions.complete) {
      // Two threads that both make a first use may go on in any order, which gates cannot force.
      unforced += predictions.predicted.empty();
      ASSERT_TRUE(!orders->schedule.comms[0].connected) << predictions.not_judged.front() << "\n"
                                                        << shown;
    }
    ASSERT_TRUE(predictions.predicted.empty() || !all->empty()) << shown;
    predicted += !predictions.predicted.empty();
    for (const Prediction& found : predictions.predicted) {
      ASSERT_FALSE(found.cycle.empty());
      ASSERT_FALSE(found.orders.empty()) << shown;
      ASSERT_TRUE(std::any_of(found.orders.begin(), found.orders.end(), [](const CallOrder& order) {
        return !order.as_recorded;
      })) << shown;
      for (const Turns turns : {kFirstFirst, LastThreadFirst(seed % 2)})
        ASSERT_EQ(RunModel(found.witness, turns).signature.verdict, "deadlock") << shown;
    }
    ASSERT_TRUE(!predictions.complete || predictions.predicted.empty() == all->empty()) << shown;
    if (!large && seed % 4 != 0) continue;

    // Judged by the model, the explorer's ends have all that is predicted, and no more than there
    // is.
    WindowState state;
    const StatusOr<Predictions> explored = ExploreWindow(*orders, {}, &state);
    ASSERT_TRUE(explored.ok() && state.done) << shown;
    ASSERT_EQ(explored->judged, predictions.judged) << shown;
    ASSERT_EQ(explored->complete, explored->not_judged.empty()) << shown;
    ASSERT_TRUE(explored->predicted.empty() || !all->empty()) << shown;
    ASSERT_TRUE(!explored->complete || explored->predicted.empty() == all->empty()) << shown;
    std::set<std::set<std::string>> sites;
    for (const Prediction& found : explored->predicted) {
      sites.insert(found.sites);
      for (const Turns turns : {kFirstFirst, LastThreadFirst(seed % 2)})
        ASSERT_EQ(RunModel(found.witness, turns).signature.verdict, "deadlock") << shown;
    }
    for (const Prediction& found : predictions.predicted)
      ASSERT_TRUE(sites.contains(found.sites)) << shown;
  }
  std::printf(
      "%zu jobs, %zu can hang, %zu predicted, %zu with candidates alone, %zu not judged in full, "
      "%zu states, %zu times a bound left ends out\n",
      jobs, hanging, predicted, candidates_only, unforced, states, bounded_less);
  EXPECT_LT(unforced * 20, jobs);
  EXPECT_GT(hanging * 20, jobs);
  EXPECT_GT((jobs - hanging) * 4, jobs);
  EXPECT_GT(bounded_less * 200, jobs);
}

}  // namespace
}  // namespace gordian::replayer
