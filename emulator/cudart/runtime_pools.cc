// Memory pools, handles for other processes, and copies in three dimensions.
#include "emulator/cudart/runtime_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

cudaError_t CheckLocation(const cudaMemLocation* location, cudaMemAllocationType type) {
  if (location == nullptr) return cudaErrorInvalidValue;
  if (location->type != cudaMemLocationTypeDevice || type != cudaMemAllocationTypePinned) {
    return cudaErrorNotSupported;  // as the device's attributes say
  }
  return CheckDevice(location->id);
}

bool IsFlag(cudaMemPoolAttr attribute) {
  return attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

// --- Three dimensions ---

struct Box {
  char* start;
  size_t pitch;
  size_t slice;
};

Box At(const cudaPitchedPtr& memory, const cudaPos& position) {
  const size_t slice = memory.pitch * memory.ysize;
  return {
      static_cast<char*>(memory.ptr) + position.z * slice + position.y * memory.pitch + position.x,
      memory.pitch, slice};
}

cudaError_t CopyBox(const Box& to, const Box& from, const cudaExtent& extent, cudaMemcpyKind kind,
                    bool synchronous, cudaStream_t stream) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return Return(cudaErrorInvalidMemcpyDirection);
  }
  if (to.pitch < extent.width || from.pitch < extent.width) {
    return Return(cudaErrorInvalidPitchValue);
  }
  CopyRequest request;
  request.to_pitch = to.pitch;
  request.from_pitch = from.pitch;
  request.width = extent.width;
  request.height = extent.height;
  request.kind = static_cast<CopyKind>(kind);
  request.synchronous = synchronous;
  for (size_t z = 0; z < extent.depth; ++z) {
    request.to = to.start + z * to.slice;
    request.from = from.start + z * from.slice;
    const int status = TheEngine().Copy(request, stream);
    if (status != kSuccess) return Return(status);
  }
  return cudaSuccess;
}

cudaError_t Copy3D(const cudaMemcpy3DParms* copy, bool synchronous, cudaStream_t stream) {
  if (copy == nullptr) return Return(cudaErrorInvalidValue);
  if (copy->srcArray != nullptr || copy->dstArray != nullptr)
    return NotEmulated("cudaMemcpy3D of arrays");
  return CopyBox(At(copy->dstPtr, copy->dstPos), At(copy->srcPtr, copy->srcPos), copy->extent,
                 copy->kind, synchronous, stream);
}

cudaError_t Copy3DPeer(const cudaMemcpy3DPeerParms* copy, bool synchronous, cudaStream_t stream) {
  if (copy == nullptr) return Return(cudaErrorInvalidValue);
  if (copy->srcArray != nullptr || copy->dstArray != nullptr)
    return NotEmulated("cudaMemcpy3DPeer of arrays");
  for (int device : {copy->dstDevice, copy->srcDevice}) {
    const cudaError_t error = CheckDevice(device);
    if (error != cudaSuccess) return Return(error);
  }
  return CopyBox(At(copy->dstPtr, copy->dstPos), At(copy->srcPtr, copy->srcPos), copy->extent,
                 cudaMemcpyDeviceToDevice, synchronous, stream);
}

cudaError_t Fill3D(const cudaPitchedPtr& to, int value, const cudaExtent& extent, bool synchronous,
                   cudaStream_t stream) {
  FillRequest request;
  request.pitch = to.pitch;
  request.value = static_cast<uint32_t>(value) & 0xff;
  request.width = extent.width;
  request.height = extent.height;
  request.synchronous = synchronous;
  for (size_t z = 0; z < extent.depth; ++z) {
    request.to = static_cast<char*>(to.ptr) + z * to.pitch * to.ysize;
    const int status = TheEngine().Fill(request, stream);
    if (status != kSuccess) return Return(status);
  }
  return cudaSuccess;
}

const cudaStream_t kOwn = static_cast<cudaStream_t>(kPerThreadStream);

}  // namespace

extern "C" {

// --- Pools ---

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* wanted) {
  if (pool == nullptr || wanted == nullptr) return Return(cudaErrorInvalidValue);
  const cudaError_t error = CheckLocation(&wanted->location, wanted->allocType);
  if (error != cudaSuccess) return Return(error);
  constexpr unsigned kHandles = cudaMemHandleTypePosixFileDescriptor;
  if ((static_cast<unsigned>(wanted->handleTypes) & ~kHandles) != 0) {
    return Return(cudaErrorNotSupported);
  }
  PoolProperties properties;
  properties.device = wanted->location.id;
  properties.shareable = wanted->handleTypes != cudaMemHandleTypeNone;
  properties.max_bytes = wanted->maxSize;
  return Return(TheEngine().CreatePool(properties, reinterpret_cast<void**>(pool)));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return Return(TheEngine().DestroyPool(pool)); }

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().DefaultPool(device, reinterpret_cast<void**>(pool)));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().CurrentPool(device, reinterpret_cast<void**>(pool)));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return Return(TheEngine().SetCurrentPool(device, pool));
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                     cudaMemAllocationType type) {
  const cudaError_t error = CheckLocation(location, type);
  return error != cudaSuccess ? Return(error) : cudaDeviceGetDefaultMemPool(pool, location->id);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                              cudaMemAllocationType type) {
  const cudaError_t error = CheckLocation(location, type);
  return error != cudaSuccess ? Return(error) : cudaDeviceGetMemPool(pool, location->id);
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                              cudaMemPool_t pool) {
  const cudaError_t error = CheckLocation(location, type);
  return error != cudaSuccess ? Return(error) : cudaDeviceSetMemPool(location->id, pool);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (value == nullptr) return Return(cudaErrorInvalidValue);
  uint64_t number = 0;
  const int status =
      TheEngine().GetPoolAttribute(pool, static_cast<PoolAttribute>(attribute), &number);
  if (status != kSuccess) return Return(status);
  if (IsFlag(attribute)) {
    *static_cast<int*>(value) = static_cast<int>(number);
  } else {
    *static_cast<uint64_t*>(value) = number;
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (value == nullptr) return Return(cudaErrorInvalidValue);
  const uint64_t number = IsFlag(attribute) ? static_cast<uint64_t>(*static_cast<int*>(value))
                                            : *static_cast<uint64_t*>(value);
  return Return(TheEngine().SetPoolAttribute(pool, static_cast<PoolAttribute>(attribute), number));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
  return Return(TheEngine().TrimPool(pool, keep_bytes));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* accesses,
                                 size_t count) {
  if (accesses == nullptr && count > 0) return Return(cudaErrorInvalidValue);
  for (size_t i = 0; i < count; ++i) {
    if (accesses[i].location.type != cudaMemLocationTypeDevice) {
      return Return(cudaErrorInvalidValue);
    }
    const int status = TheEngine().SetPoolAccess(pool, accesses[i].location.id, accesses[i].flags);
    if (status != kSuccess) return Return(status);
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* location) {
  if (flags == nullptr || location == nullptr || location->type != cudaMemLocationTypeDevice) {
    return Return(cudaErrorInvalidValue);
  }
  unsigned found = 0;
  const int status = TheEngine().GetPoolAccess(pool, location->id, &found);
  if (status == kSuccess) *flags = static_cast<cudaMemAccessFlags>(found);
  return Return(status);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (pool == nullptr) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().AllocateInStreamOrder(bytes, pool, stream, pointer));
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, size_t bytes, cudaMemPool_t pool,
                                         cudaStream_t stream) {
  return cudaMallocFromPoolAsync(pointer, bytes, pool, PerThread(stream));
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return Return(TheEngine().AllocateInStreamOrder(bytes, nullptr, stream, pointer));
}

cudaError_t cudaMallocAsync_ptsz(void** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(pointer, bytes, PerThread(stream));
}

cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool,
                                               cudaMemAllocationHandleType type, unsigned flags) {
  if (handle == nullptr || flags != 0) return Return(cudaErrorInvalidValue);
  if (type != cudaMemHandleTypePosixFileDescriptor) return Return(cudaErrorNotSupported);
  return Return(TheEngine().ExportPool(pool, static_cast<int*>(handle)));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                 cudaMemAllocationHandleType type, unsigned flags) {
  if (pool == nullptr || flags != 0) return Return(cudaErrorInvalidValue);
  if (type != cudaMemHandleTypePosixFileDescriptor) return Return(cudaErrorNotSupported);
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  return Return(TheEngine().ImportPool(fd, reinterpret_cast<void**>(pool)));
}

cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer) {
  static_assert(sizeof(*data) == kIpcHandleBytes);
  if (data == nullptr) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().ExportPoolPointer(pointer, reinterpret_cast<char*>(data->reserved)));
}

cudaError_t cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool,
                                     cudaMemPoolPtrExportData* data) {
  if (data == nullptr) return Return(cudaErrorInvalidValue);
  return Return(
      TheEngine().ImportPoolPointer(pool, reinterpret_cast<const char*>(data->reserved), pointer));
}

// --- Other processes ---

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  static_assert(sizeof(*handle) == kIpcHandleBytes);
  if (handle == nullptr) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().ExportMemory(pointer, handle->reserved));
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  if (flags != cudaIpcMemLazyEnablePeerAccess) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().OpenMemory(handle.reserved, pointer));
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return Return(TheEngine().CloseMemory(pointer));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  static_assert(sizeof(*handle) == kIpcHandleBytes);
  if (handle == nullptr) return Return(cudaErrorInvalidValue);
  return Return(TheEngine().ExportEvent(event, handle->reserved));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return Return(TheEngine().OpenEvent(handle.reserved, reinterpret_cast<void**>(event)));
}

// --- Three dimensions ---

cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
  if (memory == nullptr) return Return(cudaErrorInvalidValue);
  constexpr size_t kPitchBytes = 512;
  const size_t pitch = (extent.width + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
  void* pointer = nullptr;
  const int status = TheEngine().AllocateMemory(pitch * extent.height * extent.depth,
                                                MemoryKind::kDevice, 0, &pointer);
  if (status == kSuccess) *memory = {pointer, pitch, extent.width, extent.height};
  return Return(status);
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* copy) { return Copy3D(copy, true, nullptr); }
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* copy) { return Copy3D(copy, true, kOwn); }
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* copy, cudaStream_t stream) {
  return Copy3D(copy, false, stream);
}
cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms* copy, cudaStream_t stream) {
  return Copy3D(copy, false, PerThread(stream));
}
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* copy) {
  return Copy3DPeer(copy, true, nullptr);
}
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms* copy) {
  return Copy3DPeer(copy, true, kOwn);
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* copy, cudaStream_t stream) {
  return Copy3DPeer(copy, false, stream);
}
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const cudaMemcpy3DPeerParms* copy, cudaStream_t stream) {
  return Copy3DPeer(copy, false, PerThread(stream));
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return Fill3D(to, value, extent, true, nullptr);
}
cudaError_t cudaMemset3D_ptds(cudaPitchedPtr to, int value, cudaExtent extent) {
  return Fill3D(to, value, extent, true, kOwn);
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return Fill3D(to, value, extent, false, stream);
}
cudaError_t cudaMemset3DAsync_ptsz(cudaPitchedPtr to, int value, cudaExtent extent,
                                   cudaStream_t stream) {
  return Fill3D(to, value, extent, false, PerThread(stream));
}

}  // extern "C"
