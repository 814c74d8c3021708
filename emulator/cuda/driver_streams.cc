// Streams and events. A function whose name ends in _ptsz is what a caller with per-thread default
// streams gets: stream 0 is the calling thread's own.
#include <cstdio>

#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

CUresult NotEmulated(const char* call) {
  fprintf(stderr, "gordian emulator: %s: CUDA graphs are not emulated\n", call);
  return CUDA_ERROR_NOT_SUPPORTED;
}

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
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
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

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = info.device;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  StreamInfo info;
  GORDIAN_EMU_CHECK(Describe(stream, &info));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** edges, size_t* count) {
  GORDIAN_EMU_CHECK(cuStreamIsCapturing(stream, status));
  if (id != nullptr) *id = 0;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return NotEmulated("cuStreamBeginCapture");
}

CUresult cuStreamEndCapture(CUstream, CUgraph*) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  return NotEmulated("cuStreamEndCapture");
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  GORDIAN_EMU_CHECK(CheckInitialized());
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const CUstreamCaptureMode before = current;
  current = *mode;
  *mode = before;
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
  return flags > 1 ? CUDA_ERROR_INVALID_VALUE : cuEventRecord(event, stream);
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
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
  return cuStreamGetDevice(PerThread(stream), device);
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(PerThread(stream), status);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus* status,
                                        cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies,
                                        const CUgraphEdgeData** edges, size_t* count) {
  return cuStreamGetCaptureInfo_v3(PerThread(stream), status, id, graph, dependencies, edges,
                                   count);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(PerThread(stream), mode);
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return cuStreamEndCapture(PerThread(stream), graph);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return cuEventRecord(event, PerThread(stream));
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
  return cuEventRecordWithFlags(event, PerThread(stream), flags);
}

}  // extern "C"
