// What the driver API's files share.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_COMMON_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_COMMON_H_

#include <cuda.h>

#include "emulator/engine/engine.h"

namespace gordian::emu {

inline DeviceEngine& TheEngine() {
  static DeviceEngine* const engine = FindDeviceEngine();
  return *engine;
}

inline CUresult Result(int status) { return static_cast<CUresult>(status); }

// Calls before cuInit fail, also in a child forked after it.
inline CUresult CheckInitialized() {
  return TheEngine().Initialized() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

// For calls that work on the calling thread's context.
inline CUresult CheckContext() {
  if (!TheEngine().Initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  return TheEngine().CurrentContext() != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// Default streams belong to the current context, so there must be one.
inline CUresult CheckStream(const void* stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? CheckContext() : CheckInitialized();
}

inline CUresult CheckDevice(CUdevice device) {
  if (!TheEngine().Initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && device < TheEngine().DeviceCount() ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_DEVICE;
}

// The stream that a caller with per-thread default streams means.
inline CUstream PerThread(CUstream stream) {
  return stream == nullptr ? static_cast<CUstream>(kPerThreadStream) : stream;
}

inline void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace gordian::emu

// Returns what `check` returns unless that is CUDA_SUCCESS.
#define GORDIAN_EMU_CHECK(check)                           \
  do {                                                     \
    const CUresult check_result = (check);                 \
    if (check_result != CUDA_SUCCESS) return check_result; \
  } while (false)

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_COMMON_H_
