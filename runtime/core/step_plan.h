// The steps of an all-gather or reduce-scatter, as a pure function of (plan, rank, step counter):
// no tables, no memory, so that a preempted operation is resumed from its step counter alone.
//
// Flat plans are those with one rank a node. A hierarchical all-gather of N nodes x M ranks runs
// the inter plan over the nodes, for every local index at once, then a ring inside each node;
// blocks stand at their final places all along, so that there is no shuffle. A reduce-scatter is
// the all-gather read backwards: every message reversed, receiving is reducing. One generator, one
// proof.
//
// Source: ring, recursive doubling and Bruck's all-gather as they are known; the hierarchy is
// PCCL's (without its transpose). Every rank ends with the same bits in every run, since the order
// in which contributions are added up is a function of the plan; between plans it differs.
//
// Portable C++20; no CUDA, no library. A rank is node * M + local index.
#ifndef GORDIAN_RUNTIME_CORE_STEP_PLAN_H_
#define GORDIAN_RUNTIME_CORE_STEP_PLAN_H_

#include <cstdint>
#include <type_traits>

#ifndef GRT_HD
#ifdef __CUDACC__
#define GRT_HD __host__ __device__
#else
#define GRT_HD
#endif
#endif

namespace gordian::runtime {

enum class InterPlan : uint8_t { kRing, kDoubling, kBruck };
enum class PlanKind : uint8_t { kAllGather, kReduceScatter };

struct StepPlan {
  uint32_t nodes = 1;  // N; at least 1
  uint32_t local = 1;  // M, ranks a node; at least 1
  InterPlan inter = InterPlan::kRing;
  PlanKind kind = PlanKind::kAllGather;
};

// Blocks (first + i * stride) mod ranks, i < count.
struct BlockSet {
  uint32_t first = 0, stride = 1, count = 0, ranks = 1;
  GRT_HD constexpr uint32_t At(uint32_t i) const {
    return static_cast<uint32_t>((first + static_cast<uint64_t>(i) * stride) % ranks);
  }
};

// One message out and one in; both may be under way together, and the next step needs both.
struct PlanStep {
  uint32_t to = 0, from = 0;
  BlockSet send, receive;
  bool reduce = false;  // what comes is added to the own block; else it is the block
};

static_assert(std::is_trivially_copyable_v<StepPlan> && sizeof(StepPlan) == 12);
static_assert(std::is_trivially_copyable_v<PlanStep> && sizeof(PlanStep) == 44);

GRT_HD constexpr bool IsPowerOfTwo(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

GRT_HD constexpr uint32_t CeilLog2(uint32_t n) {
  uint32_t log = 0;
  while ((uint64_t{1} << log) < n) ++log;
  return log;
}

GRT_HD constexpr uint32_t Ranks(const StepPlan& plan) { return plan.nodes * plan.local; }

// Doubling needs a number of nodes that is a power of two; more than 2^16 ranks are not foreseen.
GRT_HD constexpr bool IsValid(const StepPlan& plan) {
  if (plan.nodes == 0 || plan.local == 0 || plan.nodes > 65536 || plan.local > 65536) return false;
  if (static_cast<uint64_t>(plan.nodes) * plan.local > 65536) return false;
  return plan.inter != InterPlan::kDoubling || IsPowerOfTwo(plan.nodes);
}

GRT_HD constexpr uint32_t InterSteps(const StepPlan& plan) {
  return plan.inter == InterPlan::kRing ? plan.nodes - 1 : CeilLog2(plan.nodes);
}

GRT_HD constexpr uint32_t StepCount(const StepPlan& plan) {
  return InterSteps(plan) + plan.local - 1;
}

// Step `step` of the all-gather over n ranks, for rank r.
GRT_HD constexpr PlanStep FlatGatherStep(InterPlan inter, uint32_t n, uint32_t r, uint32_t step) {
  PlanStep s;
  const uint32_t far = inter == InterPlan::kRing ? 1 : uint32_t{1} << step;
  switch (inter) {
    case InterPlan::kRing:
      s.to = (r + 1) % n;
      s.from = (r + n - 1) % n;
      s.send = {(r + n - step % n) % n, 1, 1, n};
      s.receive = {(r + 2 * n - 1 - step % n) % n, 1, 1, n};
      break;
    case InterPlan::kDoubling:
      s.to = s.from = r ^ far;
      s.send = {r / far * far, 1, far, n};
      s.receive = {(r ^ far) / far * far, 1, far, n};
      break;
    case InterPlan::kBruck: {
      const uint32_t count = far < n - far ? far : n - far;
      s.to = (r + n - far) % n;
      s.from = (r + far) % n;
      s.send = {r, 1, count, n};
      s.receive = {(r + far) % n, 1, count, n};
      break;
    }
  }
  return s;
}

// Step `pc`, below StepCount(plan), of a valid plan, for `rank`.
GRT_HD constexpr PlanStep StepAt(const StepPlan& plan, uint32_t rank, uint32_t pc) {
  const uint32_t n = plan.nodes;
  const uint32_t m = plan.local;
  const uint32_t node = rank / m;
  const uint32_t local = rank % m;
  const bool gather = plan.kind == PlanKind::kAllGather;
  const uint32_t at = gather ? pc : StepCount(plan) - 1 - pc;
  PlanStep s;
  if (at < InterSteps(plan)) {
    s = FlatGatherStep(plan.inter, n, node, at);
    s.to = s.to * m + local;
    s.from = s.from * m + local;
    s.send = {s.send.first * m + local, m, s.send.count, n * m};
    s.receive = {s.receive.first * m + local, m, s.receive.count, n * m};
  } else {
    s = FlatGatherStep(InterPlan::kRing, m, local, at - InterSteps(plan));
    s.to = node * m + s.to;
    s.from = node * m + s.from;
    s.send = {s.send.first, m, n, n * m};
    s.receive = {s.receive.first, m, n, n * m};
  }
  if (!gather) {
    const PlanStep forward = s;
    s.to = forward.from;
    s.from = forward.to;
    s.send = forward.receive;
    s.receive = forward.send;
    s.reduce = true;
  }
  return s;
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_STEP_PLAN_H_
