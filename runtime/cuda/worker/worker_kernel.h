// Launches the resident worker's kernels.
//
// Thread rule: any thread, with the device current. Only PreloadWorker may block. Errors: CUDA's.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_KERNEL_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_KERNEL_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/worker/worker_join_device.h"

namespace gordian::runtime::cuda {

// Launches the kernels once, with nothing to do: see PreloadCarriers.
cudaError_t PreloadWorker(cudaStream_t stream);

// Enqueues an instance of `blocks` blocks; `view.instance` is a new number.
cudaError_t LaunchWorker(const WorkerView& view, uint32_t blocks, cudaStream_t stream);

// Enqueues a stream's wait for operations: a kernel of one block that helps. The stream is on the
// worker's device.
cudaError_t LaunchJoin(const WorkerView& view, const JoinTickets& tickets, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_KERNEL_H_
