// Libraries of device code that the program loads itself. The driver owns them and their kernels.
#include "emulator/cudart/registry.h"
#include "emulator/cudart/runtime_driver.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

static_assert(static_cast<int>(cudaLibraryBinaryIsPreserved) == CU_LIBRARY_BINARY_IS_PRESERVED);
static_assert(static_cast<int>(cudaJitCacheMode) == CU_JIT_CACHE_MODE);

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jit,
                                void** jit_values, unsigned jit_count, cudaLibraryOption* options,
                                void** values, unsigned count) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryLoadData), library, code,
                    reinterpret_cast<CUjit_option*>(jit), jit_values, jit_count,
                    reinterpret_cast<CUlibraryOption*>(options), values, count);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, cudaJitOption* jit,
                                    void** jit_values, unsigned jit_count,
                                    cudaLibraryOption* options, void** values, unsigned count) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryLoadFromFile), library, path,
                    reinterpret_cast<CUjit_option*>(jit), jit_values, jit_count,
                    reinterpret_cast<CUlibraryOption*>(options), values, count);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryUnload), library);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryGetKernel), kernel, library, name);
}

cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryGetKernelCount), count, library);
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count,
                                        cudaLibrary_t library) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryEnumerateKernels), kernels, count, library);
}

cudaError_t cudaLibraryGetGlobal(void** address, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryGetGlobal), reinterpret_cast<CUdeviceptr*>(address),
                    bytes, library, name);
}

cudaError_t cudaLibraryGetManaged(void** address, size_t* bytes, cudaLibrary_t library,
                                  const char* name) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuLibraryGetManaged),
                    reinterpret_cast<CUdeviceptr*>(address), bytes, library, name);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  const cudaError_t error = CheckDevice(device);
  if (error != cudaSuccess) return Return(error);
  return Return(SetKernelAttribute(kernel, attribute, value));
}

cudaError_t cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset,
                                 size_t* bytes) {
  const Kernel* const kernel = FindKernel(function);
  if (kernel == nullptr) return Return(cudaErrorInvalidResourceHandle);
  if (offset == nullptr || index >= kernel->parameters.size()) {
    return Return(cudaErrorInvalidValue);
  }
  *offset = kernel->parameters[index].offset;
  if (bytes != nullptr) *bytes = kernel->parameters[index].bytes;
  return cudaSuccess;
}

}  // extern "C"
