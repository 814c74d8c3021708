// DeFT's delayed updates as a finite-state machine: which items to send in which stage of which
// iteration, and when an optimizer step has all its input.
//
// A *generation* is a set of merged gradients, sent and applied as one. Items that do not fit into
// an iteration's computation are sent in the next ones; meanwhile each rank adds up the gradients
// of further iterations, which become the next generation. Weights change only at the end of an
// iteration. A state is only "which items of the current generation remain, how many gradients it
// holds, how many wait", so the sequence becomes periodic.
//
// Source: DeFT, algorithm 2 (four cases). Its pseudocode leaves gaps; here new gradients count
// once, generations have numbers, and an item is sent only when ready (stage_solver.h).
#ifndef GORDIAN_PLANNER_PROOF_GENERATION_MACHINE_H_
#define GORDIAN_PLANNER_PROOF_GENERATION_MACHINE_H_

#include <cstdint>
#include <vector>

#include "planner/schedule/buckets.h"
#include "planner/schedule/stage_solver.h"

namespace gordian::planner {

struct Send {
  int item = 0;  // index into the items
  int link = 1;
  int64_t generation = 0;       // from 1
  bool ready_in_stage = false;  // its gradient becomes ready within this stage
  Micros begin = 0, end = 0;    // from the begin of the stage
};

struct Stage {
  bool backward = false;
  std::vector<Send> sends;  // by link, in the link's order
  Micros compute = 0;
  Micros length = 0;  // until computation and both links have ended
};

struct Update {
  int64_t generation = 0;
  int merged = 1;              // gradients in it
  int64_t first_gradient = 0;  // iteration of the oldest of them, from 0
};

struct Iteration {
  Stage forward, backward;
  std::vector<Update> updates;  // at its end
};

struct MachineOptions {
  int links = 1;
  double scale = 1;  // of the stages' capacities
  Solver solver = Solver::kExact;
};

// Not thread-safe. The items are copied.
class GenerationMachine {
 public:
  GenerationMachine(std::vector<Item> items, const MachineOptions& options);

  Iteration Next();

  // Determines all that follows: the remaining items of the current generation, the gradients in
  // it, and the waiting gradients.
  struct State {
    std::vector<int> current;
    int merged = 0, waiting = 0;
    auto operator<=>(const State&) const = default;
  };
  const State& state() const { return state_; }
  int64_t iterations() const { return iteration_; }
  int64_t generation() const { return generation_; }
  // Becomes false when a stage was too large to solve exactly.
  bool exact() const { return exact_; }

 private:
  StageChoice Choose(const std::vector<int>& items, bool fresh, Micros deadline,
                     const std::vector<Micros>& busy);
  void SendCurrent(Micros deadline, Stage* stage, bool* all);
  void SendNew(Micros deadline, Stage* stage, Iteration* iteration);
  void Complete(Iteration* iteration);
  void Close(Stage* stage) const;

  const std::vector<Item> items_;
  const MachineOptions options_;
  std::vector<Micros> ready_;
  Totals totals_;
  State state_;
  int64_t generation_ = 0;
  int64_t oldest_ = 0;  // iteration of the oldest gradient of the current generation
  int64_t iteration_ = 0;
  bool exact_ = true;
};

// The whole future of a machine: a prefix, then a period that repeats for ever.
struct PeriodicSchedule {
  std::vector<Iteration> warm_up, period;
  std::vector<int> merged;  // of the updates of one period, in order
  int64_t generations = 0;  // of one period
  double updates_per_iteration = 0;
  double step = 0;            // mean length of an iteration of the period, us
  double fill = 0;            // share of the period in which a link sends, mean over the links
  double mean_staleness = 0;  // iterations from a gradient to its update, over the period
  int max_staleness = 0;
  bool exact = true;
};

// Gives up after most_iterations without a repetition; the period is then empty.
PeriodicSchedule RunUntilPeriodic(const std::vector<Item>& items, const MachineOptions& options,
                                  int most_iterations = 4096);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_GENERATION_MACHINE_H_
