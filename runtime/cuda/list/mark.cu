#include <cuda_runtime.h>

#include "runtime/cuda/list/device_block.h"
#include "runtime/cuda/list/mark.h"

namespace gordian::runtime::cuda {
namespace {

// Launched without an early start: when it runs, all before it on its stream is done.
__global__ void MarkKernel(uint32_t* begun, uint32_t* begun_on_device, uint32_t number) {
  if (begun == nullptr) return;
  Store<kSystem, kRelaxed>(begun, number);
  Store<kDevice, kRelease>(begun_on_device, number);
}

cudaError_t Launch(uint32_t* begun, uint32_t* begun_on_device, uint32_t number,
                   cudaStream_t stream) {
  void* arguments[] = {&begun, &begun_on_device, &number};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&MarkKernel), dim3(1), dim3(1), arguments,
                          0, stream);
}

}  // namespace

cudaError_t PreloadMarks(cudaStream_t stream) {
  // It runs beside kernels that wait, so it must not ask for another partition of the memory.
  const cudaError_t error = WantSharedMemory(reinterpret_cast<const void*>(&MarkKernel));
  return error == cudaSuccess ? Launch(nullptr, nullptr, 0, stream) : error;
}

cudaError_t LaunchMark(const HelpList& help, cudaStream_t stream) {
  return Launch(help.begun, &help.memory->begun, help.id + 1, stream);
}

}  // namespace gordian::runtime::cuda
