// Kernels and device variables that the program registered when it was loaded.
#ifndef GORDIAN_EMULATOR_CUDART_REGISTRY_H_
#define GORDIAN_EMULATOR_CUDART_REGISTRY_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace gordian::emu {

// Its address is the cudaKernel_t and the cudaFunction_t of the kernel. Never freed.
struct Kernel {
  std::string name;   // mangled
  bool busy = false;  // takes as many microseconds as its first argument, a uint64_t, says
};

// By host function or by handle; null when it was never registered.
const Kernel* FindKernel(const void* function);

// The device variable whose host shadow is `symbol`: its memory on the current device.
cudaError_t FindSymbol(const void* symbol, void** address, size_t* bytes);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDART_REGISTRY_H_
