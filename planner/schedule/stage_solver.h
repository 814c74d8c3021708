// Chooses the items to send in one stage (a forward or a backward pass) so that all end within it.
//
// DeFT's problems 1 and 2 (knapsacks whose capacity is the stage's computation time), plus what the
// paper leaves out: an item cannot start before its gradient is ready, and a link may be busy with
// older items at first. Each link sends items in the order in which they become ready, which meets
// all deadlines if any order does (earliest release first, common deadline).
//
// Source: DeFT, problems 1 and 2 and its greedy algorithm. The dynamic program over reachable
// loads, and the feasibility test of both, are gordian's own.
#ifndef GORDIAN_PLANNER_SCHEDULE_STAGE_SOLVER_H_
#define GORDIAN_PLANNER_SCHEDULE_STAGE_SOLVER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "planner/schedule/buckets.h"

namespace gordian::planner {

struct StageItem {
  Micros value = 0;                        // communication time on the first link
  std::array<Micros, kMaxLinks> weight{};  // time on each link
  Micros release = 0;                      // from the begin of the stage
};

struct StageProblem {
  // In index order; release times must not rise.
  std::vector<StageItem> items;
  int links = 1;
  Micros deadline = 0;                   // all must end by then
  std::array<Micros, kMaxLinks> busy{};  // when each link becomes free
};

struct StageChoice {
  std::vector<int> link;  // for each item: its link, 1 or 2; 0: not sent
  bool exact = true;      // false: the search gave up, and the choice is greedy

  Micros Value(const StageProblem& problem) const;
  bool All() const;  // every item is sent
};

enum class Solver : uint8_t { kExact, kGreedy };

// Maximises the sum of values, then the sum on the first link, then takes the first choice in the
// order "on link 1, on link 2, not sent", read from the first item on. Two links may reach 3^items
// loads; beyond `kMostStates` the function returns the greedy choice, with `exact` false.
inline constexpr size_t kMostStates = 500'000;
StageChoice SolveExact(const StageProblem& problem);

// Fills the links by ascending capacity (the slow one first), each time with the longest item that
// still fits.
StageChoice SolveGreedy(const StageProblem& problem);

StageChoice Solve(const StageProblem& problem, Solver solver);

// Checks that each link can send its items by the deadline.
bool Feasible(const StageProblem& problem, const StageChoice& choice);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SCHEDULE_STAGE_SOLVER_H_
