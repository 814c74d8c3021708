// A plan: which items of which generations go over which link in which stage of which iteration,
// with what it is expected to bring. One plan for all ranks: equal inputs give equal bytes and an
// equal hash, which the ranks compare before the plan starts.
#ifndef GORDIAN_PLANNER_PLAN_H_
#define GORDIAN_PLANNER_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/baselines.h"
#include "planner/buckets.h"
#include "planner/generation_machine.h"
#include "planner/preserver.h"

namespace gordian::planner {

struct PlanOptions {
  int links = 1;
  double mu = 1.65;       // time of the second link by that of the first
  double epsilon = 0.01;  // of the Preserver
  // Most elements of an item; 0: no limit. The longest item fits into the smallest knapsack in any
  // case.
  int64_t partition = 0;
  Solver solver = Solver::kExact;
  // Stages may be longer than their computation by this factor to begin with.
  double scale = 1;
  // What is known of the loss; absent: convergence is not assessed.
  std::optional<LossWalk> walk;
  Merge merge = Merge::kSum;
};

enum class Convergence : uint8_t { kNotAssessed, kKept, kRefused };

struct Plan {
  PlanOptions options;
  std::vector<Bucket> buckets;
  std::vector<Item> items;
  PeriodicSchedule schedule;
  double scale = 1;  // at which it was accepted
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

// Errors are told in `*error`, naming what is wrong: a table that CheckBuckets refuses, links other
// than 1 or 2, mu below 1, an item that fits into no stage, a schedule without a period.
std::optional<Plan> MakePlan(const std::vector<Bucket>& buckets, const PlanOptions& options,
                             std::string* error);

// Everything that a rank does by the plan enters: items, links, stages, generations, their order.
uint64_t HashOf(const Plan& plan);

// Iteration `t` of the plan, from 0, with generations numbered through.
struct PlannedIteration {
  const Iteration* shape = nullptr;
  int64_t generation_offset = 0;  // to add to the generations of `shape`
  int64_t iteration_offset = 0;   // to add to Update::first_gradient
};
PlannedIteration At(const PeriodicSchedule& schedule, int64_t t);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PLAN_H_
