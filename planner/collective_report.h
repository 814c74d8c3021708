// Compares measured with expected times: how long the collectives of a recorded job took, which
// rank came last, and what the cost model predicts for each possible plan.
//
// A collective is measured when a host wait of some member shows its end (session_profile.h); its
// time is the least over the members, because the last member to come waits for no other.
#ifndef GORDIAN_PLANNER_COLLECTIVE_REPORT_H_
#define GORDIAN_PLANNER_COLLECTIVE_REPORT_H_

#include <string>
#include <vector>

#include "planner/cost_model.h"
#include "planner/proof/job_trace.h"

namespace gordian::planner {

struct CollectiveRow {
  int comm = -1;
  model::Call call = model::Call::kOther;
  int ranks = 0;
  double bytes = 0;  // m: all p blocks; for an all-reduce its buffer
  int instances = 0;
  int measured = 0;  // instances with a known end
  double median_us = 0, best_us = 0, worst_us = 0;
  // The rank that came last most often, in how many instances, and by how much at the median. -1:
  // unknown, since the ranks have different clocks or come together.
  int late_rank = -1;
  int late_times = 0;
  double late_us = 0;
  bool modelled = false;              // all-reduce, all-gather, reduce-scatter
  std::vector<Candidate> candidates;  // fastest first; empty: no cost is known
};

// Where expected times come from: `cost` for kSmallestFitted bytes and more, `samples` below that.
struct Expectation {
  const MachineCost* cost = nullptr;
  const std::vector<CostSample>* samples = nullptr;
};

// `one_clock`: all processes share a clock (one node). Returns rows by communicator, call and size.
std::vector<CollectiveRow> ReportCollectives(const JobTrace& trace, bool one_clock,
                                             const Expectation& expected);

// A collective whose time others have measured: of an instance, the least over all its members.
struct TimedCollective {
  int comm = -1;
  model::Call call = model::Call::kOther;
  int ranks = 0;
  double bytes = 0;      // as CollectiveRow's
  double least_us = -1;  // -1: unknown
};
// The same of these. Their ranks have different clocks.
std::vector<CollectiveRow> ReportTimed(const std::vector<TimedCollective>& collectives,
                                       const Expectation& expected);

// Turns the measured rows into samples of rings, to fit a cost to: NCCL does not say which plan it
// used.
std::vector<CostSample> SamplesOf(const std::vector<CollectiveRow>& rows);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_COLLECTIVE_REPORT_H_
