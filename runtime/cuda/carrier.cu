#include "runtime/cuda/carrier.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "runtime/cuda/device_block.h"

namespace gordian::runtime::cuda {
namespace {

// Blocks of LL128 are smaller and have more registers: a warp holds the tiles of three peers.
template <typename Way>
constexpr uint32_t kThreadsOf = std::is_same_v<Way, TileWay> ? 320 : kCarrierThreads;

// The channels of a block: the `first` of them, and every `stride`th behind it (places.h), one after the other. All ranks' blocks go through
// theirs upwards, so the least channel that is unfinished anywhere is carried everywhere.
template <typename T, typename Way, uint32_t kRanks>
__device__ inline void RunChannels(DeviceBlock::Shared* shared, const Work& work, const HelpList& help, uint32_t first, uint32_t stride) {
  for (uint32_t channel = first;;) {
    const uint32_t next = channel + stride;
    DeviceBlock block(shared, channel, next >= work.channels);
    Carry<T, Way, kRanks>(block, work, help);
    if (next >= work.channels) return;
    block.Sync();  // all are through with what the block shares
    channel = next;
  }
}

template <typename T, typename Way, uint32_t kRanks>
__global__ void __launch_bounds__(kThreadsOf<Way>, 2)
    Carrier(const __grid_constant__ Work work, const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  if (work.channels == 0) return;
  // It may be on the device before the kernel in front of it has ended.
  asm volatile("griddepcontrol.wait;" ::: "memory");
  RunChannels<T, Way, kRanks>(&shared, work, help, blockIdx.x, gridDim.x);
}

// What goes on side by side, a group's send and receive say: the blocks of both in one grid, in turns.
template <typename Way, uint32_t kRanks>
__global__ void __launch_bounds__(kThreadsOf<Way>, 2)
    CarrierOfTwo(const __grid_constant__ Work first, const __grid_constant__ Work second,
                 const __grid_constant__ HelpList help, char* second_renamed) {
  __shared__ DeviceBlock::Shared shared;
  __shared__ Work work;
  const uint32_t which = blockIdx.x % 2, channel = blockIdx.x / 2;
  if (channel >= (which == 0 ? first : second).channels) return;
  const auto* from = reinterpret_cast<const uint32_t*>(which == 0 ? &first : &second);
  for (uint32_t i = threadIdx.x; i < sizeof(Work) / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(&work)[i] = from[i];
  HelpList own = help;
  own.id += which;
  if (which == 1) own.renamed = second_renamed;
  __syncthreads();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  RunChannels<MoveOnly, Way, kRanks>(&shared, work, own, channel, gridDim.x / 2);
}

using Kernel = void (*)(Work, HelpList);
using KernelOfTwo = void (*)(Work, Work, HelpList, char*);
constexpr int kTypes = 5;     // with code of their own
constexpr int kVariants = 9;  // LL, LL128, bulk: each for up to 2, 4, 8 ranks

template <typename T, typename Way>
Kernel ForRanks(int variant) {
  // What looks at the type word by word is slow for any number of ranks, and tiles make much code.
  if constexpr (std::is_same_v<T, AnyType> && std::is_same_v<Way, TileWay>) {
    return Carrier<T, Way, kMaxRanks>;
  } else {
    switch (variant) {
      case 0:
        return Carrier<T, Way, 2>;
      case 1:
        return Carrier<T, Way, 4>;
      default:
        return Carrier<T, Way, kMaxRanks>;
    }
  }
}

template <typename T>
Kernel Variant(int variant) {
  switch (variant / 3) {
    case 0:
      return ForRanks<T, LineWay>(variant % 3);
    case 1:
      return ForRanks<T, TileWay>(variant % 3);
    default:
      return ForRanks<T, BulkWay>(variant % 3);
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

int WayOf(const Work& work) { return (work.flags & kBulk) != 0 ? 2 : (work.flags & kTiles) != 0 ? 1 : 0; }
int VariantOf(const Work& work) { return WayOf(work) * 3 + (work.ranks <= 2 ? 0 : work.ranks <= 4 ? 1 : 2); }

template <typename Way>
KernelOfTwo TwoForRanks(int variant) {
  return variant == 0 ? CarrierOfTwo<Way, 2> : variant == 1 ? CarrierOfTwo<Way, 4> : CarrierOfTwo<Way, kMaxRanks>;
}
KernelOfTwo TwoOf(int variant) {
  switch (variant / 3) {
    case 0:
      return TwoForRanks<LineWay>(variant % 3);
    case 1:
      return TwoForRanks<TileWay>(variant % 3);
    default:
      return TwoForRanks<BulkWay>(variant % 3);
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
  return KernelOf(type, VariantOf(work));
}

uint32_t ThreadsFor(const Work& work) {
  if ((work.flags & kBulk) != 0) return kCarrierThreads;
  const uint32_t units = std::max(UnitsPerChannel(work), 1u);
  if ((work.flags & kTiles) == 0) return static_cast<uint32_t>(std::min<uint64_t>(RoundUp(units, 32), kThreadsOf<LineWay>));
  // A warp a tile; where there are more, as many for each warp.
  constexpr uint32_t kMostWarps = kThreadsOf<TileWay> / 32;
  const uint32_t each = (units + kMostWarps - 1) / kMostWarps;
  return (units + each - 1) / each * 32;
}

}  // namespace

cudaError_t PreloadCarriers(cudaStream_t stream) {
  Work nothing = {};  // no channels
  HelpList none = {};
  void* arguments[] = {&nothing, &none};
  for (int type = 0; type < kTypes; ++type) {
    for (int variant = 0; variant < kVariants; ++variant) {
      const cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(KernelOf(type, variant)), dim3(1),
                                                 dim3(32), arguments, 0, stream);
      if (error != cudaSuccess) return error;
    }
  }
  char* renamed = nullptr;
  void* of_two[] = {&nothing, &nothing, &none, &renamed};
  for (int variant = 0; variant < kVariants; ++variant) {
    const cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(TwoOf(variant)), dim3(2), dim3(32), of_two, 0, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

namespace {

uint32_t BlocksOfTwo(const Work& first, const Work& second) { return 2u * std::max(first.channels, second.channels); }
uint32_t ThreadsOfTwo(const Work& first, const Work& second) { return std::max(ThreadsFor(first), ThreadsFor(second)); }

// Registers are what blocks need, and all blocks of a way have as many a thread.
uint32_t ThreadsOfPlace(const Work& work) { return WayOf(work) == 1 ? kThreadsOf<TileWay> : kCarrierThreads; }
uint32_t PlacesOf(uint32_t blocks, const Work& work, uint32_t threads) {
  return (blocks * threads + ThreadsOfPlace(work) - 1) / ThreadsOfPlace(work);
}
uint32_t BlocksIn(uint32_t places, const Work& work, uint32_t threads) { return std::max(places * ThreadsOfPlace(work) / threads, 1u); }

// `early`: see LaunchCarrier.
cudaError_t Launch(const void* kernel, uint32_t blocks, uint32_t threads, void** arguments, bool early, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace

cudaError_t LaunchCarrier(const Work& work, const HelpList& help, uint32_t places, bool early, cudaStream_t stream) {
  void* arguments[] = {const_cast<Work*>(&work), const_cast<HelpList*>(&help)};
  const uint32_t threads = ThreadsFor(work);
  return Launch(reinterpret_cast<const void*>(Choose(work)), std::min<uint32_t>(work.channels, BlocksIn(places, work, threads)),
                threads, arguments, early, stream);
}

uint32_t PlacesFor(const Work& work) { return PlacesOf(work.channels, work, ThreadsFor(work)); }

bool CanLaunchTwo(const Work& first, const Work& second) {
  return ((first.flags | second.flags) & kReduces) == 0 && VariantOf(first) == VariantOf(second);
}
uint32_t PlacesForTwo(const Work& first, const Work& second) {
  return PlacesOf(BlocksOfTwo(first, second), first, ThreadsOfTwo(first, second));
}

cudaError_t LaunchTwo(const Work& first, const Work& second, const HelpList& help, const HelpList& second_help, uint32_t places,
                      cudaStream_t stream) {
  char* renamed = second_help.renamed;
  void* arguments[] = {const_cast<Work*>(&first), const_cast<Work*>(&second), const_cast<HelpList*>(&help), &renamed};
  const uint32_t threads = ThreadsOfTwo(first, second);
  // As many of each.
  const uint32_t blocks = std::min(BlocksOfTwo(first, second), std::max(BlocksIn(places, first, threads) / 2, 1u) * 2);
  return Launch(reinterpret_cast<const void*>(TwoOf(VariantOf(first))), blocks, threads, arguments, true, stream);
}

}  // namespace gordian::runtime::cuda
