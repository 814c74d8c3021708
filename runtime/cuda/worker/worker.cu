#include <cuda_runtime.h>

#include "runtime/cuda/worker/worker_block.h"
#include "runtime/cuda/worker/worker_kernel.h"

namespace gordian::runtime::cuda {
namespace {

__global__ void __launch_bounds__(kCarrierThreads, 2)
    ResidentWorker(const __grid_constant__ WorkerView view) {
  if (view.device == nullptr) return;
  __shared__ WorkerBlock::Shared shared;
  WorkerBlock block(&shared);
  BeResident(block, view);
}

__global__ void __launch_bounds__(kCarrierThreads, 2)
    JoinOperations(const __grid_constant__ WorkerView view,
                   const __grid_constant__ JoinTickets tickets) {
  if (view.device == nullptr) return;
  __shared__ WorkerBlock::Shared shared;
  WorkerBlock block(&shared);
  HelpUntilEnded(block, view, tickets);
}

}  // namespace

cudaError_t PreloadWorker(cudaStream_t stream) {
  cudaError_t e = WantSharedMemory(reinterpret_cast<const void*>(&JoinOperations));
  if (e == cudaSuccess) e = WantSharedMemory(reinterpret_cast<const void*>(&ResidentWorker));
  if (e == cudaSuccess) e = LaunchJoin({}, {}, stream);
  return e == cudaSuccess ? LaunchWorker({}, 1, stream) : e;
}

cudaError_t LaunchJoin(const WorkerView& view, const JoinTickets& tickets, cudaStream_t stream) {
  void* arguments[] = {const_cast<WorkerView*>(&view), const_cast<JoinTickets*>(&tickets)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&JoinOperations), dim3(1),
                          dim3(kCarrierThreads), arguments, 0, stream);
}

cudaError_t LaunchWorker(const WorkerView& view, uint32_t blocks, cudaStream_t stream) {
  void* arguments[] = {const_cast<WorkerView*>(&view)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&ResidentWorker), dim3(blocks),
                          dim3(kCarrierThreads), arguments, 0, stream);
}

}  // namespace gordian::runtime::cuda
