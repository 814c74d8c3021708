// Decides whether a whole program of operations can complete, before it runs, by the wait model.
// Nodes are moments (an operation starts, an operation ends); a moment happens when every moment it
// waits for has happened. Uses the least fixed point of analyzer/model; whatever it leaves over
// contains a cycle, and the shortest one through a few of the moments is the witness.
//
// With AND waits only, the result does not depend on the order of events: either every run reaches
// the end, or none does.
#ifndef GORDIAN_PLANNER_PROOF_WAIT_PROGRAM_H_
#define GORDIAN_PLANNER_PROOF_WAIT_PROGRAM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/model/waits/decider.h"

namespace gordian::planner {

using Moment = uint32_t;

struct WaitDecision {
  bool ends = true;           // every moment happens
  std::vector<Moment> stuck;  // moments that never happen
  std::vector<Moment> cycle;  // each waits for the next, the last for the first; empty if `ends`
};

// Not thread-safe.
class WaitProgram {
 public:
  Moment Add() { return graph_.AddNode(model::AndOrGraph::Kind::kAnd); }
  void Wait(Moment moment, Moment for_moment) {
    graph_.AddEdge(moment, for_moment);
    edges_.emplace_back(moment, for_moment);
  }
  // Declares a moment that never happens: a receive without a send.
  void Never(Moment moment) { graph_.SetKind(moment, model::AndOrGraph::Kind::kCannot); }

  size_t moments() const { return graph_.size(); }
  size_t waits() const { return edges_.size(); }

  WaitDecision Decide() const;

 private:
  model::AndOrGraph graph_;
  std::vector<std::pair<Moment, Moment>> edges_;
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_WAIT_PROGRAM_H_
