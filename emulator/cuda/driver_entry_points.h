// Gives the emulated libcudart the functions of the emulated libcuda.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_ENTRY_POINTS_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_ENTRY_POINTS_H_

// Returns the newest form of `name` (without version suffix) in CUDA `version` (13000: 13.0), or
// null. `*status` is a CUdriverProcAddressQueryResult.
extern "C" void* gordianEmuDriverEntryPoint(const char* name, int version, bool per_thread,
                                            int* status);

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_ENTRY_POINTS_H_
