// Kernels and device variables that the program registered when it was loaded, and kernels of
// libraries, which the driver loaded.
#ifndef GORDIAN_EMULATOR_CUDART_REGISTRY_H_
#define GORDIAN_EMULATOR_CUDART_REGISTRY_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/engine/device_image.h"
#include "emulator/engine/kernel_settings.h"

namespace gordian::emu {

// The address of one that the program registered is its cudaKernel_t and its cudaFunction_t; a
// library's are what the driver gave out. Never freed.
struct Kernel {
  std::string name;                        // mangled
  bool busy = false;                       // takes as many microseconds as its first argument, a
                                           // uint64_t, says
  std::vector<ImageParameter> parameters;  // none when the code does not tell
  const void* driver_kernel = nullptr;     // a library's: the driver's handle
};

// By host function or by handle; null when it was never registered, and not loaded or no longer.
const Kernel* FindKernel(const void* function);

// False when there is no such kernel.
bool GetKernelSettings(const void* function, KernelSettings* settings);
cudaError_t SetKernelAttribute(const void* function, int attribute, int value);

// The device variable whose host shadow is `symbol`: its memory on the current device.
cudaError_t FindSymbol(const void* symbol, void** address, size_t* bytes);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDART_REGISTRY_H_
