// The code of carriers that runs only when something is late. Compiled once, as functions that all
// carriers call, so that their own code stays small.
#include "runtime/cuda/list/device_block.h"

namespace gordian::runtime::cuda {
namespace {

template <typename T>
__noinline__ __device__ StepResult StepApart(DeviceBlock& b, const Work& w, uint32_t channel,
                                             uint32_t* pc) {
  return StepTyped<T>(b, w, channel, pc);
}

}  // namespace

template <>
__noinline__ __device__ StepResult StepAny(DeviceBlock& b, const Work& w, uint32_t channel,
                                           uint32_t* pc) {
  return ByType(w, [&](auto type) { return StepApart<decltype(type)>(b, w, channel, pc); });
}

template <>
__noinline__ __device__ uint32_t HelpOnce(DeviceBlock& b, const HelpList& h, const Work& own,
                                          uint32_t round) {
  return HelpOnceInline(b, h, own, round);
}

template <>
__noinline__ __device__ void FinishRenamed(DeviceBlock& b, const Work& w, const HelpList& h,
                                           uint32_t pc) {
  FinishRenamedInline(b, w, h, pc);
}

}  // namespace gordian::runtime::cuda
