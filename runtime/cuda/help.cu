// The half of a carrier that runs only when something is late. It is compiled once, and called: the
// carriers' own paths stay small.
#include "runtime/cuda/device_block.h"

namespace gordian::runtime::cuda {

template <>
__noinline__ __device__ StepResult StepAny(DeviceBlock& b, const Work& w, uint32_t channel, uint32_t* pc) {
  return StepAnyInline(b, w, channel, pc);
}

template <>
__noinline__ __device__ bool HelpOnce(DeviceBlock& b, const HelpList& h, const Work& own, uint32_t round) {
  return HelpOnceInline(b, h, own, round);
}

template <>
__noinline__ __device__ void FinishRenamed(DeviceBlock& b, const Work& w, const HelpList& h, uint32_t pc) {
  FinishRenamedInline(b, w, h, pc);
}

}  // namespace gordian::runtime::cuda
