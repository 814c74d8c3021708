// Copies and fills in two and three dimensions. Arrays are not emulated.
#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

const CUstream kOwn = static_cast<CUstream>(kPerThreadStream);

// One side of a copy, at its first byte.
struct Side {
  char* start = nullptr;
  size_t pitch = 0;
  size_t slice = 0;
  bool on_device = false;
  bool known = true;
};

Side MakeSide(CUmemorytype type, const void* host, CUdeviceptr device, size_t x, size_t y, size_t z,
              size_t pitch, size_t height) {
  Side side;
  if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
    side.known = false;
    return side;
  }
  void* const base = type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : Pointer(device);
  side.pitch = pitch;
  side.slice = pitch * height;
  side.start = static_cast<char*>(base) + z * side.slice + y * pitch + x;
  side.on_device = type == CU_MEMORYTYPE_DEVICE;
  return side;
}

CUresult CopySlices(Side to, Side from, size_t width, size_t height, size_t depth, bool synchronous,
                    CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (!to.known || !from.known) return CUDA_ERROR_NOT_SUPPORTED;  // arrays
  CopyRequest request;
  // A pitch of 0 means one row.
  request.to_pitch = to.pitch == 0 ? width : to.pitch;
  request.from_pitch = from.pitch == 0 ? width : from.pitch;
  request.width = width;
  request.height = height;
  request.synchronous = synchronous;
  if (height > 0 && (request.to_pitch < width || request.from_pitch < width)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t z = 0; z < depth; ++z) {
    request.to = to.start + z * to.slice;
    request.from = from.start + z * from.slice;
    Allocation found;
    if ((to.on_device && !TheEngine().FindMemory(request.to, &found)) ||
        (from.on_device && !TheEngine().FindMemory(request.from, &found))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    GORDIAN_EMU_CHECK(Result(TheEngine().Copy(request, stream)));
  }
  return CUDA_SUCCESS;
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, bool synchronous, CUstream stream) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CopySlices(MakeSide(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes,
                             copy->dstY, 0, copy->dstPitch, 0),
                    MakeSide(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes,
                             copy->srcY, 0, copy->srcPitch, 0),
                    copy->WidthInBytes, copy->Height, 1, synchronous, stream);
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER differ in the contexts only, which say nothing here.
template <typename Parameters>
CUresult Copy3D(const Parameters* copy, bool synchronous, CUstream stream) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CopySlices(MakeSide(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstXInBytes,
                             copy->dstY, copy->dstZ, copy->dstPitch, copy->dstHeight),
                    MakeSide(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcXInBytes,
                             copy->srcY, copy->srcZ, copy->srcPitch, copy->srcHeight),
                    copy->WidthInBytes, copy->Height, copy->Depth, synchronous, stream);
}

CUresult Fill2D(CUdeviceptr to, size_t pitch, unsigned value, size_t element_bytes, size_t width,
                size_t height, bool synchronous, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  FillRequest request;
  request.to = Pointer(to);
  request.pitch = pitch;
  request.value = value;
  request.element_bytes = element_bytes;
  request.width = width;
  request.height = height;
  request.synchronous = synchronous;
  return Result(TheEngine().Fill(request, stream));
}

}  // namespace

extern "C" {

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned element_bytes) {
  constexpr size_t kPitchBytes = 512;
  if (pitch == nullptr || width == 0 || height == 0 ||
      (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pitch = (width + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
  return cuMemAlloc_v2(address, *pitch * height);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, true, nullptr); }
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, true, kOwn); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, true, nullptr); }
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, true, kOwn); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(copy, false, stream);
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(copy, false, PerThread(stream));
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) { return Copy3D(copy, true, nullptr); }
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) { return Copy3D(copy, true, kOwn); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(copy, false, stream);
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(copy, false, PerThread(stream));
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) { return Copy3D(copy, true, nullptr); }
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* copy) { return Copy3D(copy, true, kOwn); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return Copy3D(copy, false, stream);
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return Copy3D(copy, false, PerThread(stream));
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return cuMemcpyDtoD_v2_ptds(to, from, bytes);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                                size_t bytes, CUstream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, PerThread(stream));
}

#define GORDIAN_EMU_FILL_2D(bits, type)                                                          \
  CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width,        \
                                  size_t height) {                                               \
    return Fill2D(to, pitch, value, bits / 8, width, height, true, nullptr);                     \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, type value, size_t width,   \
                                       size_t height) {                                          \
    return Fill2D(to, pitch, value, bits / 8, width, height, true, kOwn);                        \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,      \
                                    size_t height, CUstream stream) {                            \
    return Fill2D(to, pitch, value, bits / 8, width, height, false, stream);                     \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, size_t pitch, type value, size_t width, \
                                         size_t height, CUstream stream) {                       \
    return Fill2D(to, pitch, value, bits / 8, width, height, false, PerThread(stream));          \
  }
GORDIAN_EMU_FILL_2D(8, unsigned char)
GORDIAN_EMU_FILL_2D(16, unsigned short)
GORDIAN_EMU_FILL_2D(32, unsigned)
#undef GORDIAN_EMU_FILL_2D

CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) {
  return Fill2D(to, 2 * count, value, 2, count, 1, true, kOwn);
}
CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count,
                               CUstream stream) {
  return Fill2D(to, 2 * count, value, 2, count, 1, false, PerThread(stream));
}

}  // extern "C"
