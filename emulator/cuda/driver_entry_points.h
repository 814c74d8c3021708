// How the emulated libcudart asks the emulated libcuda for a driver function.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_ENTRY_POINTS_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_ENTRY_POINTS_H_

// The newest form of `name` (without version suffix) that existed in CUDA `version` (13000: 13.0);
// null when there is none. `*status` is a CUdriverProcAddressQueryResult.
extern "C" void* gordianEmuDriverEntryPoint(const char* name, int version, bool per_thread,
                                            int* status);

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_ENTRY_POINTS_H_
