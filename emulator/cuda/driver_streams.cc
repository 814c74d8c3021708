// Streams and events. Callers with per-thread default streams get the functions whose names end in
// _ptsz: there stream 0 is the calling thread's own.
#include "emulator/cuda/graphs/driver_graph_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult Describe(CUstream stream, StreamInfo* info) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(TheEngine().DescribeStream(stream, info));
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result = Result(TheEngine().CreateStream(flags, priority, &made));
  if (result == CUDA_SUCCESS) *stream = static_cast<CUstream>(made);
  return result;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().DestroyStream(stream));
}

CUresult cuStreamSynchronize(CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(TheEngine().SynchronizeStream(stream));
}

CUresult cuStreamQuery(CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(TheEngine().QueryStream(stream));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  int captured = kSuccess;
  if (flags == CU_EVENT_WAIT_EXTERNAL && Graphs().CaptureExternalWait(stream, event, &captured)) {
    return Result(captured);
  }
  return Result(TheEngine().WaitEvent(stream, event));
}

CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = info.flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = info.priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = info.id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = static_cast<CUcontext>(TheEngine().PrimaryContext(info.device));
  return CUDA_SUCCESS;
}

// No stream belongs to a green context.
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  GORDIAN_EMU_CHECK(cuStreamGetCtx(stream, context));
  if (green != nullptr) *green = nullptr;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = info.device;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckContext());
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result = Result(TheEngine().CreateEvent(flags, &made));
  if (result == CUDA_SUCCESS) *event = static_cast<CUevent>(made);
  return result;
}

CUresult cuEventDestroy_v2(CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().DestroyEvent(event));
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  return Result(TheEngine().RecordEvent(event, stream));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  GORDIAN_EMU_CHECK(CheckStream(stream));
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  int captured = kSuccess;
  if (flags == CU_EVENT_RECORD_EXTERNAL &&
      Graphs().CaptureExternalRecord(event, stream, &captured)) {
    return Result(captured);
  }
  return cuEventRecord(event, stream);
}

CUresult cuEventQuery(CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().QueryEvent(event));
}

CUresult cuEventSynchronize(CUevent event) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().SynchronizeEvent(event));
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return Result(TheEngine().ElapsedTime(start, end, milliseconds));
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return cuStreamSynchronize(PerThread(stream));
}
CUresult cuStreamQuery_ptsz(CUstream stream) { return cuStreamQuery(PerThread(stream)); }
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags) {
  return cuStreamWaitEvent(PerThread(stream), event, flags);
}
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned* flags) {
  return cuStreamGetFlags(PerThread(stream), flags);
}
CUresult cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
  return cuStreamGetPriority(PerThread(stream), priority);
}
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
  return cuStreamGetId(PerThread(stream), id);
}
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
  return cuStreamGetCtx(PerThread(stream), context);
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  return cuStreamGetCtx_v2(PerThread(stream), context, green);
}
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
  return cuStreamGetDevice(PerThread(stream), device);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return cuEventRecord(event, PerThread(stream));
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
  return cuEventRecordWithFlags(event, PerThread(stream), flags);
}

}  // extern "C"
