// Stream-ordered writes of, and waits for, values in memory.
#include <vector>

#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult Write(CUstream stream, CUdeviceptr address, uint64_t value, size_t bytes, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if ((flags & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ValueRequest request;
  request.address = Pointer(address);
  request.value = value;
  request.bytes = bytes;
  request.barrier = (flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == 0;
  return Result(TheEngine().WriteValue(request, stream));
}

CUresult Wait(CUstream stream, CUdeviceptr address, uint64_t value, size_t bytes, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  // CU_STREAM_WAIT_VALUE_FLUSH has no effect here: remote writes are visible at once.
  const unsigned condition = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  if (condition > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  ValueRequest request;
  request.address = Pointer(address);
  request.value = value;
  request.bytes = bytes;
  request.condition = static_cast<ValueCondition>(condition);
  return Result(TheEngine().WaitValue(request, stream));
}

bool ValidOperation(const CUstreamBatchMemOpParams& operation) {
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags) {
  return Write(stream, address, value, 4, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags) {
  return Write(stream, address, value, 8, flags);
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags) {
  return Wait(stream, address, value, 4, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags) {
  return Wait(stream, address, value, 8, flags);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams* operations, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  constexpr unsigned kMost = 256;
  if (operations == nullptr || count > kMost || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (!ValidOperation(operations[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& each = operations[i];
    const auto& wait = each.waitValue;
    const auto& write = each.writeValue;
    CUresult result = CUDA_SUCCESS;
    switch (each.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result = Wait(stream, wait.address, wait.value, 4, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result = Wait(stream, wait.address, wait.value64, 8, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = Write(stream, write.address, write.value, 4, write.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = Write(stream, write.address, write.value64, 8, write.flags);
        break;
      default:  // a barrier or a flush: both only ask for stream order
        break;
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
