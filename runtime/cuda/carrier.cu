#include "runtime/cuda/carrier.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "runtime/cuda/device_block.h"

namespace gordian::runtime::cuda {
namespace {

// A carrier may be on the device before the kernel in front of it has ended.
__device__ inline void AwaitEarlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

template <typename T, uint32_t kRanks>
__global__ void __launch_bounds__(kCarrierThreads, 2)
    LineCarrier(const __grid_constant__ Work work, const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  DeviceBlock block(&shared);
  if (work.channels == 0) return;
  AwaitEarlier();
  Carry<T, false, kRanks>(block, work, help);
}

template <typename T, uint32_t kRanks>
__global__ void __launch_bounds__(kCarrierThreads, 2)
    BulkCarrier(const __grid_constant__ Work work, const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  DeviceBlock block(&shared);
  if (work.channels == 0) return;
  AwaitEarlier();
  Carry<T, true, kRanks>(block, work, help);
}

using Kernel = void (*)(Work, HelpList);
constexpr int kTypes = 5;  // with code of their own
constexpr int kVariants = 6;  // LL, bulk: each for up to 2, 4, 8 ranks

template <typename T>
Kernel Variant(int variant) {
  switch (variant) {
    case 0:
      return LineCarrier<T, 2>;
    case 1:
      return LineCarrier<T, 4>;
    case 2:
      return LineCarrier<T, kMaxRanks>;
    case 3:
      return BulkCarrier<T, 2>;
    case 4:
      return BulkCarrier<T, 4>;
    default:
      return BulkCarrier<T, kMaxRanks>;
  }
}

Kernel KernelOf(int type, int variant) {
  switch (type) {
    case 0:
      return Variant<MoveOnly>(variant);
    case 1:
      return Variant<FloatElement>(variant);
    case 2:
      return Variant<HalfElement>(variant);
    case 3:
      return Variant<Bfloat16Element>(variant);
    default:
      return Variant<AnyType>(variant);
  }
}

Kernel Choose(const Work& work) {
  int type = 4;
  if ((work.flags & kReduces) == 0) {
    type = 0;
  } else if (work.op == Operator::kPreMulSum) {
    type = 4;
  } else if (work.type == DataType::kFloat) {
    type = 1;
  } else if (work.type == DataType::kHalf) {
    type = 2;
  } else if (work.type == DataType::kBfloat16) {
    type = 3;
  }
  const bool bulk = (work.flags & kBulk) != 0;
  return KernelOf(type, (bulk ? 3 : 0) + (work.ranks <= 2 ? 0 : work.ranks <= 4 ? 1 : 2));
}

}  // namespace

cudaError_t PreloadCarriers() {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  Work nothing{};
  HelpList none{};
  void* arguments[] = {&nothing, &none};
  for (int i = 0; i < kTypes * kVariants && error == cudaSuccess; ++i) {
    const auto* kernel = reinterpret_cast<const void*>(KernelOf(i / kVariants, i % kVariants));
    error = cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 0, stream);
  }
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  const cudaError_t destroyed = cudaStreamDestroy(stream);
  return error != cudaSuccess ? error : destroyed;
}

cudaError_t LaunchCarrier(const Work& work, const HelpList& help, bool early, cudaStream_t stream) {
  const bool bulk = (work.flags & kBulk) != 0;
  const auto threads =
      bulk ? kCarrierThreads
           : static_cast<uint32_t>(
                 std::clamp<uint64_t>(RoundUp(LinesPerChannel(work), 32), 32, kCarrierThreads));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(work.channels);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  void* arguments[] = {const_cast<Work*>(&work), const_cast<HelpList*>(&help)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(Choose(work)), arguments);
}

}  // namespace gordian::runtime::cuda
