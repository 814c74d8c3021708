#include <cuda_runtime.h>

#include "runtime/cuda/worker_block.h"
#include "runtime/cuda/worker_kernel.h"

namespace gordian::runtime::cuda {
namespace {

__global__ void __launch_bounds__(kCarrierThreads, 2) ResidentWorker(const __grid_constant__ WorkerView view) {
  if (view.device == nullptr) return;
  __shared__ WorkerBlock::Shared shared;
  WorkerBlock block(&shared);
  BeResident(block, view);
}

// What the word's writer has seen and stored is there for the stream's later work.
__global__ void AwaitWord(const uint32_t* word, uint32_t value) {
  if (word == nullptr) return;
  while (static_cast<int32_t>(LoadHostWord(word) - value) < 0) __nanosleep(500);
  FenceSystem();
}

}  // namespace

cudaError_t PreloadWorker(cudaStream_t stream) {
  const cudaError_t e = LaunchAwaitWord(nullptr, 0, stream);
  return e == cudaSuccess ? LaunchWorker({}, 1, stream) : e;
}

cudaError_t LaunchAwaitWord(const uint32_t* word, uint32_t value, cudaStream_t stream) {
  void* arguments[] = {&word, &value};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&AwaitWord), dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t LaunchWorker(const WorkerView& view, uint32_t blocks, cudaStream_t stream) {
  void* arguments[] = {const_cast<WorkerView*>(&view)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&ResidentWorker), dim3(blocks), dim3(kCarrierThreads),
                          arguments, 0, stream);
}

}  // namespace gordian::runtime::cuda
