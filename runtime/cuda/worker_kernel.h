// The resident worker's kernel.
//
// Thread rule: any thread, with the device current. Nothing blocks but PreloadWorker.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_KERNEL_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_KERNEL_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/worker_device.h"

namespace gordian::runtime::cuda {

// Runs the kernels now, with nothing to do: see PreloadCarriers.
cudaError_t PreloadWorker(cudaStream_t stream);

// Enqueues an instance of `blocks` blocks; `view.instance` is a new number.
cudaError_t LaunchWorker(const WorkerView& view, uint32_t blocks, cudaStream_t stream);

// Enqueues the wait of one block until `*word` has reached `value` (a signed difference), which the host can write.
cudaError_t LaunchAwaitWord(const uint32_t* word, uint32_t value, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_KERNEL_H_
