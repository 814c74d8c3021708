// Measured against expected: how long the collectives of a recorded job took, who came late, and
// what the cost model says of the plans that could have been used.
//
// An instance is measured where a host wait of some member shows its end (session_profile.h); its
// time is the least over the members, whose last one waits for nobody.
#ifndef GORDIAN_PLANNER_COLLECTIVE_REPORT_H_
#define GORDIAN_PLANNER_COLLECTIVE_REPORT_H_

#include <string>
#include <vector>

#include "planner/cost_model.h"
#include "planner/job_trace.h"

namespace gordian::planner {

struct CollectiveRow {
  int comm = -1;
  graph::Call call = graph::Call::kOther;
  int ranks = 0;
  double bytes = 0;  // m: all p blocks; of an all-reduce its buffer
  int instances = 0;
  int measured = 0;  // instances whose end was seen
  double median_us = 0, best_us = 0, worst_us = 0;
  // Who came last most often, in how many of the instances, and by how much on the median. -1:
  // nobody can be told, since its ranks are on clocks of their own or come together.
  int late_rank = -1;
  int late_times = 0;
  double late_us = 0;
  bool modelled = false;              // all-reduce, all-gather, reduce-scatter
  std::vector<Candidate> candidates;  // fastest first; empty: there is no cost to reckon with
};

// What is expected: `cost` from kSmallestFitted bytes on, below that what `samples` measured at
// such sizes.
struct Expectation {
  const MachineCost* cost = nullptr;
  const std::vector<CostSample>* samples = nullptr;
};

// `one_clock`: processes share a clock (one node). Rows by communicator, call and size.
std::vector<CollectiveRow> ReportCollectives(const JobTrace& trace, bool one_clock,
                                             const Expectation& expected);

// The measured rows as samples of rings, to fit a cost from: NCCL does not tell what it used.
std::vector<CostSample> SamplesOf(const std::vector<CollectiveRow>& rows);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_COLLECTIVE_REPORT_H_
