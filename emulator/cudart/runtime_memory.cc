// Memory: allocation, registration, and queries about pointers.
#include "emulator/cudart/runtime_common.h"
#include "emulator/engine/graph/graph_api.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

constexpr size_t kPitchBytes = 512;
constexpr unsigned kHostAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kHostRegisterFlags = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                        cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Return(TheEngine().AllocateMemory(bytes, MemoryKind::kDevice, 0, pointer));
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return Return(cudaErrorInvalidValue);
  *pitch = (width + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
  return cudaMalloc(pointer, *pitch * height);
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) {
    return Return(cudaErrorInvalidValue);
  }
  return Return(TheEngine().AllocateMemory(bytes, MemoryKind::kManaged, flags, pointer));
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  if ((flags & ~kHostAllocFlags) != 0) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().AllocateMemory(bytes, MemoryKind::kPinned, flags, pointer));
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFree(void* pointer) { return Return(TheEngine().FreeDevice(pointer)); }

cudaError_t cudaFreeHost(void* pointer) { return Return(TheEngine().FreeHost(pointer)); }

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return Return(TheEngine().FreeInStreamOrder(pointer, stream));
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  if ((flags & ~kHostRegisterFlags) != 0) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().RegisterHost(pointer, bytes, flags));
}

cudaError_t cudaHostUnregister(void* pointer) {
  return Return(TheEngine().UnregisterHost(pointer));
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  Allocation found;
  if (device_pointer == nullptr || flags != 0 || !TheEngine().FindMemory(pointer, &found) ||
      (found.kind != MemoryKind::kPinned && found.kind != MemoryKind::kRegistered)) {
    return Return(cudaErrorInvalidValue);
  }
  *device_pointer = pointer;
  return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  Allocation found;
  if (flags == nullptr || !TheEngine().FindMemory(pointer, &found) ||
      (found.kind != MemoryKind::kPinned && found.kind != MemoryKind::kRegistered)) {
    return Return(cudaErrorInvalidValue);
  }
  *flags = found.flags;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  size_t sizes[2];
  return Return(TheEngine().MemoryInfo(free_bytes != nullptr ? free_bytes : &sizes[0],
                                       total_bytes != nullptr ? total_bytes : &sizes[1]));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return Return(cudaErrorInvalidValue);
  const int status = TheEngine().Initialize();
  if (status != kSuccess) return Return(status);
  *attributes = {};
  attributes->device = -2;
  attributes->type = cudaMemoryTypeUnregistered;
  Allocation found;
  void* const address = const_cast<void*>(pointer);
  if (!TheEngine().FindMemory(pointer, &found)) {
    attributes->hostPointer = address;
    return cudaSuccess;
  }
  attributes->device = found.device;
  attributes->devicePointer = address;
  switch (found.kind) {
    case MemoryKind::kDevice:
      attributes->type = cudaMemoryTypeDevice;
      break;
    case MemoryKind::kManaged:
      attributes->type = cudaMemoryTypeManaged;
      attributes->hostPointer = address;
      break;
    case MemoryKind::kPinned:
    case MemoryKind::kRegistered:
      attributes->type = cudaMemoryTypeHost;
      attributes->hostPointer = address;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return cudaFreeAsync(pointer, PerThread(stream));
}

}  // extern "C"
