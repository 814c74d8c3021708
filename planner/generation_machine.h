// DeFT's delayed updates as a finite machine: which items are sent in which stage of which
// iteration, and when an optimizer step has all that it needs.
//
// A *generation* is a set of merged gradients that is sent and applied as one. What does not fit
// into the computation of an iteration is sent in the next ones; meanwhile the gradients of further
// iterations are added up locally and become the next generation. Weights change only at the end of
// an iteration. Since a state is only "which items of the current generation are left, how many
// gradients it holds, how many wait", the sequence becomes periodic.
//
// Source: DeFT, algorithm 2 (four cases), with the gaps of its pseudocode filled: new gradients are
// accounted for once, generations are numbered, and readiness is honoured (stage_solver.h).
#ifndef GORDIAN_PLANNER_GENERATION_MACHINE_H_
#define GORDIAN_PLANNER_GENERATION_MACHINE_H_

#include <cstdint>
#include <vector>

#include "planner/buckets.h"
#include "planner/stage_solver.h"

namespace gordian::planner {

struct Send {
  int item = 0;  // index into the items
  int link = 1;
  int64_t generation = 0;       // from 1
  bool ready_in_stage = false;  // its gradient becomes ready in this very stage
  Micros begin = 0, end = 0;    // from the begin of the stage
};

struct Stage {
  bool backward = false;
  std::vector<Send> sends;  // by link, in the order in which the link carries them
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
  double scale = 1;  // of the stage capacities
  Solver solver = Solver::kExact;
};

// Not thread-safe. The items are copied.
class GenerationMachine {
 public:
  GenerationMachine(std::vector<Item> items, const MachineOptions& options);

  Iteration Next();

  // Equal states go on equally. Held: the items left of the current generation, gradients in it,
  // and gradients waiting.
  struct State {
    std::vector<int> current;
    int merged = 0, waiting = 0;
    auto operator<=>(const State&) const = default;
  };
  const State& state() const { return state_; }
  int64_t iterations() const { return iteration_; }
  int64_t generation() const { return generation_; }
  // False once a stage was too large to be solved exactly.
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

// A machine's whole future: what happens once, then what repeats for ever.
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

// most_iterations: given up after so many without a repetition; the period is then empty.
PeriodicSchedule RunUntilPeriodic(const std::vector<Item>& items, const MachineOptions& options,
                                  int most_iterations = 4096);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_GENERATION_MACHINE_H_
