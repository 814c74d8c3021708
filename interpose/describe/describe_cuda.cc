#include "interpose/describe/describe_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/state/operation_order.h"

namespace gordian::interpose {

namespace {

// The operations that a host wait covers, as of now.
void Cover(ThreadContext& thread, ring::WaitKind kind, StreamState* stream, const void* event,
           int32_t device) {
  Behind& covered = thread.covered;
  covered.count = 0;
  switch (kind) {
    case ring::WaitKind::kStream:
    case ring::WaitKind::kCopy:
    case ring::WaitKind::kAsyncCopy:
      if (stream != nullptr) AddBehindStream(*thread.process, *stream, &covered);
      break;
    case ring::WaitKind::kEvent:
      AddBehindEvent(*thread.process, event, &covered);
      break;
    case ring::WaitKind::kDevice:
    case ring::WaitKind::kFree:
      AddBehindDevice(*thread.process, device, &covered);
      break;
    case ring::WaitKind::kOperation:
    case ring::WaitKind::kStore:
    case ring::WaitKind::kNoWait:
      break;
  }
}

// True for waits that by contract prove their covered work done when they return.
bool Proves(uint8_t wait) {
  const auto kind = static_cast<ring::WaitKind>(wait);
  return kind == ring::WaitKind::kStream || kind == ring::WaitKind::kEvent ||
         kind == ring::WaitKind::kDevice || kind == ring::WaitKind::kCopy;
}

}  // namespace

void BeginHostWait(ThreadContext& thread, CallId call, uint64_t site, ring::WaitKind kind,
                   StreamState* stream, const void* event, int32_t device) {
  EnsureWatcher(*thread.process);
  StopPolling(thread);
  if (device < 0) device = stream != nullptr ? stream->device : CurrentDevice(thread);
  const uint64_t ordinal =
      stream != nullptr ? Shared(stream->slot->enqueued).load(std::memory_order_relaxed) : 0;
  const uint64_t order = NextOrder(thread);
  const uint64_t ticks = ReadTicks(thread);
  EndKernelRuns(thread, order);
  if (ring::Record* record =
          StartRecord(thread, ring::RecordKind::kBegin, call, 0, order, ticks, site)) {
    record->payload.host_wait = {kind,
                                 stream != nullptr ? stream->id : ring::kNoId,
                                 device,
                                 0,
                                 reinterpret_cast<uint64_t>(event),
                                 ordinal};
    FinishRecord(thread);
  }
  Cover(thread, kind, stream, event, device);
  ring::CallArguments given = {};
  given.stream = stream != nullptr ? stream->id : ring::kNoId;
  given.wait = static_cast<uint8_t>(kind);
  given.device = device;
  EnterCall(thread, call, order, ticks, site, given, &thread.covered);
}

void EndHostWait(ThreadContext& thread, CallId call, uint64_t site, int result) {
  if (result == 0 && Proves(thread.slot->detail.arguments.wait))
    NoteSynced(*thread.process, thread.covered);
  const uint64_t order = NextOrder(thread);
  PublishEnd(thread, call, 0, order, ReadTicks(thread), site,
             {result, ring::kNoId, 0, ring::kNoId, 0, -1, -1});
  LeaveCall(thread);
}

void BeginKernelRun(ThreadContext& thread, CallId call, uint64_t site, StreamState& stream) {
  Process& process = *thread.process;
  if (__builtin_expect(process.active_captures.load(std::memory_order_relaxed) != 0, 0) &&
      IsCapturing(thread, stream)) {
    return;
  }
  // The mark before the order: a record that ends this run has a later order than this one.
  const uint64_t mark = process.non_kernel_mark.load(std::memory_order_relaxed);
  const uint64_t ordinal =
      Shared(stream.slot->enqueued).fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t order = NextOrder(thread);
  stream.run_mark.store(mark, std::memory_order_relaxed);
  if (ring::Record* record = StartRecord<GivesWay::kFirst>(thread, ring::RecordKind::kPoint, call,
                                                           0, order, RecentTicks(thread), site)) {
    record->payload.work = {stream.id, ring::WorkKind::kKernels, ordinal, 0, 0};
    FinishRecord(thread);
  }
}

void NoteStreamWork(ThreadContext& thread, CallId call, uint64_t site, ring::WorkKind kind,
                    StreamState* stream, const void* event) {
  StopPolling(thread);
  MarkGpuThread(thread);
  if (stream == nullptr) return;
  Process& process = *thread.process;
  if (__builtin_expect(process.active_captures.load(std::memory_order_relaxed) != 0, 0) &&
      IsCapturing(thread, *stream)) {
    if (kind == ring::WorkKind::kEventRecord) EventForgotten(process, event);
    if (kind == ring::WorkKind::kGraphLaunch) {  // becomes a node of the graph that is captured
      NoteGraphCall(thread, call, site, {ring::GraphCall::kNest, 0, 0, (uintptr_t)event, 0});
    }
    return;
  }
  uint64_t ordinal = 0;
  if (kind == ring::WorkKind::kEventRecord) {
    ordinal = Shared(stream->slot->enqueued).load(std::memory_order_relaxed);
    EventRecorded(process, event, *stream);
  } else {
    ordinal = Shared(stream->slot->enqueued).fetch_add(1, std::memory_order_relaxed) + 1;
    if (kind == ring::WorkKind::kEventWait) EventAwaited(process, event, *stream, ordinal);
  }
  const uint64_t order = NextOrder(thread);
  const uint64_t ticks = RecentTicks(thread);
  EndKernelRuns(thread, order);
  // The graph may hold NCCL operations, and no other record shows that.
  ring::Record* record =
      kind == ring::WorkKind::kGraphLaunch
          ? StartRecord(thread, ring::RecordKind::kPoint, call, 0, order, ticks, site)
          : StartRecord<GivesWay::kFirst>(thread, ring::RecordKind::kPoint, call, 0, order, ticks,
                                          site);
  if (record != nullptr) {
    record->payload.work = {stream->id, kind, ordinal, reinterpret_cast<uint64_t>(event), 0};
    FinishRecord(thread);
  }
  if (kind == ring::WorkKind::kGraphLaunch &&
      process.captured_operations.load(std::memory_order_relaxed) != 0) {
    MarkAfter(thread, *stream, ordinal);
    // After its number was taken: a reader of the count looks at events of this launch.
    process.graph_launches.fetch_add(1, std::memory_order_release);
  }
}

void NoteGraphCall(ThreadContext& thread, CallId call, uint64_t site,
                   const ring::GraphPayload& payload) {
  StopPolling(thread);
  if (ring::Record* record = StartRecord(thread, ring::RecordKind::kPoint, call, 0,
                                         NextOrder(thread), ReadTicks(thread), site)) {
    record->payload.graph = payload;
    FinishRecord(thread);
  }
}

void NoteEventForgotten(ThreadContext& thread, CallId call, uint64_t site, const void* event) {
  StopPolling(thread);
  const uint64_t handle = reinterpret_cast<uint64_t>(event);
  if (handle == 0) return;
  EventForgotten(*thread.process, event);
  if (ring::Record* record =
          StartRecord<GivesWay::kFirst>(thread, ring::RecordKind::kPoint, call, 0,
                                        NextOrder(thread), RecentTicks(thread), site)) {
    record->payload.work = {ring::kNoId, ring::WorkKind::kEventForgotten, 0, handle, 0};
    FinishRecord(thread);
  }
}

void NoteStreamCreated(ThreadContext& thread, CallId call, uint64_t site, const void* stream,
                       unsigned flags) {
  ErrnoKeeper keep_errno;
  StopPolling(thread);
  constexpr unsigned kNonBlocking = 1;  // cudaStreamNonBlocking and CU_STREAM_NON_BLOCKING
  AddStream(thread, reinterpret_cast<uint64_t>(stream), CurrentDevice(thread),
            (flags & kNonBlocking) != 0 ? 0 : uint32_t{ring::kStreamBlocking}, call, site);
}

void NoteStreamDestroyed(ThreadContext& thread, CallId call, uint64_t site, const void* stream) {
  StopPolling(thread);
  const uint32_t id = RemoveStream(thread, reinterpret_cast<uint64_t>(stream));
  if (id == ring::kNoId) return;
  if (ring::Record* record = StartRecord(thread, ring::RecordKind::kPoint, call, 0,
                                         NextOrder(thread), ReadTicks(thread), site)) {
    record->payload.stream = {id, 0, -1, 0, reinterpret_cast<uint64_t>(stream), 0};
    FinishRecord(thread);
  }
}

void NoteQuery(ThreadContext& thread, CallId call, const void* object, bool not_ready) {
  ring::ThreadSlot& slot = *thread.slot;
  const uint64_t handle = reinterpret_cast<uint64_t>(object);
  if (!not_ready) {
    StopPolling(thread);
    return;
  }
  EnsureWatcher(*thread.process);
  if (thread.polling && slot.poll_object == handle) {
    Put(slot.poll_count, slot.poll_count + 1);
    return;
  }
  thread.polling = true;
  Put(slot.poll_object, uint64_t{0});
  Put(slot.poll_count, uint64_t{1});
  Put(slot.poll_since_ticks, ReadTicks(thread));
  Put(slot.poll_call, uint32_t{call});
  // litmus: poll.object
  Shared(slot.poll_object).store(handle, std::memory_order_release);
}

bool IsDeviceToDevice(const void* to, const void* from) {
  ErrnoKeeper keep_errno;
  static constinit std::atomic<void*> cached = nullptr;
  void* found = cached.load(std::memory_order_relaxed);
  if (found == nullptr) {
    // Asks the driver, which exists as soon as anything was copied. A program may have no runtime
    // to ask, and the shim would then search its libraries at each copy.
    found = FindInLibrary(Library::kDriver, "cuPointerGetAttribute");
    if (found == nullptr) return false;
    cached.store(found, std::memory_order_relaxed);
  }
  const auto ask = reinterpret_cast<CUresult (*)(void*, CUpointer_attribute, CUdeviceptr)>(found);
  const auto on_device = [&](const void* pointer) {
    // Wide enough for whatever the driver stores: one of these is a boolean.
    uint64_t type = 0, managed = 0;
    const auto address = reinterpret_cast<CUdeviceptr>(pointer);
    return ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE &&
           ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS && managed == 0;
  };
  return on_device(to) && on_device(from);
}

}  // namespace gordian::interpose
