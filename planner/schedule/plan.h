// A plan: which items of which generations go over which link in which stage of which iteration,
// and the expected gain. All ranks share one plan: equal inputs give equal bytes and an equal hash,
// which the ranks compare before they start it.
#ifndef GORDIAN_PLANNER_SCHEDULE_PLAN_H_
#define GORDIAN_PLANNER_SCHEDULE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/proof/generation_machine.h"
#include "planner/proof/preserver.h"
#include "planner/schedule/baselines.h"
#include "planner/schedule/buckets.h"

namespace gordian::planner {

struct PlanOptions {
  int links = 1;
  double mu = 1.65;       // time on the second link / time on the first
  double epsilon = 0.01;  // of the Preserver
  // Largest item in elements; 0: no limit. The longest item always fits into the smallest knapsack.
  int64_t partition = 0;
  Micros startup = 0;  // what an all-reduce takes whatever its size
  Solver solver = Solver::kExact;
  // Factor by which stages may at first exceed their computation.
  double scale = 1;
  // The loss as a random walk; without it the planner does not assess convergence.
  std::optional<LossWalk> walk;
  Merge merge = Merge::kSum;
};

enum class Convergence : uint8_t { kNotAssessed, kKept, kRefused };

struct Plan {
  PlanOptions options;
  std::vector<Bucket> buckets;
  std::vector<Item> items;
  PeriodicSchedule schedule;
  double scale = 1;  // the scale that was accepted
  int retries = 0;
  Convergence convergence = Convergence::kNotAssessed;
  Preservation preservation;  // of the last try
  // Baselines, on whole buckets.
  Micros wfbp = 0, priority = 0, priority_chunked = 0, priority_bound = 0;
  Micros chunk = 0;  // of priority_chunked
  uint64_t hash = 0;
};

inline constexpr int kMostRetries = 10;
inline constexpr double kRetryGrowth = 1.1;

// Errors, in `*error`: a table that CheckBuckets refuses, links other than 1 or 2, mu below 1, an
// item that fits into no stage, a schedule without a period.
std::optional<Plan> MakePlan(const std::vector<Bucket>& buckets, const PlanOptions& options,
                             std::string* error);

// Covers everything that a rank does by the plan: items, links, stages, generations, their order,
// and whether merged gradients are a sum or a mean. Not the times that led to it: ranks whose times
// differ may well follow one schedule.
uint64_t HashOf(const Plan& plan);

// Iteration `t` of the plan, from 0, with absolute generation numbers.
struct PlannedIteration {
  const Iteration* shape = nullptr;
  int64_t generation_offset = 0;  // to add to the generations of `shape`
  int64_t iteration_offset = 0;   // to add to Update::first_gradient
};
PlannedIteration At(const PeriodicSchedule& schedule, int64_t t);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SCHEDULE_PLAN_H_
