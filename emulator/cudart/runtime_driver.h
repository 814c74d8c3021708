// Driver functions for the runtime API's files, looked up in the emulated libcuda itself, so that a
// shim in front of cu* does not see these calls.
#ifndef GORDIAN_EMULATOR_CUDART_RUNTIME_DRIVER_H_
#define GORDIAN_EMULATOR_CUDART_RUNTIME_DRIVER_H_

#include <cuda.h>

#include "emulator/cuda/driver_entry_points.h"
#include "emulator/cudart/runtime_common.h"

namespace gordian::emu {

template <typename Function>
Function FindDriverFunction(const char* name) {
  int status = 0;
  return reinterpret_cast<Function>(gordianEmuDriverEntryPoint(name, CUDA_VERSION, false, &status));
}

// Gives the thread a context first, as every call of the runtime does.
template <typename Function, typename... Arguments>
cudaError_t CallDriver(Function function, Arguments... arguments) {
  int device = 0;
  const cudaError_t error = GetCurrentDevice(&device);
  if (error != cudaSuccess) return Return(error);
  return Return(static_cast<int>(function(arguments...)));
}

}  // namespace gordian::emu

// A pointer to CUDA 13.0's form of a driver function.
#define GORDIAN_EMU_DRIVER(name)                                                             \
  ([] {                                                                                      \
    static const auto function = ::gordian::emu::FindDriverFunction<decltype(&name)>(#name); \
    return function;                                                                         \
  }())

#endif  // GORDIAN_EMULATOR_CUDART_RUNTIME_DRIVER_H_
