// Whether a CUfunction or CUkernel is one that this library gave out.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_

namespace gordian::emu {

struct LoadedKernel;
bool IsLoadedKernel(const void* handle);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_MODULES_H_
