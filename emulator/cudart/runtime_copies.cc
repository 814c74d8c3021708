// Copies and fills.
#include "emulator/cudart/registry.h"
#include "emulator/cudart/runtime_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

// cudaMemcpyKind and CopyKind have the same order.
static_assert(static_cast<int>(CopyKind::kDefault) == cudaMemcpyDefault);
static_assert(static_cast<int>(CopyKind::kHostToDevice) == cudaMemcpyHostToDevice);
static_assert(static_cast<int>(CopyKind::kDeviceToHost) == cudaMemcpyDeviceToHost);

const cudaStream_t kOwn = static_cast<cudaStream_t>(kPerThreadStream);

cudaError_t Copy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t height, cudaMemcpyKind kind, bool synchronous, cudaStream_t stream) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return Return(cudaErrorInvalidMemcpyDirection);
  }
  if (height > 0 && (to_pitch < width || from_pitch < width)) {
    return Return(cudaErrorInvalidPitchValue);
  }
  CopyRequest request;
  request.to = to;
  request.to_pitch = to_pitch;
  request.from = from;
  request.from_pitch = from_pitch;
  request.width = width;
  request.height = height;
  request.kind = static_cast<CopyKind>(kind);
  request.synchronous = synchronous;
  return Return(TheEngine().Copy(request, stream));
}

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, bool synchronous,
                 cudaStream_t stream) {
  return Copy2D(to, bytes, from, bytes, bytes, 1, kind, synchronous, stream);
}

cudaError_t Fill2D(void* to, size_t pitch, int value, size_t width, size_t height, bool synchronous,
                   cudaStream_t stream) {
  FillRequest request;
  request.to = to;
  request.pitch = pitch;
  request.value = static_cast<uint32_t>(value) & 0xff;
  request.width = width;
  request.height = height;
  request.synchronous = synchronous;
  return Return(TheEngine().Fill(request, stream));
}

cudaError_t CopyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes,
                     bool synchronous, cudaStream_t stream) {
  for (int device : {to_device, from_device}) {
    const cudaError_t error = CheckDevice(device);
    if (error != cudaSuccess) return Return(error);
  }
  return Copy(to, from, bytes, cudaMemcpyDeviceToDevice, synchronous, stream);
}

cudaError_t CopySymbol(const void* symbol, void* other, size_t bytes, size_t offset,
                       cudaMemcpyKind kind, bool to_symbol, bool synchronous, cudaStream_t stream) {
  void* address = nullptr;
  size_t size = 0;
  const cudaError_t error = FindSymbol(symbol, &address, &size);
  if (error != cudaSuccess) return Return(error);
  if (offset > size || bytes > size - offset) return Return(cudaErrorInvalidValue);
  char* const place = static_cast<char*>(address) + offset;
  return to_symbol ? Copy(place, other, bytes, kind, synchronous, stream)
                   : Copy(other, place, bytes, kind, synchronous, stream);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind, true, nullptr);
}
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind, true, kOwn);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return Copy(to, from, bytes, kind, false, stream);
}
cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return Copy(to, from, bytes, kind, false, PerThread(stream));
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, true, nullptr);
}
cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, true, kOwn);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, false, stream);
}
cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  return Copy2D(to, to_pitch, from, from_pitch, width, height, kind, false, PerThread(stream));
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes) {
  return CopyPeer(to, to_device, from, from_device, bytes, true, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  return CopyPeer(to, to_device, from, from_device, bytes, false, stream);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return Fill2D(to, bytes, value, bytes, 1, true, nullptr);
}
cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return Fill2D(to, bytes, value, bytes, 1, true, kOwn);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Fill2D(to, bytes, value, bytes, 1, false, stream);
}
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t stream) {
  return Fill2D(to, bytes, value, bytes, 1, false, PerThread(stream));
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return Fill2D(to, pitch, value, width, height, true, nullptr);
}
cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return Fill2D(to, pitch, value, width, height, true, kOwn);
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return Fill2D(to, pitch, value, width, height, false, stream);
}
cudaError_t cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t stream) {
  return Fill2D(to, pitch, value, width, height, false, PerThread(stream));
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return CopySymbol(symbol, const_cast<void*>(from), bytes, offset, kind, true, true, nullptr);
}
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind) {
  return CopySymbol(symbol, const_cast<void*>(from), bytes, offset, kind, true, true, kOwn);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return CopySymbol(symbol, const_cast<void*>(from), bytes, offset, kind, true, false, stream);
}
cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void* symbol, const void* from, size_t bytes,
                                         size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, PerThread(stream));
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return CopySymbol(symbol, to, bytes, offset, kind, false, true, nullptr);
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind) {
  return CopySymbol(symbol, to, bytes, offset, kind, false, true, kOwn);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return CopySymbol(symbol, to, bytes, offset, kind, false, false, stream);
}
cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void* to, const void* symbol, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  return cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, PerThread(stream));
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  size_t size = 0;
  return Return(address == nullptr ? cudaErrorInvalidValue : FindSymbol(symbol, address, &size));
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  void* address = nullptr;
  return Return(size == nullptr ? cudaErrorInvalidValue : FindSymbol(symbol, &address, size));
}

}  // extern "C"
