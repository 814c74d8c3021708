// Batches of copies. CUDA allows any order within a batch; the emulator keeps the given one.
#include <cstring>
#include <vector>

#include "emulator/cuda/driver_common.h"

#undef cuMemcpy3DBatchAsync
#undef cuMemcpy3DBatchAsync_ptsz
#undef cuMemcpyBatchAsync
#undef cuMemcpyBatchAsync_ptsz

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

// A copy of `depth` layers between pointers.
struct Box {
  CopyRequest rows;
  size_t to_layer = 0;  // bytes from one layer to the next
  size_t from_layer = 0;
  size_t depth = 1;
};

CUresult CheckStreamOfBatch(CUstream stream) {
  // The legacy stream rejects batches.
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  GORDIAN_EMU_CHECK(CheckStream(stream));
  StreamInfo info;
  return Result(TheEngine().DescribeStream(stream, &info));
}

CUresult CheckOrder(CUmemcpySrcAccessOrder order, unsigned flags) {
  constexpr unsigned kKnownFlags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  const bool known = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
                     order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
                     order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  return known && (flags & ~kKnownFlags) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool IsCapturing(CUstream stream) {
  Stream* const found = TheEngine().FindStream(stream, TheEngine().CurrentDevice());
  return found != nullptr && TheEngine().IsCapturing(found);
}

CUresult Run(const Box& box, CUmemcpySrcAccessOrder order, CUstream stream) {
  for (size_t z = 0; z < box.depth; ++z) {
    CopyRequest layer = box.rows;
    layer.to = static_cast<char*>(layer.to) + z * box.to_layer;
    layer.from = static_cast<const char*>(layer.from) + z * box.from_layer;
    // The copy of a pageable source happens, or is awaited, during the call. Any other source that
    // must be read now is staged: the program may write it when the call returns.
    Allocation found;
    std::vector<char> now;
    if (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && layer.from != nullptr &&
        layer.width > 0 && layer.height > 0 && TheEngine().FindMemory(layer.from, &found)) {
      const size_t extent = (layer.height - 1) * layer.from_pitch + layer.width;
      const uintptr_t offset = reinterpret_cast<uintptr_t>(layer.from) - found.base;
      if (extent > found.bytes - offset) return CUDA_ERROR_INVALID_VALUE;
      if (!IsCapturing(stream)) {
        const auto* const bytes = static_cast<const char*>(layer.from);
        now.assign(bytes, bytes + extent);
        layer.from = now.data();
      }
    }
    GORDIAN_EMU_CHECK(Result(TheEngine().Copy(layer, stream)));
  }
  return CUDA_SUCCESS;
}

CUresult CopyBatch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* bytes,
                   size_t count, const CUmemcpyAttributes* attributes, const size_t* starts,
                   size_t attribute_count, size_t* failed, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  GORDIAN_EMU_CHECK(CheckStreamOfBatch(stream));
  if (to == nullptr || from == nullptr || bytes == nullptr || count == 0 || attributes == nullptr ||
      starts == nullptr || attribute_count == 0 || attribute_count > count || starts[0] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < attribute_count; ++i) {
    if (starts[i] >= count || (i > 0 && starts[i] <= starts[i - 1])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    GORDIAN_EMU_CHECK(CheckOrder(attributes[i].srcAccessOrder, attributes[i].flags));
  }
  size_t of = 0;
  for (size_t i = 0; i < count; ++i) {
    if (of + 1 < attribute_count && starts[of + 1] == i) ++of;
    Box box;
    box.rows.to = Pointer(to[i]);
    box.rows.from = Pointer(from[i]);
    box.rows.width = bytes[i];
    box.rows.to_pitch = box.rows.from_pitch = bytes[i];
    const CUresult result = Run(box, attributes[of].srcAccessOrder, stream);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

// One side of a three-dimensional copy; 0 means tightly packed.
CUresult Layout(const CUmemcpy3DOperand& operand, const CUextent3D& extent, void** start,
                size_t* pitch, size_t* layer) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  const auto& at = operand.op.ptr;
  const size_t height = at.layerHeight == 0 ? extent.height : at.layerHeight;
  *start = Pointer(at.ptr);
  *pitch = at.rowLength == 0 ? extent.width : at.rowLength;
  *layer = *pitch * height;
  return *pitch < extent.width || height < extent.height ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult MakeBox(const CUDA_MEMCPY3D_BATCH_OP& operation, Box* box) {
  GORDIAN_EMU_CHECK(CheckOrder(operation.srcAccessOrder, operation.flags));
  const CUextent3D& extent = operation.extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_ERROR_INVALID_VALUE;
  void* from = nullptr;
  GORDIAN_EMU_CHECK(
      Layout(operation.dst, extent, &box->rows.to, &box->rows.to_pitch, &box->to_layer));
  GORDIAN_EMU_CHECK(Layout(operation.src, extent, &from, &box->rows.from_pitch, &box->from_layer));
  box->rows.from = from;
  box->rows.width = extent.width;
  box->rows.height = extent.height;
  box->depth = extent.depth;
  return CUDA_SUCCESS;
}

CUresult Copy3DBatch(size_t count, const CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                     unsigned long long flags, CUstream stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  GORDIAN_EMU_CHECK(CheckStreamOfBatch(stream));
  if (count == 0 || operations == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  // Checks all arguments before the first copy.
  std::vector<Box> boxes(count);
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = MakeBox(operations[i], &boxes[i]);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = Run(boxes[i], operations[i].srcAccessOrder, stream);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* starts,
                               size_t attribute_count, CUstream stream) {
  return CopyBatch(to, from, bytes, count, attributes, starts, attribute_count, nullptr, stream);
}
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                    CUmemcpyAttributes* attributes, size_t* starts,
                                    size_t attribute_count, CUstream stream) {
  return CopyBatch(to, from, bytes, count, attributes, starts, attribute_count, nullptr,
                   PerThread(stream));
}
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                                 unsigned long long flags, CUstream stream) {
  return Copy3DBatch(count, operations, nullptr, flags, stream);
}
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations,
                                      unsigned long long flags, CUstream stream) {
  return Copy3DBatch(count, operations, nullptr, flags, PerThread(stream));
}

// CUDA 12.8's forms, which report the failed copy.
CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* starts, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  return CopyBatch(to, from, bytes, count, attributes, starts, attribute_count, failed, stream);
}
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
                                 CUmemcpyAttributes* attributes, size_t* starts,
                                 size_t attribute_count, size_t* failed, CUstream stream) {
  return CopyBatch(to, from, bytes, count, attributes, starts, attribute_count, failed,
                   PerThread(stream));
}
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  return Copy3DBatch(count, operations, failed, flags, stream);
}
CUresult cuMemcpy3DBatchAsync_ptsz(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                                   unsigned long long flags, CUstream stream) {
  return Copy3DBatch(count, operations, failed, flags, PerThread(stream));
}

}  // extern "C"
