// What the rest of the driver API knows of a CUfunction or a CUkernel.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_

#include "emulator/engine/kernel_settings.h"

namespace gordian::emu {

struct LoadedKernel;
// Whether this library gave it out, and it has not been unloaded.
bool IsLoadedKernel(const void* handle);
bool FindKernelSettings(const void* handle, KernelSettings* settings);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_
