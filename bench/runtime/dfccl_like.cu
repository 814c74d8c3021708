#include <cuda_runtime.h>

#include "bench/runtime/dfccl_like.h"
#include "runtime/cuda/worker/worker_block.h"

namespace gordian::runtime::cuda {

template <>
GRT_HD inline StepResult RunDfcclAny(WorkerBlock& b, const Work& w, uint32_t channel, uint32_t* pc,
                                     const DfcclView& v, uint64_t spins) {
  if ((w.flags & kReduces) == 0) return RunDfccl<MoveOnly, kMaxRanks>(b, w, channel, pc, v, spins);
  if (w.type == DataType::kFloat)
    return RunDfccl<FloatElement, kMaxRanks>(b, w, channel, pc, v, spins);
  return RunDfccl<AnyType, kMaxRanks>(b, w, channel, pc, v, spins);
}

namespace {

__global__ void __launch_bounds__(kCarrierThreads, 2)
    DfcclDaemon(const __grid_constant__ DfcclView view) {
  __shared__ WorkerBlock::Shared shared;
  __shared__ uint32_t ids[kDetachedEntries];
  WorkerBlock block(&shared);
  BeDfccl(block, view, ids);
}

__global__ void __launch_bounds__(256) Arithmetic(uint32_t rounds, float* sink) {
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = static_cast<float>(threadIdx.x + i);
  for (uint32_t r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = fmaf(a[i], 0.999f, 0.5f);
  }
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += a[i];
  if (sum == -1.0f) *sink = sum;
}

}  // namespace

cudaError_t LaunchArithmetic(uint32_t blocks, uint32_t rounds, float* sink, cudaStream_t stream) {
  Arithmetic<<<blocks, 256, 0, stream>>>(rounds, sink);
  return cudaGetLastError();
}

std::unique_ptr<DfcclLike> DfcclLike::Make(const DfcclOptions& options) {
  std::unique_ptr<DfcclLike> d(new DfcclLike);
  d->options_ = options;
  cudaFuncAttributes attributes;
  cudaError_t e = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&DfcclDaemon));
  if (e == cudaSuccess)
    e = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&Arithmetic));
  if (e == cudaSuccess) e = cudaMalloc(reinterpret_cast<void**>(&d->device_), sizeof(DfcclDevice));
  if (e == cudaSuccess) e = cudaMemset(d->device_, 0, sizeof(DfcclDevice));
  if (e == cudaSuccess)
    e = cudaHostAlloc(reinterpret_cast<void**>(&d->queue_), sizeof(CompletionQueue),
                      cudaHostAllocMapped);
  if (e == cudaSuccess) e = cudaDeviceSynchronize();
  if (e != cudaSuccess) return nullptr;
  *d->queue_ = CompletionQueue{};
  if (options.completion != Completion::kWord)
    d->poller_ = std::thread([p = d.get()] { p->Poll(); });
  return d;
}

DfcclLike::~DfcclLike() {
  over_ = true;
  if (poller_.joinable()) poller_.join();
  if (device_ != nullptr) cudaFree(device_);
  if (queue_ != nullptr) cudaFreeHost(queue_);
}

void DfcclLike::Install(WorkerConfig* config) {
  config->launch = [this](const WorkerView& view, uint32_t blocks, cudaStream_t stream) {
    host_ = view.host;
    const DfcclView all{view, options_, queue_, device_};
    void* arguments[] = {const_cast<DfcclView*>(&all)};
    return cudaLaunchKernel(reinterpret_cast<const void*>(&DfcclDaemon), dim3(blocks),
                            dim3(kCarrierThreads), arguments, 0, stream);
  };
}

cudaError_t DfcclLike::Read(DfcclDevice* counters) {
  return cudaMemcpy(counters, device_, sizeof *counters, cudaMemcpyDeviceToHost);
}

void DfcclLike::Poll() {
  const auto tell = [this](uint32_t number) {
    WorkerHost* const host = host_.load();
    const uint32_t slot = (number - 1) % kDetachedEntries, ticket = host->entries[slot].ticket;
    __atomic_store_n(&host->ended[ticket % kTickets], ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&host->done[slot], number, __ATOMIC_RELEASE);
  };
  uint32_t head = 0;
  while (!over_) {
    if (options_.completion == Completion::kSlots) {
      for (uint64_t& slot : queue_->slots) {
        const uint64_t word = __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
        if (word == 0) continue;
        tell(static_cast<uint32_t>(word));
        __atomic_store_n(&slot, 0, __ATOMIC_RELEASE);
      }
      continue;
    }
    if (options_.completion == Completion::kVanillaRing) {
      if (__atomic_load_n(&queue_->tail, __ATOMIC_ACQUIRE) == head) continue;
      tell(__atomic_load_n(&queue_->ring[head % kCompletionRing], __ATOMIC_ACQUIRE));
    } else {
      const uint64_t word =
          __atomic_load_n(&queue_->packed[head % kCompletionRing], __ATOMIC_ACQUIRE);
      if (static_cast<uint32_t>(word >> 32) != head + 1) continue;
      tell(static_cast<uint32_t>(word));
    }
    ++head;
    __atomic_store_n(&queue_->head, head, __ATOMIC_RELEASE);
  }
}

}  // namespace gordian::runtime::cuda
