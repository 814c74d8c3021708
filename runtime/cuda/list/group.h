// Launches the kernels that captured operations need beside carriers: one that carries several
// operations, and a gate, which waits for the operations that were called before the communicator
// was captured for the first time.
//
// Thread rule: any thread, with the device current. Nothing blocks. Errors: CUDA's.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_GROUP_H_
#define GORDIAN_RUNTIME_CUDA_LIST_GROUP_H_

#include <cuda_runtime_api.h>

#include <vector>

#include "runtime/cuda/list/group_device.h"

namespace gordian::runtime::cuda {

// Launches them once, with nothing to do: see PreloadCarriers.
cudaError_t PreloadGroups(cudaStream_t stream);

// Enqueues one kernel for all of `operations`, with at most `most_blocks` blocks.
// cudaErrorInvalidValue: a kernel with so many blocks cannot carry that many operations.
cudaError_t LaunchGroup(const std::vector<Work>& operations, uint32_t most_blocks,
                        const HelpList& help, cudaStream_t stream);

cudaError_t LaunchGate(const Gate& gate, const HelpList& help, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_GROUP_H_
