// Gives the protocols a CUDA thread block: its threads, barriers, shared memory and clock. Declares
// the code that blocks seldom run, which help.cu compiles once for all carriers. Only for .cu
// files.
//
// Thread rule: all threads of the block call together whatever has a barrier: Sync, All, Any,
// Broadcast, Least, Fetch; all threads of a warp call SyncWarp and AllOfWarp together.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_DEVICE_BLOCK_H_
#define GORDIAN_RUNTIME_CUDA_LIST_DEVICE_BLOCK_H_

#include <cuda_runtime.h>

#include "runtime/cuda/list/help_device.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kCarrierThreads = 512;

// Call it for every kernel whose blocks may wait on the device. The kernel of a multiprocessor's
// first block decides how much of its memory is cache and how much shared memory, as long as a
// block is there. By default the driver gives two blocks of most carriers 8 KiB of shared memory,
// where one of them and a block of a kernel with a little more (CarrierOfSeveral) do not fit
// together. So all kernels ask for 32 KiB.
inline cudaError_t WantSharedMemory(const void* kernel) {
  constexpr int kPercent = 14;  // of 228 KiB
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, kPercent);
}

// All warps of a block but the first, as a block of their own.
class DeviceRest {
 public:
  __device__ DeviceRest(char** targets, char** sum_targets)
      : targets_(targets), sum_targets_(sum_targets) {}
  __device__ uint32_t Thread() const { return threadIdx.x - 32; }
  __device__ uint32_t Threads() const { return blockDim.x - 32; }
  // Barrier 0 is the block's.
  __device__ void Sync() { asm volatile("bar.sync 1, %0;" ::"r"(Threads()) : "memory"); }
  __device__ char** Targets() { return targets_; }
  __device__ char** SumTargets() { return sum_targets_; }

 private:
  char **const targets_, **const sum_targets_;
};

class DeviceBlock {
 public:
  struct Shared {
    alignas(16) Work entry;
    alignas(16) Work own;
    char* targets[2][kMaxRanks];
    bool straight[2][kMaxRanks];
    HelpRoom room;
    uint64_t least[kCarrierThreads / 32];
    uint32_t word;
  };
  // The block carries channel `index` of its operation; `ends`: that is the last thing it does.
  __device__ DeviceBlock(Shared* shared, uint32_t index, bool ends)
      : shared_(*shared), index_(index), ends_(ends) {}
  __device__ explicit DeviceBlock(Shared* shared) : DeviceBlock(shared, blockIdx.x, true) {}
  __device__ uint32_t Thread() const { return threadIdx.x; }
  __device__ uint32_t Threads() const { return blockDim.x; }
  __device__ uint32_t Index() const { return index_; }
  __device__ uint32_t Blocks() const { return gridDim.x; }
  __device__ void Sync() { __syncthreads(); }
  __device__ bool All(bool value) { return __syncthreads_and(value) != 0; }
  __device__ bool Any(bool value) { return __syncthreads_or(value) != 0; }
  __device__ uint32_t Warp() const { return threadIdx.x / 32; }
  __device__ uint32_t Warps() const { return blockDim.x / 32; }
  __device__ uint32_t Lane() const { return threadIdx.x % 32; }
  __device__ void SyncWarp() { __syncwarp(); }
  __device__ bool AllOfWarp(bool value) { return __all_sync(~0u, value) != 0; }
  // For tests on the host: Together says whether a warp's threads run in step, Between is a place
  // where other blocks may run.
  __device__ bool Together() const { return true; }
  __device__ void Between() const {}
  // Lets the device start the next carrier on the stream, if that was launched `early`
  // (carrier.cu). The block waits for nothing any more.
  __device__ void Ending() {
    if (ends_) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
  __device__ char** Targets() { return shared_.targets[0]; }
  __device__ char** SumTargets() { return shared_.targets[1]; }
  __device__ bool* Straight(uint32_t phase) { return shared_.straight[phase]; }
  __device__ DeviceRest Rest() { return {Targets(), SumTargets()}; }
  __device__ HelpRoom* Room() { return &shared_.room; }
  __device__ Work& Own() { return shared_.own; }
  // Nanoseconds on a clock that all blocks of the device share.
  __device__ uint64_t Now() const {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  // Thread 0's value.
  __device__ uint32_t Broadcast(uint32_t value) {
    __syncthreads();
    if (threadIdx.x == 0) shared_.word = value;
    __syncthreads();
    return shared_.word;
  }
  // The least of all threads' values.
  __device__ uint64_t Least(uint64_t value) {
    const auto high = static_cast<uint32_t>(value >> 32);
    const uint32_t least_high = __reduce_min_sync(~0u, high);
    const uint32_t low = high == least_high ? static_cast<uint32_t>(value) : ~0u;
    uint64_t least = uint64_t{least_high} << 32 | __reduce_min_sync(~0u, low);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared_.least[threadIdx.x / 32] = least;
    __syncthreads();
    for (uint32_t i = 0; i < blockDim.x / 32; ++i) least = min(least, shared_.least[i]);
    return least;
  }
  // Copies an operation from the device's memory to shared memory; valid until the next call. Not
  // `anew`: the caller wants the last copy again.
  __device__ Work& Fetch(const Work* entry, bool anew) {
    __syncthreads();
    if (!anew) return shared_.entry;
    const auto* from = reinterpret_cast<const uint32_t*>(entry);
    auto* to = reinterpret_cast<uint32_t*>(&shared_.entry);
    for (uint32_t i = threadIdx.x; i < sizeof(Work) / 4; i += blockDim.x)
      to[i] = Load<kSystem, kRelaxed>(from + i);
    __syncthreads();
    return shared_.entry;
  }

 private:
  Shared& shared_;
  const uint32_t index_;
  const bool ends_;
};

// Defined in help.cu, once for all carriers.
template <>
__device__ StepResult StepAny(DeviceBlock& b, const Work& w, uint32_t channel, uint32_t* pc);
template <>
__device__ uint32_t HelpOnce(DeviceBlock& b, const HelpList& h, const Work& own, uint32_t round);
template <>
__device__ void FinishRenamed(DeviceBlock& b, const Work& w, const HelpList& h, uint32_t pc);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_DEVICE_BLOCK_H_
