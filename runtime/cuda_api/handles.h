// What the C API's handles stand for over GPUs, and what its files share.
#ifndef GORDIAN_RUNTIME_CUDA_API_HANDLES_H_
#define GORDIAN_RUNTIME_CUDA_API_HANDLES_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/api/common.h"
#include "runtime/cuda_api/process.h"
#include "runtime/include/gordian/runtime.h"

struct grtCommOpaque {
  std::shared_ptr<gordian::runtime::cuda::CommState> comm;
};

struct grtOpOpaque {
  ~grtOpOpaque() {
    const gordian::runtime::cuda::RelaxedCapture relaxed;
    if (event != nullptr) cudaEventDestroy(event);
  }
  std::shared_ptr<gordian::runtime::cuda::CommState> comm;
  cudaEvent_t event = nullptr;                // of a strict operation: recorded behind it
  gordian::runtime::cuda::Detached detached;  // else
};

namespace gordian::runtime::cuda {

// The communicator's half of a call: ready, waiting for members that have not come yet.
grtResult_t MakeReady(const std::shared_ptr<CommState>& comm);
// What it had registered, at its end, after that of its operations unless it was aborted.
void EndRegistrations(CommState* comm);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_HANDLES_H_
