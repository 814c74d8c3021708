// Memory pools and stream-ordered allocation.
#include <cstring>

#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUmemoryPool Handle(void* pool) { return static_cast<CUmemoryPool>(pool); }

CUresult CheckDeviceLocation(const CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_NOT_SUPPORTED;  // as the device's attributes say
  }
  return CheckDevice(location->id);
}

// The reuse flags are ints, the rest are 64 bits.
bool IsFlag(CUmemPool_attribute attribute) {
  return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

}  // namespace

extern "C" {

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* wanted) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (pool == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckDeviceLocation(&wanted->location, wanted->allocType));
  constexpr unsigned kHandles = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if ((static_cast<unsigned>(wanted->handleTypes) & ~kHandles) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  PoolProperties properties;
  properties.device = wanted->location.id;
  properties.shareable = wanted->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  properties.max_bytes = wanted->maxSize;
  void* made = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().CreatePool(properties, &made)));
  *pool = Handle(made);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().DestroyPool(pool));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* found = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().DefaultPool(device, &found)));
  *pool = Handle(found);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* found = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().CurrentPool(device, &found)));
  *pool = Handle(found);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  GORDIAN_EMU_CHECK(CheckDevice(device));
  return Result(TheEngine().SetCurrentPool(device, pool));
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  GORDIAN_EMU_CHECK(CheckDeviceLocation(location, type));
  return cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  GORDIAN_EMU_CHECK(CheckDeviceLocation(location, type));
  return cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  GORDIAN_EMU_CHECK(CheckDeviceLocation(location, type));
  return cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  GORDIAN_EMU_CHECK(
      Result(TheEngine().GetPoolAttribute(pool, static_cast<PoolAttribute>(attribute), &number)));
  if (IsFlag(attribute)) {
    *static_cast<int*>(value) = static_cast<int>(number);
  } else {
    *static_cast<cuuint64_t*>(value) = number;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t number = IsFlag(attribute) ? static_cast<uint64_t>(*static_cast<int*>(value))
                                            : *static_cast<cuuint64_t*>(value);
  return Result(TheEngine().SetPoolAttribute(pool, static_cast<PoolAttribute>(attribute), number));
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().TrimPool(pool, keep_bytes));
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* accesses, size_t count) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (accesses == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (accesses[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    GORDIAN_EMU_CHECK(
        Result(TheEngine().SetPoolAccess(pool, accesses[i].location.id, accesses[i].flags)));
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  unsigned found = 0;
  GORDIAN_EMU_CHECK(Result(TheEngine().GetPoolAccess(pool, location->id, &found)));
  *flags = static_cast<CUmemAccess_flags>(found);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (address == nullptr || pool == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().AllocateInStreamOrder(bytes, pool, stream, &pointer)));
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().AllocateInStreamOrder(bytes, nullptr, stream, &pointer)));
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(TheEngine().FreeInStreamOrder(Pointer(address), stream));
}

CUresult cuMemPoolExportToShareableHandle(void* handle, CUmemoryPool pool,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return Result(TheEngine().ExportPool(pool, static_cast<int*>(handle)));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  void* made = nullptr;
  // The descriptor is the pointer's value.
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  GORDIAN_EMU_CHECK(Result(TheEngine().ImportPool(fd, &made)));
  *pool = Handle(made);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  static_assert(sizeof(*data) == kIpcHandleBytes);
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(
      TheEngine().ExportPoolPointer(Pointer(address), reinterpret_cast<char*>(data->reserved)));
}

CUresult cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool,
                                CUmemPoolPtrExportData* data) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (data == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().ImportPoolPointer(
      pool, reinterpret_cast<const char*>(data->reserved), &pointer)));
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

// --- Other processes ---

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckContext());
  static_assert(sizeof(*handle) == kIpcHandleBytes);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(TheEngine().ExportMemory(Pointer(address), handle->reserved));
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* pointer = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().OpenMemory(handle.reserved, &pointer)));
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  GORDIAN_EMU_CHECK(CheckContext());
  return Result(TheEngine().CloseMemory(Pointer(address)));
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  GORDIAN_EMU_CHECK(CheckContext());
  static_assert(sizeof(*handle) == kIpcHandleBytes);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Result(TheEngine().ExportEvent(event, handle->reserved));
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* opened = nullptr;
  GORDIAN_EMU_CHECK(Result(TheEngine().OpenEvent(handle.reserved, &opened)));
  *event = static_cast<CUevent>(opened);
  return CUDA_SUCCESS;
}

}  // extern "C"
