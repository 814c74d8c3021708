// What the emulated libraries say to the program and to whoever reads its stderr.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_LOGS_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_LOGS_H_

// Says on stderr and in the driver's log that `call` is not emulated, and what can be done.
extern "C" void gordianEmuSayNotEmulated(const char* call);

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_LOGS_H_
