// When a worker leaves an operation that is not ready for another one.
//
// Ready-driven (the default): at once, for whichever published operation is ready; while none is,
// it looks at all of them in turn. There is nothing to tune, and no switch that gains nothing. The
// order of looking is (priority, port, seq), equal on all ranks: under disorder all lean to the
// same operation. A round looks at every operation once, so that none starves.
//
// Spin threshold: DFCCL's (EuroSys '25, "stickiness"): the head of the list is tried `head` times
// in vain before the worker goes on, the one behind it half as often, and so on; what has succeeded
// is worth `grow` times the tries that it just needed. Kept as the baseline.
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

// Tries in vain that the operation at `position` (0: head) of the list may take.
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
