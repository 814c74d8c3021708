// When a worker leaves an operation that is not ready for another one.
//
// Ready-driven (the default): at once, for any published operation that is ready; while none is,
// the worker looks at all of them in turn. There is nothing to tune, and no switch without a gain.
// It looks in the order (priority, port, seq), equal on all ranks: so if ranks call in different
// orders, all prefer the same operation. A round looks at every operation once, so none starves.
//
// Spin threshold: DFCCL's (EuroSys '25, "stickiness"): the worker tries the head of the list `head`
// times without a step before it leaves, the one behind it half as often, and so on; a success
// earns an operation `grow` times the tries that it just needed. Kept as the baseline.
#ifndef GORDIAN_RUNTIME_CORE_POLICY_H_
#define GORDIAN_RUNTIME_CORE_POLICY_H_

#include <cstdint>

#include "runtime/core/op.h"

namespace gordian::runtime {

enum class Policy : uint8_t { kReadyDriven, kSpinThreshold };

struct SpinParameters {
  uint32_t head = 100000;
  uint32_t grow = 20;
};

// Tries without a step that the operation at `position` (0: head) of the list gets.
GRT_HD constexpr uint64_t SpinsAt(const SpinParameters& p, uint32_t position) {
  const uint64_t spins = position < 32 ? p.head >> position : 0;
  return spins == 0 ? 1 : spins;
}

GRT_HD constexpr uint64_t SpinsAfterSuccess(const SpinParameters& p, uint64_t threshold,
                                            uint64_t needed) {
  const uint64_t worth = p.grow * needed;
  return worth > threshold ? worth : threshold;
}

// Equal on every rank, and total for different operations of a rank.
GRT_HD constexpr bool ComesBefore(const OpDesc& a, const OpDesc& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.port != b.port) return a.port < b.port;
  return a.seq < b.seq;
}

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CORE_POLICY_H_
