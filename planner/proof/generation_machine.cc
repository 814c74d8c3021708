#include "planner/proof/generation_machine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace gordian::planner {
namespace {

Micros Weight(const Item& item, int link) { return link == 0 ? item.time.comm : item.slow_comm; }

Micros LinkEnd(const Stage& stage, int link) {
  Micros end = 0;
  for (const Send& send : stage.sends) {
    if (send.link == link) end = std::max(end, send.end);
  }
  return end;
}

}  // namespace

GenerationMachine::GenerationMachine(std::vector<Item> items, const MachineOptions& options)
    : items_(std::move(items)), options_(options) {
  const std::vector<Bucket> buckets = AsBuckets(items_);
  ready_ = ReadyTimes(buckets);
  totals_ = Sum(buckets);
}

StageChoice GenerationMachine::Choose(const std::vector<int>& items, bool fresh, Micros deadline,
                                      const std::vector<Micros>& busy) {
  StageProblem problem;
  problem.links = options_.links;
  problem.deadline = deadline;
  std::copy(busy.begin(), busy.end(), problem.busy.begin());
  for (const int i : items) {
    const Item& item = items_[i];
    problem.items.push_back({.value = item.time.comm,
                             .weight = {Weight(item, 0), Weight(item, 1)},
                             .release = fresh ? ready_[i] : 0});
  }
  StageChoice choice = Solve(problem, options_.solver);
  exact_ = exact_ && choice.exact;
  return choice;
}

// Sends what remains of the current generation; all of it is ready.
void GenerationMachine::SendCurrent(Micros deadline, Stage* stage, bool* all) {
  const StageChoice choice = Choose(state_.current, false, deadline, {0, 0});
  *all = choice.All();
  if (stage->backward && !*all) ++state_.waiting;  // the new gradients join the waiting ones
  std::vector<int> left;
  for (int link = 1; link <= options_.links; ++link) {
    Micros now = 0;
    for (size_t j = state_.current.size(); j-- > 0;) {  // in ready order
      if (choice.link[j] != link) continue;
      const int item = state_.current[j];
      const Micros end = now + Weight(items_[item], link - 1);
      stage->sends.push_back({item, link, generation_, false, now, end});
      now = end;
    }
  }
  for (size_t j = 0; j < state_.current.size(); ++j) {
    if (choice.link[j] == 0) left.push_back(state_.current[j]);
  }
  state_.current = std::move(left);
}

// Makes a new generation of all waiting gradients and this iteration's.
void GenerationMachine::SendNew(Micros deadline, Stage* stage, Iteration* iteration) {
  state_.merged = state_.waiting + 1;
  oldest_ = iteration_ - state_.waiting;
  state_.waiting = 0;
  ++generation_;
  std::vector<int> items(items_.size());
  std::iota(items.begin(), items.end(), 0);
  const std::vector<Micros> busy = {LinkEnd(*stage, 1), LinkEnd(*stage, 2)};
  const StageChoice choice = Choose(items, true, deadline, busy);
  for (int link = 1; link <= options_.links; ++link) {
    Micros now = busy[link - 1];
    for (size_t j = items.size(); j-- > 0;) {
      if (choice.link[j] != link) continue;
      const Micros begin = std::max(now, ready_[j]);
      now = begin + Weight(items_[j], link - 1);
      stage->sends.push_back({static_cast<int>(j), link, generation_, true, begin, now});
    }
  }
  state_.current.clear();
  for (size_t j = 0; j < items.size(); ++j) {
    if (choice.link[j] == 0) state_.current.push_back(items[j]);
  }
  if (state_.current.empty()) Complete(iteration);
}

void GenerationMachine::Complete(Iteration* iteration) {
  iteration->updates.push_back({generation_, state_.merged, oldest_});
  state_.merged = 0;
}

void GenerationMachine::Close(Stage* stage) const {
  std::stable_sort(stage->sends.begin(), stage->sends.end(),
                   [](const Send& a, const Send& b) { return a.link < b.link; });
  stage->length = stage->compute;
  for (int link = 1; link <= options_.links; ++link) {
    stage->length = std::max(stage->length, LinkEnd(*stage, link));
  }
}

Iteration GenerationMachine::Next() {
  Iteration iteration;
  const auto capacity = [this](Micros compute) {
    return static_cast<Micros>(std::floor(options_.scale * static_cast<double>(compute) + 1e-6));
  };
  bool all = true;
  iteration.forward.compute = totals_.forward;
  if (!state_.current.empty()) {  // case 1
    SendCurrent(capacity(totals_.forward), &iteration.forward, &all);
    if (all) Complete(&iteration);
  }
  Stage& backward = iteration.backward;
  backward.backward = true;
  backward.compute = totals_.backward;
  const Micros deadline = capacity(totals_.backward);
  if (!state_.current.empty()) {
    SendCurrent(deadline, &backward, &all);
    if (all) {  // case 3; else case 2
      Complete(&iteration);
      SendNew(deadline, &backward, &iteration);
    }
  } else {  // case 4
    SendNew(deadline, &backward, &iteration);
  }
  Close(&iteration.forward);
  Close(&backward);
  ++iteration_;
  return iteration;
}

PeriodicSchedule RunUntilPeriodic(const std::vector<Item>& items, const MachineOptions& options,
                                  int most_iterations) {
  GenerationMachine machine(items, options);
  PeriodicSchedule schedule;
  std::map<GenerationMachine::State, int64_t> seen;
  std::vector<Iteration> all;
  std::vector<int64_t> generations;  // before each iteration
  int64_t first = -1;
  while (machine.iterations() < most_iterations) {
    const auto [at, fresh] = seen.emplace(machine.state(), machine.iterations());
    if (!fresh) {
      first = at->second;
      break;
    }
    generations.push_back(machine.generation());
    all.push_back(machine.Next());
  }
  schedule.exact = machine.exact();
  if (first < 0) {
    schedule.warm_up = std::move(all);
    return schedule;
  }
  schedule.generations = machine.generation() - generations[first];
  schedule.period.assign(all.begin() + first, all.end());
  schedule.warm_up.assign(all.begin(), all.begin() + first);
  const auto length = static_cast<double>(schedule.period.size());
  Micros time = 0, sending = 0;
  int64_t gradients = 0, staleness = 0;
  for (size_t i = 0; i < schedule.period.size(); ++i) {
    const Iteration& iteration = schedule.period[i];
    for (const Stage* stage : {&iteration.forward, &iteration.backward}) {
      time += stage->length;
      for (const Send& send : stage->sends) sending += send.end - send.begin;
    }
    for (const Update& update : iteration.updates) {
      schedule.merged.push_back(update.merged);
      for (int g = 0; g < update.merged; ++g) {
        const int64_t late = first + static_cast<int64_t>(i) - (update.first_gradient + g);
        staleness += late;
        ++gradients;
        schedule.max_staleness = std::max(schedule.max_staleness, static_cast<int>(late));
      }
    }
  }
  schedule.updates_per_iteration = static_cast<double>(schedule.merged.size()) / length;
  schedule.step = static_cast<double>(time) / length;
  schedule.fill = static_cast<double>(sending) / (static_cast<double>(time) * options.links);
  schedule.mean_staleness =
      gradients == 0 ? 0 : static_cast<double>(staleness) / static_cast<double>(gradients);
  return schedule;
}

}  // namespace gordian::planner
