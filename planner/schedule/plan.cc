#include "planner/schedule/plan.h"

#include <algorithm>
#include <cmath>

#include "analyzer/model/hash.h"

namespace gordian::planner {
namespace {

// US-Byte's partition size in elements, for which the paper prints times.
constexpr int64_t kChunkElements = 6'500'000;

Micros ChunkOf(const std::vector<Bucket>& buckets) {
  const Totals totals = Sum(buckets);
  int64_t elements = 0;
  for (const Bucket& bucket : buckets) elements += bucket.elements;
  if (elements == 0) return SmallestKnapsack(totals, 1) / 3;
  return std::max<Micros>(1, std::llround(static_cast<double>(totals.comm) * kChunkElements /
                                          static_cast<double>(elements)));
}

}  // namespace

std::optional<Plan> MakePlan(const std::vector<Bucket>& buckets, const PlanOptions& options,
                             std::string* error) {
  const auto fail = [error](std::string why) {
    *error = std::move(why);
    return std::nullopt;
  };
  if (std::string wrong = CheckBuckets(buckets); !wrong.empty()) return fail(std::move(wrong));
  if (options.links != 1 && options.links != 2) return fail("links must be 1 or 2");
  if (!(options.mu >= 1 && options.mu <= 1000)) return fail("mu must be 1 to 1000");
  if (!(options.epsilon >= 0 && options.epsilon < 1))
    return fail("epsilon must be 0 up to below 1");
  if (!(options.scale >= 1 && options.scale <= 1000)) return fail("scale must be 1 to 1000");
  Plan plan;
  plan.options = options;
  plan.buckets = buckets;
  const Micros cap = SmallestKnapsack(Sum(buckets), options.mu);
  if (cap < 1) return fail("the forward pass is too short to send anything in it");
  if (options.startup < 0) return fail("startup must not be negative");
  for (size_t i = 0; options.partition > 0 && i < buckets.size(); ++i) {
    if (buckets[i].elements == 0) {
      return fail("--partition counts elements, and bucket " + std::to_string(i + 1) +
                  " has none: give the table the column elements, or leave the option out");
    }
  }
  plan.items = Partition(buckets, cap, options.mu, options.partition, options.startup);
  if (plan.items.empty()) {
    return fail(
        "an all-reduce takes " + std::to_string(options.startup) +
        " us whatever its size (--startup), and what is sent in the forward pass may take " +
        std::to_string(cap) + " us: take fewer buckets, or larger batches");
  }
  if (plan.items.size() > 1024) {
    return fail("this would be " + std::to_string(plan.items.size()) +
                " items, and at most 1024 are possible: raise --partition, or take fewer buckets");
  }
  plan.wfbp = Wfbp(buckets).step;
  plan.chunk = ChunkOf(buckets);
  plan.priority = Priority(buckets, 0).step;
  plan.priority_chunked = Priority(buckets, plan.chunk, options.startup).step;
  plan.priority_bound = PriorityBound(buckets);
  plan.scale = options.scale;
  for (plan.retries = 0;; ++plan.retries) {
    plan.schedule = RunUntilPeriodic(
        plan.items, {.links = options.links, .scale = plan.scale, .solver = options.solver});
    if (plan.schedule.period.empty()) return fail("the schedule does not become periodic");
    if (plan.schedule.merged.empty()) {
      return fail("some item fits into no stage: choose a smaller partition");
    }
    if (!options.walk) break;
    plan.preservation = Assess(*options.walk, plan.schedule.merged, options.epsilon, options.merge);
    plan.convergence = plan.preservation.accepted ? Convergence::kKept : Convergence::kRefused;
    if (plan.preservation.accepted || plan.retries == kMostRetries) break;
    plan.scale *= kRetryGrowth;
  }
  plan.hash = HashOf(plan);
  return plan;
}

uint64_t HashOf(const Plan& plan) {
  model::Hash hash;
  hash.Add("gordian.plan.v1");
  hash.Add(static_cast<uint64_t>(plan.options.links));
  for (const Item& item : plan.items) {
    hash.Add(static_cast<uint64_t>(item.bucket));
    hash.Add(static_cast<uint64_t>(item.first_element));
    hash.Add(static_cast<uint64_t>(item.elements));
  }
  for (const auto* part : {&plan.schedule.warm_up, &plan.schedule.period}) {
    hash.Add(part->size());
    for (const Iteration& iteration : *part) {
      for (const Stage* stage : {&iteration.forward, &iteration.backward}) {
        hash.Add(stage->sends.size());
        for (const Send& send : stage->sends) {
          hash.Add(static_cast<uint64_t>(send.link));
          hash.Add(static_cast<uint64_t>(send.item));
          hash.Add(static_cast<uint64_t>(send.generation));
          hash.Add(static_cast<uint64_t>(send.ready_in_stage));
        }
      }
      hash.Add(iteration.updates.size());
      for (const Update& update : iteration.updates) {
        hash.Add(static_cast<uint64_t>(update.generation));
        hash.Add(static_cast<uint64_t>(update.merged));
      }
    }
  }
  if (plan.options.merge == Merge::kMean) hash.Add("mean");
  return hash.value();
}

PlannedIteration At(const PeriodicSchedule& schedule, int64_t t) {
  const auto warm = static_cast<int64_t>(schedule.warm_up.size());
  if (t < warm) return {&schedule.warm_up[t], 0, 0};
  const auto length = static_cast<int64_t>(schedule.period.size());
  const int64_t round = (t - warm) / length;
  return {&schedule.period[(t - warm) % length], round * schedule.generations, round * length};
}

}  // namespace gordian::planner
