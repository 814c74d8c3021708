// Streams and events.
#include "emulator/cudart/runtime_common.h"
#include "emulator/engine/graph/graph_api.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

cudaError_t Describe(cudaStream_t stream, StreamInfo* info) {
  return static_cast<cudaError_t>(TheEngine().DescribeStream(stream, info));
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr) return Return(cudaErrorInvalidValue);
  void* made = nullptr;
  const int status = TheEngine().CreateStream(flags, priority, &made);
  if (status == kSuccess) *stream = static_cast<cudaStream_t>(made);
  return Return(status);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Return(TheEngine().DestroyStream(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Return(TheEngine().SynchronizeStream(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return Return(TheEngine().QueryStream(stream)); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags > cudaEventWaitExternal) return Return(cudaErrorInvalidValue);
  int captured = kSuccess;
  if (flags == cudaEventWaitExternal &&
      TheEngine().Graphs().CaptureExternalWait(stream, event, &captured)) {
    return Return(captured);
  }
  return Return(TheEngine().WaitEvent(stream, event));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  StreamInfo info;
  const cudaError_t error = Describe(stream, &info);
  if (error == cudaSuccess && flags == nullptr) return Return(cudaErrorInvalidValue);
  if (error == cudaSuccess) *flags = info.flags;
  return Return(error);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  StreamInfo info;
  const cudaError_t error = Describe(stream, &info);
  if (error == cudaSuccess && priority == nullptr) return Return(cudaErrorInvalidValue);
  if (error == cudaSuccess) *priority = info.priority;
  return Return(error);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  StreamInfo info;
  const cudaError_t error = Describe(stream, &info);
  if (error == cudaSuccess && id == nullptr) return Return(cudaErrorInvalidValue);
  if (error == cudaSuccess) *id = info.id;
  return Return(error);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  StreamInfo info;
  const cudaError_t error = Describe(stream, &info);
  if (error == cudaSuccess && device == nullptr) return Return(cudaErrorInvalidValue);
  if (error == cudaSuccess) *device = info.device;
  return Return(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return Return(cudaErrorInvalidValue);
  void* made = nullptr;
  const int status = TheEngine().CreateEvent(flags, &made);
  if (status == kSuccess) *event = static_cast<cudaEvent_t>(made);
  return Return(status);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { return Return(TheEngine().DestroyEvent(event)); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Return(TheEngine().RecordEvent(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags > cudaEventRecordExternal) return Return(cudaErrorInvalidValue);
  int captured = kSuccess;
  if (flags == cudaEventRecordExternal &&
      TheEngine().Graphs().CaptureExternalRecord(event, stream, &captured)) {
    return Return(captured);
  }
  return Return(TheEngine().RecordEvent(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return Return(TheEngine().QueryEvent(event)); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Return(TheEngine().SynchronizeEvent(event));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Return(TheEngine().ElapsedTime(start, end, milliseconds));
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return cudaStreamSynchronize(PerThread(stream));
}
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) { return cudaStreamQuery(PerThread(stream)); }
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return cudaStreamWaitEvent(PerThread(stream), event, flags);
}
cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned* flags) {
  return cudaStreamGetFlags(PerThread(stream), flags);
}
cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int* priority) {
  return cudaStreamGetPriority(PerThread(stream), priority);
}
cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* id) {
  return cudaStreamGetId(PerThread(stream), id);
}
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int* device) {
  return cudaStreamGetDevice(PerThread(stream), device);
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, PerThread(stream));
}
cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return cudaEventRecordWithFlags(event, PerThread(stream), flags);
}

}  // extern "C"
