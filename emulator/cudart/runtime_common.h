// What the runtime API's files share.
//
// Every function that takes a stream has a form for callers with per-thread default streams, whose
// name ends in _ptsz (_ptds for synchronous copies): there stream 0 is the calling thread's own.
#ifndef GORDIAN_EMULATOR_CUDART_RUNTIME_COMMON_H_
#define GORDIAN_EMULATOR_CUDART_RUNTIME_COMMON_H_

#include <cuda_runtime_api.h>

#include "emulator/engine/engine.h"

namespace gordian::emu {

inline DeviceEngine& TheEngine() {
  static DeviceEngine* const engine = FindDeviceEngine();
  return *engine;
}

// The calling thread's last error, for cudaGetLastError.
cudaError_t& LastError();

// Every entry point returns through it: it stores errors, except "not ready".
inline cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) LastError() = error;
  return error;
}
inline cudaError_t Return(int status) { return Return(static_cast<cudaError_t>(status)); }

// Reports on stderr and in the driver's log that the call is not emulated.
cudaError_t NotEmulated(const char* call);

// cudaSuccess with the current device, or why there is none.
inline cudaError_t GetCurrentDevice(int* device) {
  *device = TheEngine().CurrentDevice();
  return static_cast<cudaError_t>(*device < 0 ? TheEngine().Initialize() : 0);
}

inline cudaError_t CheckDevice(int device) {
  const int status = TheEngine().Initialize();
  if (status != kSuccess) return static_cast<cudaError_t>(status);
  return device >= 0 && device < TheEngine().DeviceCount() ? cudaSuccess : cudaErrorInvalidDevice;
}

inline cudaStream_t PerThread(cudaStream_t stream) {
  return stream == nullptr ? static_cast<cudaStream_t>(kPerThreadStream) : stream;
}

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDART_RUNTIME_COMMON_H_
