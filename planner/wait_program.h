// A whole program of operations with all that each waits for, and whether all of it can happen: the
// wait model's decision before a job runs. Moments (something starts, something is done) are nodes;
// a moment comes when all that it waits for have come. The least fixed point is analyzer/graph's;
// what it leaves over contains a cycle, and the shortest one through a few of the moments is the
// witness.
//
// With AND waits only, the result does not depend on the order in which things happen: either every
// run reaches the end, or none does.
#ifndef GORDIAN_PLANNER_WAIT_PROGRAM_H_
#define GORDIAN_PLANNER_WAIT_PROGRAM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/graph/decider.h"

namespace gordian::planner {

using Moment = uint32_t;

struct WaitDecision {
  bool ends = true;           // all of it happens
  std::vector<Moment> stuck;  // what never does
  std::vector<Moment> cycle;  // each waits for the next, the last for the first; empty if `ends`
};

// Not thread-safe.
class WaitProgram {
 public:
  Moment Add() { return graph_.AddNode(graph::AndOrGraph::Kind::kAnd); }
  void Wait(Moment moment, Moment for_moment) {
    graph_.AddEdge(moment, for_moment);
    edges_.emplace_back(moment, for_moment);
  }
  // Something that never comes: a receive without a send.
  void Never(Moment moment) { graph_.SetKind(moment, graph::AndOrGraph::Kind::kCannot); }

  size_t moments() const { return graph_.size(); }
  size_t waits() const { return edges_.size(); }

  WaitDecision Decide() const;

 private:
  graph::AndOrGraph graph_;
  std::vector<std::pair<Moment, Moment>> edges_;
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_WAIT_PROGRAM_H_
