// What the driver API's other files know about a CUfunction or CUkernel.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_

#include "emulator/engine/device/kernel_settings.h"

namespace gordian::emu {

struct LoadedKernel;
// True if this library created the handle and it has not been unloaded.
bool IsLoadedKernel(const void* handle);
bool FindKernelSettings(const void* handle, KernelSettings* settings);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_
