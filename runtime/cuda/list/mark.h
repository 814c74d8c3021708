// Launches marks: kernels of one thread that only tell helpers that all before them on their stream
// is done (HelpStream::Mark).
//
// Thread rule: any thread, with the device current. Nothing blocks. Errors: CUDA's.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_MARK_H_
#define GORDIAN_RUNTIME_CUDA_LIST_MARK_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/list/help_list.h"

namespace gordian::runtime::cuda {

// Launches it once, with nothing to do: see PreloadCarriers.
cudaError_t PreloadMarks(cudaStream_t stream);
cudaError_t LaunchMark(const HelpList& help, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_MARK_H_
