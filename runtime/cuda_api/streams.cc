// What else is on CUDA's streams, as the program or the shim reports it.
//
// A list of what follows on a stream exists for exclusive streams alone
// (runtime/cuda/list/help_stream.h). An event that was recorded on one of those, with nothing but
// operations before it, is a point of that stream's list: help reaches what stands behind a wait
// for it. Any other event that an exclusive stream waits for counts as foreign work.
#include <map>
#include <mutex>

#include "runtime/cuda/driver/cuda_calls.h"
#include "runtime/cuda_api/deferred.h"
#include "runtime/cuda_api/handles.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime::cuda {
namespace {

// Where an event was recorded last.
struct Event {
  cudaStream_t stream = nullptr;
  Process* process = nullptr;  // of the stream's device
  bool has_point = false;
  PointOfList point;
  bool is_shared = false;  // with other processes, which may record it
  // Records that have begun and not ended. While there are several, none of them is known to be the
  // last.
  uint32_t recording = 0;
  bool overlaps = false;
  uint64_t version = 0;  // another one with each change, and with each event of this handle
};
struct Events {
  std::mutex mutex;
  uint64_t versions = 0;
  std::map<const void*, Event> all;
  uint32_t unseen = 0;      // calls in progress that may record any event
  uint64_t known_from = 0;  // such a call may have recorded events of older versions
};
Events& TheEvents() {
  static Events* events = new Events;  // threads outlive main
  return *events;
}

// The wait that this thread is about to make, from WaitBegins to WaitEnds.
struct Waiting {
  Process* process = nullptr;  // null: of no interest
  const void* event = nullptr;
  cudaStream_t stream = nullptr;
  PointOfList point;
  uint64_t version = 0;
};
thread_local Waiting t_waiting;

void RecordBegins(const void* handle, cudaStream_t stream) {
  Process* const process = Process::Of(stream);
  PointOfList point;
  bool has_point = process != nullptr && process->domain().Here(stream, &point);
  bool captured = false;
  if (has_point) {
    const RelaxedCapture relaxed;
    has_point = IsCaptured(stream, &captured) == cudaSuccess && !captured;
  }
  Events& events = TheEvents();
  const std::lock_guard<std::mutex> lock(events.mutex);
  Event& event = events.all[handle];
  event.stream = stream;
  event.process = process;
  event.has_point = has_point;
  if (has_point) event.point = point;
  event.overlaps = event.overlaps || event.recording != 0;
  ++event.recording;
  event.version = ++events.versions;
}

void RecordEnds(const void* handle, bool well) {
  Events& events = TheEvents();
  const std::lock_guard<std::mutex> lock(events.mutex);
  const auto at = events.all.find(handle);
  if (at == events.all.end() || at->second.recording == 0) return;
  Event& event = at->second;
  --event.recording;
  if (!well || event.overlaps) {
    event.stream = nullptr;
    event.process = nullptr;
    event.has_point = false;
  }
  if (event.recording == 0) event.overlaps = false;
  event.version = ++events.versions;
}

grtResult_t WaitBegins(const void* handle, cudaStream_t stream) {
  t_waiting.process = nullptr;
  Process* const process = Process::Of(stream);
  if (process == nullptr) return grtSuccess;
  Waiting waiting;
  {
    Events& events = TheEvents();
    const std::lock_guard<std::mutex> lock(events.mutex);
    const auto at = events.all.find(handle);
    if (at == events.all.end() || at->second.recording != 0 || at->second.is_shared ||
        events.unseen != 0 || at->second.version < events.known_from)
      return grtStreamForeign(stream);
    const Event& event = at->second;
    // The stream's own past: it waits for that anyhow.
    if (event.process == process && event.stream == stream) return grtSuccess;
    if (!event.has_point || event.process != process) return grtStreamForeign(stream);
    waiting = {process, handle, stream, event.point, event.version};
  }
  const RelaxedCapture relaxed;
  const OnDevice on(process->device());
  bool captured = false;
  if (IsCaptured(stream, &captured) != cudaSuccess || captured) return grtStreamForeign(stream);
  if (IsThrough(cudaEventQuery(static_cast<cudaEvent_t>(const_cast<void*>(handle)))))
    return grtSuccess;
  bool waits = false;
  if (!process->domain().BeforeWait(stream, waiting.point, &waits).ok()) {
    process->domain().Foreign(stream);
    return grtUnhandledCudaError;
  }
  if (waits) t_waiting = waiting;
  return grtSuccess;
}

void WaitEnds(const void* handle, cudaStream_t stream, bool well) {
  const Waiting waiting = t_waiting;
  t_waiting.process = nullptr;
  if (waiting.process == nullptr || waiting.event != handle || waiting.stream != stream || !well)
    return;
  bool is_same = false;
  {
    Events& events = TheEvents();
    const std::lock_guard<std::mutex> lock(events.mutex);
    const auto at = events.all.find(handle);
    is_same = at != events.all.end() && at->second.version == waiting.version &&
              events.unseen == 0 && waiting.version >= events.known_from;
  }
  // Else another thread may have recorded the event, or launched what does, before the wait was
  // made.
  if (is_same) {
    waiting.process->domain().AfterWait(stream, waiting.point);
  } else {
    waiting.process->domain().Foreign(stream);
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtStreamExclusive(cudaStream_t stream, int exclusive) {
  return Guarded([&] {
    Process* process = Process::Of(stream);
    if (process == nullptr) return grtInvalidUsage;  // its device is not in use yet
    const OnDevice on(process->device());
    // If there are more streams than lists, this one's operations never begin early; the result is
    // still correct, and the caller learns it.
    return process->domain().SetExclusive(stream, exclusive != 0).ok() ? grtSuccess
                                                                       : grtNotSupported;
  });
}

grtResult_t grtStreamForeign(cudaStream_t stream) {
  return Guarded([&] {
    if (Process* process = Process::Of(stream)) process->domain().Foreign(stream);
    return grtSuccess;
  });
}

grtResult_t grtStreamForeignAll(void) {
  return Guarded([] {
    for (Process* process : Process::All()) process->domain().ForeignAll();
    return grtSuccess;
  });
}

grtResult_t grtStreamGone(cudaStream_t stream) {
  return Guarded([&]() -> grtResult_t {
    Process* process = Process::Of(stream);
    if (process == nullptr) return grtSuccess;
    const OnDevice on(process->device());
    process->Forget(stream);
    Deferred::Get().Forget(process, stream);
    return process->domain().Forget(stream).ok() ? grtSuccess : grtUnhandledCudaError;
  });
}

grtResult_t grtFrontRecording(const void* event, cudaStream_t stream) {
  return Guarded([&] {
    RecordBegins(event, stream);
    return grtSuccess;
  });
}

grtResult_t grtFrontRecorded(const void* event, cudaStream_t, int well) {
  return Guarded([&] {
    RecordEnds(event, well != 0);
    return grtSuccess;
  });
}

grtResult_t grtFrontAwaiting(const void* event, cudaStream_t stream) {
  return Guarded([&] { return WaitBegins(event, stream); });
}

grtResult_t grtFrontAwaited(const void* event, cudaStream_t stream, int well) {
  return Guarded([&] {
    WaitEnds(event, stream, well != 0);
    return grtSuccess;
  });
}

grtResult_t grtFrontEventShared(const void* event) {
  return Guarded([&] {
    Events& events = TheEvents();
    const std::lock_guard<std::mutex> lock(events.mutex);
    Event& shared = events.all[event];
    shared.is_shared = true;
    shared.version = ++events.versions;
    return grtSuccess;
  });
}

grtResult_t grtFrontUnseenRecords(int begins) {
  return Guarded([&] {
    Events& events = TheEvents();
    const std::lock_guard<std::mutex> lock(events.mutex);
    events.unseen += begins != 0 ? 1 : -1;
    events.known_from = ++events.versions;
    return grtSuccess;
  });
}

grtResult_t grtEventRecorded(const void* event, cudaStream_t stream) {
  return Guarded([&] {
    RecordBegins(event, stream);
    RecordEnds(event, true);
    return grtSuccess;
  });
}

grtResult_t grtEventAwaited(const void* event, cudaStream_t stream) {
  return Guarded([&] {
    const grtResult_t result = WaitBegins(event, stream);
    WaitEnds(event, stream, true);
    return result;
  });
}

grtResult_t grtEventForgotten(const void* event) {
  return Guarded([&] {
    const std::lock_guard<std::mutex> lock(TheEvents().mutex);
    TheEvents().all.erase(event);
    return grtSuccess;
  });
}

// Streams are CUDA's here.
grtResult_t grtStreamCreate(cudaStream_t*) { return grtNotSupported; }
grtResult_t grtStreamLaunch(cudaStream_t, void (*)(void*), void*) { return grtNotSupported; }
grtResult_t grtStreamSynchronize(cudaStream_t, uint64_t) { return grtNotSupported; }
grtResult_t grtStreamDestroy(cudaStream_t) { return grtNotSupported; }
