// Kernels and device variables that the program registers at load time, and kernels of libraries
// that the driver loads.
#ifndef GORDIAN_EMULATOR_CUDART_REGISTRY_H_
#define GORDIAN_EMULATOR_CUDART_REGISTRY_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/engine/device/device_image.h"
#include "emulator/engine/device/kernel_settings.h"

namespace gordian::emu {

// The address of a registered kernel is its cudaKernel_t and its cudaFunction_t; a library's kernel
// has the driver's handles. Never freed.
struct Kernel {
  std::string name;                        // mangled
  bool busy = false;                       // takes as many microseconds as its first argument, a
                                           // uint64_t, says
  std::vector<ImageParameter> parameters;  // none when the code does not tell
  const void* driver_kernel = nullptr;     // a library's: the driver's handle
};

// Finds a kernel by host function or handle; null if it was never registered, or is not loaded (any
// more).
const Kernel* FindKernel(const void* function);

// Returns false if there is no such kernel.
bool GetKernelSettings(const void* function, KernelSettings* settings);
cudaError_t SetKernelAttribute(const void* function, int attribute, int value);

// Finds the device variable whose host shadow is `symbol`: its memory on the current device.
cudaError_t FindSymbol(const void* symbol, void** address, size_t* bytes);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDART_REGISTRY_H_
