#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "runtime/cuda/list/carrier.h"
#include "runtime/cuda/list/device_block.h"

namespace gordian::runtime::cuda {
namespace {

// Blocks of LL128 have fewer threads and more registers a thread: a warp holds the tiles of three
// peers. Any two blocks of any kernels must fit one multiprocessor together (places.h): each of its
// four quarters has 16,384 registers, of which two warps with 128 a thread take as much as four
// with 64. Two blocks of ten warps with 96 would fit together, but not one with a block by bulk.
template <typename Way>
constexpr uint32_t kThreadsOf = std::is_same_v<Way, TileWay> ? 256 : kCarrierThreads;

// Carries the block's channels one after the other: channel `first`, and every `stride`th behind it
// (places.h). The blocks of all ranks go upwards, so the lowest unfinished channel is carried on
// every rank.
template <typename T, typename Way, uint32_t kRanks>
__device__ inline void RunChannels(DeviceBlock::Shared* shared, const Work& work,
                                   const HelpList& help, uint32_t first, uint32_t stride) {
  for (uint32_t channel = first;;) {
    const uint32_t next = channel + stride;
    DeviceBlock block(shared, channel, next >= work.channels);
    Carry<T, Way, kRanks>(block, work, help);
    if (next >= work.channels) return;
    block.Sync();  // all threads have finished with the shared memory
    channel = next;
  }
}

template <typename T, typename Way, uint32_t kRanks>
__global__ void __launch_bounds__(kThreadsOf<Way>, 2)
    Carrier(const __grid_constant__ Work work, const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  if (work.channels == 0) return;
  // The device may start this kernel before the one in front of it has ended.
  asm volatile("griddepcontrol.wait;" ::: "memory");
  RunChannels<T, Way, kRanks>(&shared, work, help, blockIdx.x, gridDim.x);
}

template <uint32_t kMost>
struct Several {
  Work work[kMost];
  char* renamed[kMost];  // of each: HelpList::renamed
};

// Carries several operations side by side: a group's sends and receives. A block has every
// gridDim.x-th share (shares.h).
template <typename Way, uint32_t kRanks, uint32_t kMost>
__global__ void __launch_bounds__(kThreadsOf<Way>, 2)
    CarrierOfSeveral(const __grid_constant__ Several<kMost> several,
                     const __grid_constant__ HelpList help) {
  __shared__ DeviceBlock::Shared shared;
  __shared__ Work work;
  __shared__ HelpList own;
  __shared__ OwnShares shares;
  const auto copy = [](void* to, const void* from, uint32_t words) {
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
      static_cast<uint32_t*>(to)[i] = static_cast<const uint32_t*>(from)[i];
  };
  const uint32_t operations = help.last - help.first + 1,
                 count = SharesOf(help.channels, operations);
  for (uint32_t at = blockIdx.x; at < count; at += gridDim.x) {
    const bool first = at == blockIdx.x;
    if (first) copy(&own, &help, sizeof own / 4);
    __syncthreads();  // all threads have finished with the shared memory
    const Share share = ShareAt(help.channels, operations, at);
    copy(&work, several.work + share.operation, sizeof work / 4);
    if (threadIdx.x == 0) {
      own.id = help.first + share.operation;
      own.renamed = several.renamed[share.operation];
      own.shares = &shares;
      shares = {several.work, several.renamed, at, gridDim.x, count};
    }
    __syncthreads();
    if (first) asm volatile("griddepcontrol.wait;" ::: "memory");
    DeviceBlock block(&shared, share.channel, at + gridDim.x >= count);
    Carry<MoveOnly, Way, kRanks>(block, work, own);
  }
}

using Kernel = void (*)(Work, HelpList);
constexpr int kTypes = 5;     // with code of their own
constexpr int kVariants = 9;  // LL, LL128, bulk: each for up to 2, 4, 8 ranks

template <typename T, typename Way>
Kernel ForRanks(int variant) {
  // One kernel serves all numbers of ranks: AnyType, which looks at the type word by word, is slow
  // for any of them, and code for tiles is large.
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

int SizeClassOf(const Work& work) { return work.ranks <= 2 ? 0 : work.ranks <= 4 ? 1 : 2; }
int VariantOf(const Work& work) {
  // A pair is two ranks, even of a larger communicator. LL is an exception: its kernel keeps a word
  // for every rank in registers, indexed by rank.
  const bool pair = (work.flags & kPair) != 0 && WayOf(work) != 0;
  return static_cast<int>(WayOf(work)) * 3 + (pair ? 0 : SizeClassOf(work));
}

// The kernel that carries a send and a receive for each other one of kRanks ranks.
template <typename Way, uint32_t kRanks>
const void* SeveralForRanks() {
  return reinterpret_cast<const void*>(
      &CarrierOfSeveral < Way, std::is_same_v<Way, LineWay> ? kRanks : 2, 2 * (kRanks - 1) >);
}
template <typename Way>
const void* SeveralOf(int size) {
  return size == 0   ? SeveralForRanks<Way, 2>()
         : size == 1 ? SeveralForRanks<Way, 4>()
                     : SeveralForRanks<Way, kMaxRanks>();
}
const void* SeveralOf(int way, int size) {
  return way == 0   ? SeveralOf<LineWay>(size)
         : way == 1 ? SeveralOf<TileWay>(size)
                    : SeveralOf<BulkWay>(size);
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
  const bool tiles = (work.flags & kTiles) != 0;  // a warp a tile
  const uint64_t wanted = RoundUp(uint64_t{UnitsPerChannel(work)} * (tiles ? 32 : 1), 32);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(wanted, 32, tiles ? kThreadsOf<TileWay> : kThreadsOf<LineWay>));
}

}  // namespace

cudaError_t PreloadCarriers(cudaStream_t stream) {
  Work nothing = {};  // no channels
  HelpList none = {};
  void* arguments[] = {&nothing, &none};
  for (int type = 0; type < kTypes; ++type) {
    for (int variant = 0; variant < kVariants; ++variant) {
      const void* const kernel = reinterpret_cast<const void*>(KernelOf(type, variant));
      cudaError_t error = WantSharedMemory(kernel);
      if (error == cudaSuccess)
        error = cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 0, stream);
      if (error != cudaSuccess) return error;
    }
  }
  Several<kOfOneKernel> no_works = {};
  void* of_several[] = {&no_works, &none};
  for (int variant = 0; variant < kVariants; ++variant) {
    const void* const kernel = SeveralOf(variant / 3, variant % 3);
    cudaError_t error = WantSharedMemory(kernel);
    if (error == cudaSuccess)
      error = cudaLaunchKernel(kernel, dim3(1), dim3(32), of_several, 0, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

namespace {

uint32_t ThreadsOf(const std::vector<const Work*>& works) {
  uint32_t threads = 0;
  for (const Work* work : works) threads = std::max(threads, ThreadsFor(*work));
  return threads;
}

// `early`: see LaunchCarrier.
cudaError_t Launch(const void* kernel, uint32_t blocks, uint32_t threads, void** arguments,
                   bool early, cudaStream_t stream) {
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

cudaError_t LaunchCarrier(const Work& work, const HelpList& help, uint32_t places, bool early,
                          cudaStream_t stream) {
  void* arguments[] = {const_cast<Work*>(&work), const_cast<HelpList*>(&help)};
  const uint32_t threads = ThreadsFor(work);
  return Launch(reinterpret_cast<const void*>(Choose(work)),
                std::min<uint32_t>(work.channels, places), threads, arguments, early, stream);
}

uint32_t PlacesForSeveral(const std::vector<const Work*>& works) {
  uint32_t shares = 0;
  for (const Work* work : works) shares += work->channels;
  return shares;
}

namespace {

template <uint32_t kMost>
cudaError_t LaunchOf(const std::vector<const Work*>& works, const std::vector<HelpList>& entries,
                     const HelpList& kernel, uint32_t places, cudaStream_t stream) {
  if (works.size() > kMost) return cudaErrorInvalidValue;
  Several<kMost> several;  // the kernel reads only the first works.size()
  for (size_t i = 0; i < works.size(); ++i) {
    several.work[i] = *works[i];
    several.renamed[i] = entries[i].renamed;
  }
  void* arguments[] = {&several, const_cast<HelpList*>(&kernel)};
  const Work& work = *works.front();
  return Launch(SeveralOf(static_cast<int>(WayOf(work)), SizeClassOf(work)),
                std::min(PlacesForSeveral(works), places), ThreadsOf(works), arguments, true,
                stream);
}

}  // namespace

cudaError_t LaunchSeveral(const std::vector<const Work*>& works,
                          const std::vector<HelpList>& entries, const HelpList& kernel,
                          uint32_t places, cudaStream_t stream) {
  const int size = SizeClassOf(*works.front());
  return size == 0   ? LaunchOf<2>(works, entries, kernel, places, stream)
         : size == 1 ? LaunchOf<6>(works, entries, kernel, places, stream)
                     : LaunchOf<kOfOneKernel>(works, entries, kernel, places, stream);
}

}  // namespace gordian::runtime::cuda
