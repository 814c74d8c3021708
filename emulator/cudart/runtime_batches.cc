// Batches of copies, managed memory, and attributes of streams; the driver implements them, with
// structures that differ only in name.
#include "emulator/cudart/runtime_driver.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUstreamAttrValue));
static_assert(static_cast<int>(cudaMemRangeAttributeLastPrefetchLocationId) ==
              CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID);
static_assert(static_cast<int>(cudaMemAdviseUnsetAccessedBy) == CU_MEM_ADVISE_UNSET_ACCESSED_BY);

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUdeviceptr* Addresses(const void* pointers) {
  return static_cast<CUdeviceptr*>(const_cast<void*>(pointers));
}

CUmemLocation Location(const cudaMemLocation& location) {
  CUmemLocation same{};
  same.type = static_cast<CUmemLocationType>(location.type);
  same.id = location.id;
  return same;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes,
                                 size_t count, cudaMemcpyAttributes* attributes, size_t* starts,
                                 size_t attribute_count, cudaStream_t stream) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemcpyBatchAsync), Addresses(to), Addresses(from),
                    const_cast<size_t*>(bytes), count,
                    reinterpret_cast<CUmemcpyAttributes*>(attributes), starts, attribute_count,
                    stream);
}

cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp* operations,
                                   unsigned long long flags, cudaStream_t stream) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemcpy3DBatchAsync), count,
                    reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(operations), flags, stream);
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                 unsigned flags, cudaStream_t stream) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemPrefetchAsync), Address(pointer), bytes,
                    Location(location), flags, stream);
}

cudaError_t cudaMemPrefetchBatchAsync(void** pointers, size_t* bytes, size_t count,
                                      cudaMemLocation* locations, size_t* starts,
                                      size_t location_count, unsigned long long flags,
                                      cudaStream_t stream) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemPrefetchBatchAsync), Addresses(pointers), bytes, count,
                    reinterpret_cast<CUmemLocation*>(locations), starts, location_count, flags,
                    stream);
}

cudaError_t cudaMemDiscardBatchAsync(void** pointers, size_t* bytes, size_t count,
                                     unsigned long long flags, cudaStream_t stream) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemDiscardBatchAsync), Addresses(pointers), bytes, count,
                    flags, stream);
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void** pointers, size_t* bytes, size_t count,
                                                cudaMemLocation* locations, size_t* starts,
                                                size_t location_count, unsigned long long flags,
                                                cudaStream_t stream) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemDiscardAndPrefetchBatchAsync), Addresses(pointers),
                    bytes, count, reinterpret_cast<CUmemLocation*>(locations), starts,
                    location_count, flags, stream);
}

cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemAdvise), Address(pointer), bytes,
                    static_cast<CUmem_advise>(advice), Location(location));
}

cudaError_t cudaMemRangeGetAttribute(void* data, size_t data_bytes, cudaMemRangeAttribute attribute,
                                     const void* pointer, size_t bytes) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemRangeGetAttribute), data, data_bytes,
                    static_cast<CUmem_range_attribute>(attribute), Address(pointer), bytes);
}

cudaError_t cudaMemRangeGetAttributes(void** data, size_t* data_bytes,
                                      cudaMemRangeAttribute* attributes, size_t count,
                                      const void* pointer, size_t bytes) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuMemRangeGetAttributes), data, data_bytes,
                    reinterpret_cast<CUmem_range_attribute*>(attributes), count, Address(pointer),
                    bytes);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t bytes,
                                     unsigned flags) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuStreamAttachMemAsync), stream, Address(pointer), bytes,
                    flags);
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                   cudaLaunchAttributeValue* value) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuStreamGetAttribute), stream,
                    static_cast<CUstreamAttrID>(attribute),
                    reinterpret_cast<CUstreamAttrValue*>(value));
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                   const cudaLaunchAttributeValue* value) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuStreamSetAttribute), stream,
                    static_cast<CUstreamAttrID>(attribute),
                    reinterpret_cast<const CUstreamAttrValue*>(value));
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return CallDriver(GORDIAN_EMU_DRIVER(cuStreamCopyAttributes), to, from);
}

cudaError_t cudaMemcpyBatchAsync_ptsz(void* const* to, const void* const* from, const size_t* bytes,
                                      size_t count, cudaMemcpyAttributes* attributes,
                                      size_t* starts, size_t attribute_count, cudaStream_t stream) {
  return cudaMemcpyBatchAsync(to, from, bytes, count, attributes, starts, attribute_count,
                              PerThread(stream));
}
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t count, cudaMemcpy3DBatchOp* operations,
                                        unsigned long long flags, cudaStream_t stream) {
  return cudaMemcpy3DBatchAsync(count, operations, flags, PerThread(stream));
}
cudaError_t cudaMemPrefetchAsync_ptsz(const void* pointer, size_t bytes, cudaMemLocation location,
                                      unsigned flags, cudaStream_t stream) {
  return cudaMemPrefetchAsync(pointer, bytes, location, flags, PerThread(stream));
}
cudaError_t cudaMemPrefetchBatchAsync_ptsz(void** pointers, size_t* bytes, size_t count,
                                           cudaMemLocation* locations, size_t* starts,
                                           size_t location_count, unsigned long long flags,
                                           cudaStream_t stream) {
  return cudaMemPrefetchBatchAsync(pointers, bytes, count, locations, starts, location_count, flags,
                                   PerThread(stream));
}
cudaError_t cudaMemDiscardBatchAsync_ptsz(void** pointers, size_t* bytes, size_t count,
                                          unsigned long long flags, cudaStream_t stream) {
  return cudaMemDiscardBatchAsync(pointers, bytes, count, flags, PerThread(stream));
}
cudaError_t cudaMemDiscardAndPrefetchBatchAsync_ptsz(void** pointers, size_t* bytes, size_t count,
                                                     cudaMemLocation* locations, size_t* starts,
                                                     size_t location_count,
                                                     unsigned long long flags,
                                                     cudaStream_t stream) {
  return cudaMemDiscardAndPrefetchBatchAsync(pointers, bytes, count, locations, starts,
                                             location_count, flags, PerThread(stream));
}
cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t stream, void* pointer, size_t bytes,
                                          unsigned flags) {
  return cudaStreamAttachMemAsync(PerThread(stream), pointer, bytes, flags);
}
cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                        cudaLaunchAttributeValue* value) {
  return cudaStreamGetAttribute(PerThread(stream), attribute, value);
}
cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                        const cudaLaunchAttributeValue* value) {
  return cudaStreamSetAttribute(PerThread(stream), attribute, value);
}
cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t to, cudaStream_t from) {
  return cudaStreamCopyAttributes(PerThread(to), PerThread(from));
}

}  // extern "C"
