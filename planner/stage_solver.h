// Which items to send in one stage (a forward or a backward pass), so that all of them end within
// it.
//
// DeFT's problems 1 and 2 (knapsacks whose capacity is the stage's computation time) with what the
// paper leaves out: an item cannot start before its gradient is ready, and a link that still
// carries older items is busy until then. On one link items go in the order in which they become
// ready, which meets all deadlines if any order does (earliest release first, common deadline).
//
// Source: DeFT, problems 1 and 2 and its greedy algorithm. The dynamic program over reachable
// loads, and the feasibility test of both, are ours.
#ifndef GORDIAN_PLANNER_STAGE_SOLVER_H_
#define GORDIAN_PLANNER_STAGE_SOLVER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "planner/buckets.h"

namespace gordian::planner {

struct StageItem {
  Micros value = 0;                        // communication time on the first link
  std::array<Micros, kMaxLinks> weight{};  // time on each link
  Micros release = 0;                      // from the begin of the stage
};

struct StageProblem {
  // In index order: release times must not rise from one to the next.
  std::vector<StageItem> items;
  int links = 1;
  Micros deadline = 0;                   // all must end by then
  std::array<Micros, kMaxLinks> busy{};  // each link is taken until then
};

struct StageChoice {
  std::vector<int> link;  // for each item: 0 it is not sent, 1 or 2 on which link
  bool exact = true;      // false: the search was given up and the greedy choice taken

  Micros Value(const StageProblem& problem) const;
  bool All() const;  // every item is sent
};

enum class Solver : uint8_t { kExact, kGreedy };

// The greatest sum of values; among those the greatest on the first link; among those the first in
// the order "on link 1, on link 2, not sent" read from the first item on. Two links: the reachable
// loads can be as many as 3^items; beyond `kMostStates` of them the greedy choice is returned,
// marked.
inline constexpr size_t kMostStates = 500'000;
StageChoice SolveExact(const StageProblem& problem);

// Links by ascending capacity (the slow one first), into each the longest item that still fits.
StageChoice SolveGreedy(const StageProblem& problem);

StageChoice Solve(const StageProblem& problem, Solver solver);

// Whether each link can carry what was chosen for it by the deadline.
bool Feasible(const StageProblem& problem, const StageChoice& choice);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_STAGE_SOLVER_H_
