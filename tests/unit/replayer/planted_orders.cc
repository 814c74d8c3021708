#include "tests/unit/replayer/planted_orders.h"

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tests/unit/replayer/free_orders.h"
#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer::testing {
namespace {

std::vector<int> All(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  return all;
}

// Records the job as if each rank's first thread had been first, with and without that order kept.
Planted Plant(const std::string& name, size_t preemptions, ScheduleBuilder& job) {
  Planted planted{.name = name, .preemptions = preemptions, .orders = {}, .twin = {}};
  const auto first = [](size_t) { return size_t{0}; };
  Schedule schedule = job.Build();
  if (std::optional<RecordedOrders> orders = RunInOrder(schedule, first))
    planted.orders = std::move(*orders);
  for (RankProgram& rank : schedule.ranks) {
    for (size_t thread = 1; thread < rank.threads.size(); ++thread)
      rank.threads[thread].ops.front().gates.push_back(
          {rank.threads[thread - 1].ops.back().id, Gate::Moment::kReturned});
  }
  if (std::optional<RecordedOrders> orders = RunInOrder(schedule, first))
    planted.twin = std::move(*orders);
  return planted;
}

// Two threads of each rank use one stream.
Planted Pair(int ranks, OpKind one, OpKind other, bool waits) {
  ScheduleBuilder job(ranks);
  job.Comm("dp", All(ranks));
  job.Comm("tp", All(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    job.On(rank, 0).Do(one, 0, 0, 1024, HasRoot(one) ? 0 : -1);
    Calls second = job.On(rank, 1);
    second.Do(other, 1, 0, 1024, HasRoot(other) ? 0 : -1);
    if (waits) second.Sync(0);
  }
  return Plant(std::string(Name(one)) + " beside " + Name(other) +
                   (waits ? " that is awaited" : "") + ", " + std::to_string(ranks) + " ranks",
               0, job);
}

// Rank r's threads use communicators with the rank before it and the one after it.
Planted Ring(int ranks, OpKind kind) {
  ScheduleBuilder job(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    job.Comm("c" + std::to_string(rank), {rank, (rank + 1) % ranks});
  for (int rank = 0; rank < ranks; ++rank) {
    // The last rank's threads are the other way round, so that the recorded order has no circle.
    const int before = (rank + ranks - 1) % ranks, last = rank == ranks - 1 ? 1 : 0;
    job.On(rank, last).Do(kind, rank);
    job.On(rank, 1 - last).Do(kind, before);
  }
  return Plant("ring of " + std::to_string(ranks) + ", " + Name(kind), 0, job);
}

// In each of `preempted` ranks one thread calls A and B, the other one P and Q. A and P share a
// stream, and so do Q and B. Only where P and Q come between A and B do P wait for A and B for Q.
// The last rank, of one thread, makes each Q wait for P, and each A for the next rank's B.
Planted Gadgets(int preempted, OpKind kind) {
  ScheduleBuilder job(preempted + 1);
  const int glue = preempted;
  std::vector<std::vector<int>> comms;  // A, B, P, Q
  for (int rank = 0; rank < preempted; ++rank) {
    std::vector<int>& of = comms.emplace_back();
    for (const char* const name : {"a", "b", "p", "q"})
      of.push_back(job.Comm(name + std::to_string(rank), {rank, glue}));
    job.On(rank, 0).Do(kind, of[0], 0).Do(kind, of[1], 1);
    job.On(rank, 1).Do(kind, of[2], 0).Do(kind, of[3], 1);
  }
  Calls calls = job.On(glue, 0);
  for (int rank = 0; rank < preempted; ++rank) {
    const size_t here = static_cast<size_t>(rank),
                 next = static_cast<size_t>((rank + 1) % preempted);
    calls.Do(kind, comms[next][1], 2 * rank).Do(kind, comms[here][0], 2 * rank);
    calls.Do(kind, comms[here][2], 2 * rank + 1).Do(kind, comms[here][3], 2 * rank + 1);
  }
  return Plant(std::to_string(preempted) + " preemptions, " + Name(kind),
               static_cast<size_t>(preempted), job);
}

class Counter {
 public:
  double Count(const ScheduleState& state) {
    const std::string key = state.Key();
    if (const auto known = ways_.find(key); known != ways_.end()) return known->second;
    double ways = 0;
    const std::vector<explore::Actor> actors = state.Actors();
    for (size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].enabled) continue;
      const std::unique_ptr<explore::Explorable> next = state.Clone();
      next->Move(i);
      ways += Count(static_cast<const ScheduleState&>(*next));
    }
    if (ways == 0) ways = 1;
    ways_.emplace(key, ways);
    return ways;
  }

 private:
  std::unordered_map<std::string, double> ways_;
};

}  // namespace

std::vector<Planted> PlantedOrders() {
  using enum OpKind;
  std::vector<Planted> all;
  for (const int ranks : {2, 3, 4}) {
    for (const auto& [one, other] :
         {std::pair(kAllReduce, kAllReduce), std::pair(kAllGather, kReduceScatter),
          std::pair(kAllToAll, kAllReduce)}) {
      for (const bool waits : {false, true}) all.push_back(Pair(ranks, one, other, waits));
    }
  }
  for (const int ranks : {3, 4}) {
    for (const OpKind kind : {kAllReduce, kAllGather, kReduceScatter})
      all.push_back(Ring(ranks, kind));
  }
  for (const int preempted : {1, 2, 3}) {
    for (const OpKind kind : {kAllReduce, kAllGather, kReduceScatter, kAllToAll})
      all.push_back(Gadgets(preempted, kind));
  }
  return all;
}

RecordedOrders PlantedAtMany(int ranks) {
  return Pair(ranks, OpKind::kAllReduce, OpKind::kAllReduce, /*waits=*/true).orders;
}

RecordedOrders RacingThreads(int calls) {
  ScheduleBuilder job(2);
  for (const char* const name : {"dp", "tp"}) job.Comm(name, All(2));
  for (int rank = 0; rank < 2; ++rank) {
    for (int thread = 0; thread < 2; ++thread) {
      Calls of = job.On(rank, thread);
      for (int i = 0; i < calls; ++i) of.AllReduce(thread);
    }
  }
  return Plant("race", 0, job).orders;
}

double CountSchedules(const ScheduleState& root) { return Counter().Count(root); }

}  // namespace gordian::replayer::testing
