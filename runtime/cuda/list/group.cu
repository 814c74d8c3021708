#include <cuda_runtime.h>

#include <algorithm>
#include <memory>

#include "runtime/cuda/list/device_block.h"
#include "runtime/cuda/list/group.h"

namespace gordian::runtime::cuda {

template <>
__noinline__ __device__ bool GroupMayGoOn(DeviceBlock& b, const HelpList& h, const Work& w,
                                          uint32_t channel) {
  return GroupMayGoOnInline(b, h, w, channel);
}

template <>
__noinline__ __device__ bool GateMayGoOn(DeviceBlock& b, const HelpList& h, const Work& w) {
  return GateMayGoOnInline(b, h, w);
}

namespace {

template <uint32_t kMost>
__global__ void __launch_bounds__(kCarrierThreads, 2)
    GroupCarrier(const __grid_constant__ GroupWork<kMost> group,
                 const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  __shared__ GroupUnit units[kGroupUnits];
  DeviceBlock block(&shared);
  CarryGroup(block, units, group, help);
}

__global__ void __launch_bounds__(kMaxChannels)
    AwaitCalledKernel(const __grid_constant__ Gate gate, const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  DeviceBlock block(&shared);
  AwaitCalled(block, gate, help);
}

template <uint32_t kMost>
cudaError_t Launch(const std::vector<Work>& operations, uint32_t most_blocks, const HelpList& help,
                   cudaStream_t stream) {
  const auto group = std::make_unique<GroupWork<kMost>>();
  PlanGroup(operations, group.get());
  // At least as many blocks as can hold all units.
  const uint32_t least = (group->units + kGroupUnits - 1) / kGroupUnits;
  const uint32_t blocks = std::min(group->units, std::max(most_blocks, least));
  if (blocks == 0) return cudaErrorInvalidValue;
  void* arguments[] = {group.get(), const_cast<HelpList*>(&help)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&GroupCarrier<kMost>), dim3(blocks),
                          dim3(kCarrierThreads), arguments, 0, stream);
}

}  // namespace

namespace {

template <uint32_t kMost>
cudaError_t Preload(cudaStream_t stream) {
  const auto nothing = std::make_unique<GroupWork<kMost>>();  // no units
  HelpList none = {};
  void* arguments[] = {nothing.get(), &none};
  const void* const kernel = reinterpret_cast<const void*>(&GroupCarrier<kMost>);
  if (const cudaError_t error = WantSharedMemory(kernel); error != cudaSuccess) return error;
  return cudaLaunchKernel(kernel, dim3(1), dim3(kCarrierThreads), arguments, 0, stream);
}

}  // namespace

cudaError_t PreloadGroups(cudaStream_t stream) {
  if (const cudaError_t error = Preload<kFewGroupOperations>(stream); error != cudaSuccess)
    return error;
  if (const cudaError_t error = Preload<kGroupOperations>(stream); error != cudaSuccess)
    return error;
  const void* const gate = reinterpret_cast<const void*>(&AwaitCalledKernel);
  if (const cudaError_t error = WantSharedMemory(gate); error != cudaSuccess) return error;
  return LaunchGate({}, {}, stream);  // for no channel
}

cudaError_t LaunchGroup(const std::vector<Work>& operations, uint32_t most_blocks,
                        const HelpList& help, cudaStream_t stream) {
  if (operations.empty() || operations.size() > kGroupOperations) return cudaErrorInvalidValue;
  return operations.size() <= kFewGroupOperations
             ? Launch<kFewGroupOperations>(operations, most_blocks, help, stream)
             : Launch<kGroupOperations>(operations, most_blocks, help, stream);
}

cudaError_t LaunchGate(const Gate& gate, const HelpList& help, cudaStream_t stream) {
  void* arguments[] = {const_cast<Gate*>(&gate), const_cast<HelpList*>(&help)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&AwaitCalledKernel), dim3(1),
                          dim3(kMaxChannels), arguments, 0, stream);
}

}  // namespace gordian::runtime::cuda
