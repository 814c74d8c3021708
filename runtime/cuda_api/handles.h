// What the C API's handles stand for over GPUs, and what its files share.
#ifndef GORDIAN_RUNTIME_CUDA_API_HANDLES_H_
#define GORDIAN_RUNTIME_CUDA_API_HANDLES_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "runtime/api/common.h"
#include "runtime/cuda_api/process.h"
#include "runtime/include/gordian/runtime.h"

struct grtPortOpaque {
  std::shared_ptr<gordian::runtime::cuda::CommState>
      comm;  // its own state, as if it were a communicator
};

struct grtCommOpaque {
  std::shared_ptr<gordian::runtime::cuda::CommState> comm;
  std::vector<std::unique_ptr<grtPortOpaque>> ports;  // with the lock of `comm`
};

namespace gordian::runtime::cuda {

// What is known of an operation by its handle, and by who is to be called when it is done.
struct Operation {
  Operation() = default;
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  std::shared_ptr<CommState> comm;
  cudaEvent_t event = nullptr;  // of a strict operation: recorded behind it
  Detached detached;            // else
};

// The communicator's half of a call: ready, waiting for members that have not come yet.
grtResult_t MakeReady(const std::shared_ptr<CommState>& comm);
// What it had registered, at its end, after that of its operations unless it was aborted.
void EndRegistrations(CommState* comm);

}  // namespace gordian::runtime::cuda

struct grtOpOpaque {
  std::shared_ptr<gordian::runtime::cuda::Operation> operation;
};

#endif  // GORDIAN_RUNTIME_CUDA_API_HANDLES_H_
