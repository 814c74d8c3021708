// Wraps calls of CUDA's runtime: errors as Status, queries, and the thread's capture mode.
//
// Thread rule: any thread, with the device current where the call wants it. Errors: Cuda() turns
// them into Status; the other functions drop them.
#ifndef GORDIAN_RUNTIME_CUDA_DRIVER_CUDA_CALLS_H_
#define GORDIAN_RUNTIME_CUDA_DRIVER_CUDA_CALLS_H_

#include <cuda_runtime_api.h>

#include <string>

#include "common/status.h"
#include "runtime/cuda/driver/driver.h"

namespace gordian::runtime::cuda {

inline Status Cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status::Ok();
  return Status::Internal(std::string(what) + ": " + cudaGetErrorString(error));
}

// Whether a query found its event or stream done. "Not ready" is no error: clears it from CUDA's
// last error of the thread, where the job would find it.
inline bool IsThrough(cudaError_t queried) {
  if (queried == cudaErrorNotReady) {
    [[maybe_unused]] const cudaError_t recorded = cudaGetLastError();
  }
  return queried == cudaSuccess;
}

// Exchanges this thread's capture mode by a call of the driver. The same call of CUDA's runtime
// makes a context on the thread's device, which is device 0 for a thread that has set none, even if
// the process does not use that device; the context takes half a GiB there (seen with CUDA 13.0).
inline void ExchangeCaptureMode(CUstreamCaptureMode* mode) {
  std::string why;
  if (const Driver* driver = LoadDriver(&why)) driver->exchange_capture_mode(mode);
}

// While it lives, this thread's calls of CUDA do not invalidate another thread's capture, and CUDA
// does not refuse them because of one.
class RelaxedCapture {
 public:
  RelaxedCapture() { ExchangeCaptureMode(&mode_); }
  ~RelaxedCapture() { ExchangeCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DRIVER_CUDA_CALLS_H_
