// Streams of the C API: what else is on them, and our own ones.
#include "runtime/api/handles.h"
#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/cpu/streams/stream_order.h"
#include "runtime/include/gordian/runtime_front.h"

using gordian::runtime::Guarded;
using gordian::runtime::OwnStreams;
using gordian::runtime::StreamOrder;
using gordian::runtime::TheDriver;
using gordian::runtime::TheOwnStreams;

grtResult_t grtStreamExclusive(cudaStream_t stream, int exclusive) {
  return Guarded([&] {
    StreamOrder::Get().Declare(stream, exclusive != 0, false, &TheDriver());
    return grtSuccess;
  });
}

grtResult_t grtStreamForeign(cudaStream_t stream) {
  return Guarded([&] {
    StreamOrder::Get().Foreign(stream);
    return grtSuccess;
  });
}

grtResult_t grtStreamForeignAll(void) {
  return Guarded([] {
    StreamOrder::Get().ForeignAll();
    return grtSuccess;
  });
}

namespace {

// A front reports all work on CUDA's streams, so operations on them may begin early: the stream is
// declared exclusive. Not so CUDA's default streams: they also carry work that no front sees.
void Follow(cudaStream_t stream) {
  constexpr uintptr_t kDefaultStreams = 2;  // 0, cudaStreamLegacy, cudaStreamPerThread
  if (TheOwnStreams() == nullptr && reinterpret_cast<uintptr_t>(stream) > kDefaultStreams) {
    StreamOrder::Get().Declare(stream, true, false, &TheDriver());
  }
}

}  // namespace

grtResult_t grtEventRecorded(const void* event, cudaStream_t stream) {
  return Guarded([&] {
    if (TheDriver().IsCapturing(stream)) {
      StreamOrder::Get().Forgotten(event);  // the capture's, until it is recorded again
      return grtSuccess;
    }
    Follow(stream);
    StreamOrder::Get().Recorded(event, stream, &TheDriver());
    return grtSuccess;
  });
}

grtResult_t grtEventAwaited(const void* event, cudaStream_t stream) {
  return Guarded([&] {
    if (TheDriver().IsCapturing(stream)) return grtSuccess;  // the wait is the graph's
    Follow(stream);
    StreamOrder::Get().Awaited(event, stream, &TheDriver());
    return grtSuccess;
  });
}

grtResult_t grtEventForgotten(const void* event) {
  return Guarded([&] {
    StreamOrder::Get().Forgotten(event);
    return grtSuccess;
  });
}

// What a thread does between the two halves of a report makes no difference here.
grtResult_t grtFrontRecording(const void* event, cudaStream_t stream) {
  return grtEventRecorded(event, stream);
}
grtResult_t grtFrontRecorded(const void*, cudaStream_t, int) { return grtSuccess; }
grtResult_t grtFrontAwaiting(const void* event, cudaStream_t stream) {
  return grtEventAwaited(event, stream);
}
grtResult_t grtFrontAwaited(const void*, cudaStream_t, int) { return grtSuccess; }
// An event of no known record: who waits for it waits for other work.
grtResult_t grtFrontEventShared(const void* event) { return grtEventForgotten(event); }
grtResult_t grtFrontUnseenRecords(int) { return grtSuccess; }

grtResult_t grtStreamGone(cudaStream_t stream) {
  return Guarded([&] {
    StreamOrder::Get().Forget(stream);
    return grtSuccess;
  });
}

grtResult_t grtStreamCreate(cudaStream_t* stream) {
  if (stream == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    OwnStreams* own = TheOwnStreams();
    if (own == nullptr) return grtNotSupported;
    const grtResult_t result = own->Create(stream);
    if (result == grtSuccess) StreamOrder::Get().Declare(*stream, true, true);
    return result;
  });
}

grtResult_t grtStreamLaunch(cudaStream_t stream, void (*fn)(void*), void* user) {
  if (fn == nullptr) return grtInvalidArgument;
  return Guarded([&] {
    OwnStreams* own = TheOwnStreams();
    if (own == nullptr) return grtNotSupported;
    StreamOrder::Get().Foreign(stream);
    return own->Launch(stream, [fn, user] { fn(user); });
  });
}

grtResult_t grtStreamSynchronize(cudaStream_t stream, uint64_t timeout_ns) {
  return Guarded([&] {
    OwnStreams* own = TheOwnStreams();
    return own == nullptr ? grtNotSupported : own->Synchronize(stream, timeout_ns);
  });
}

grtResult_t grtStreamDestroy(cudaStream_t stream) {
  return Guarded([&] {
    OwnStreams* own = TheOwnStreams();
    if (own == nullptr) return grtNotSupported;
    const grtResult_t result = own->Destroy(stream);
    if (result == grtSuccess) StreamOrder::Get().Forget(stream);
    return result;
  });
}
