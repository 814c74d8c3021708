// Memory: allocation, registration, copies, fills.
#include "emulator/cuda/graphs/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult Allocate(void** pointer, size_t bytes, MemoryKind kind, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return Result(TheEngine().AllocateMemory(bytes, kind, flags, pointer));
}

CUresult AllocateDevice(CUdeviceptr* address, size_t bytes, MemoryKind kind, unsigned flags) {
  void* pointer = nullptr;
  const CUresult result = Allocate(address == nullptr ? nullptr : &pointer, bytes, kind, flags);
  if (result == CUDA_SUCCESS) *address = reinterpret_cast<CUdeviceptr>(pointer);
  return result;
}

CUresult Copy(void* to, const void* from, size_t bytes, CopyKind kind, bool synchronous,
              CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  CopyRequest request;
  request.to = to;
  request.from = from;
  request.width = bytes;
  request.kind = kind;
  request.synchronous = synchronous;
  return Result(TheEngine().Copy(request, stream));
}

CUresult Fill(CUdeviceptr to, uint32_t value, size_t element_bytes, size_t count, bool synchronous,
              CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  FillRequest request;
  request.to = Pointer(to);
  request.value = value;
  request.element_bytes = element_bytes;
  request.width = count;
  request.synchronous = synchronous;
  return Result(TheEngine().Fill(request, stream));
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(TheEngine().MemoryInfo(free_bytes, total_bytes));
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return AllocateDevice(address, bytes, MemoryKind::kDevice, 0);
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  return AllocateDevice(address, bytes, MemoryKind::kManaged, flags);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().FreeDevice(Pointer(address)));
}

CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return Allocate(pointer, bytes, MemoryKind::kPinned, 0);
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return Allocate(pointer, bytes, MemoryKind::kPinned, flags);
}

CUresult cuMemFreeHost(void* pointer) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().FreeHost(pointer));
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  return Result(TheEngine().RegisterHost(pointer, bytes, flags));
}

CUresult cuMemHostUnregister(void* pointer) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().UnregisterHost(pointer));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  Allocation found;
  if (address == nullptr || flags != 0 || !TheEngine().FindMemory(pointer, &found) ||
      found.kind == MemoryKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Allocation found;
  if (flags == nullptr || !TheEngine().FindMemory(pointer, &found) ||
      (found.kind != MemoryKind::kPinned && found.kind != MemoryKind::kRegistered)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = found.flags;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Allocation found;
  if (!TheEngine().FindMemory(Pointer(address), &found)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found.base;
  if (bytes != nullptr) *bytes = found.bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  Allocation found;
  if (data == nullptr || !TheEngine().FindMemory(Pointer(address), &found)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool on_device = found.kind == MemoryKind::kDevice || found.kind == MemoryKind::kManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) =
          static_cast<CUcontext>(TheEngine().PrimaryContext(found.device));
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (found.kind == MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = Pointer(address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = found.kind == MemoryKind::kManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = found.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = found.base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = found.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *static_cast<unsigned long long*>(data) = found.id;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<bool*>(data) = found.origin == MemoryOrigin::kHeap;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(data) = found.synchronises ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(data) = true;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) = static_cast<CUmemoryPool>(found.pool);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *static_cast<size_t*>(data) = found.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<CUdeviceptr*>(data) = found.base;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDefault, true, nullptr);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDefault, false, stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return Copy(Pointer(to), from, bytes, CopyKind::kHostToDevice, true, nullptr);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return Copy(to, Pointer(from), bytes, CopyKind::kDeviceToHost, true, nullptr);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDeviceToDevice, true, nullptr);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(Pointer(to), from, bytes, CopyKind::kHostToDevice, false, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, Pointer(from), bytes, CopyKind::kDeviceToHost, false, stream);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDeviceToDevice, false, stream);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDeviceToDevice, true, nullptr);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDeviceToDevice, false, stream);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(to, value, 1, count, true, nullptr);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return Fill(to, value, 2, count, true, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return Fill(to, value, 4, count, true, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Fill(to, value, 1, count, false, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return Fill(to, value, 2, count, false, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Fill(to, value, 4, count, false, stream);
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDefault, true, PerThread(nullptr));
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return cuMemcpyAsync(to, from, bytes, PerThread(stream));
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  return Copy(Pointer(to), from, bytes, CopyKind::kHostToDevice, true, PerThread(nullptr));
}
CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return Copy(to, Pointer(from), bytes, CopyKind::kDeviceToHost, true, PerThread(nullptr));
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDeviceToDevice, true,
              PerThread(nullptr));
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes,
                                   CUstream stream) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, PerThread(stream));
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return cuMemcpyDtoHAsync_v2(to, from, bytes, PerThread(stream));
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, PerThread(stream));
}
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(to, value, 1, count, true, PerThread(nullptr));
}
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, size_t count) {
  return Fill(to, value, 4, count, true, PerThread(nullptr));
}
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return cuMemsetD8Async(to, value, count, PerThread(stream));
}
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return cuMemsetD32Async(to, value, count, PerThread(stream));
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return cuMemAllocAsync(address, bytes, PerThread(stream));
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return cuMemFreeAsync(address, PerThread(stream));
}

}  // extern "C"
