// What calls of CUDA's runtime need around them.
//
// Thread rule: any thread, with the device current where the call wants it.
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

// What a query of an event or a stream gave: whether it is through. That it is not is no error of
// the job's.
inline bool IsThrough(cudaError_t queried) {
  if (queried == cudaErrorNotReady) {
    [[maybe_unused]] const cudaError_t recorded = cudaGetLastError();
  }
  return queried == cudaSuccess;
}

// Of this thread. By the driver: the runtime's call makes a context on the thread's device, which
// is device 0, whatever the process uses, for one that has set none; it takes half a GiB there
// (seen with CUDA 13.0, and not with the driver's).
inline void ExchangeCaptureMode(CUstreamCaptureMode* mode) {
  std::string why;
  if (const Driver* driver = LoadDriver(&why)) driver->exchange_capture_mode(mode);
}

// While it lives, this thread's calls of CUDA neither end another thread's capture nor are refused
// for it.
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
