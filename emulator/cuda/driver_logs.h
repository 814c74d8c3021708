// Messages of the emulated libraries to the program and to people who read its stderr.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_LOGS_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_LOGS_H_

// Reports on stderr and in the driver's log that `call` is not emulated, and what to do.
extern "C" void gordianEmuSayNotEmulated(const char* call);

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_LOGS_H_
