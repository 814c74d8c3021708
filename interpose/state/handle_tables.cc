#include "interpose/state/handle_tables.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>
#include <stdlib.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/state/number_slots.h"
#include "interpose/state/operation_order.h"
#include "interpose/state/ring_client.h"

namespace gordian::interpose {
namespace {

template <typename Function>
Function* Runtime(const char* name, std::atomic<void*>* cache) {
  void* found = cache->load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = FindInLibrary(Library::kRuntime, name);
    if (found != nullptr) cache->store(found, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(found);
}
std::atomic<void*> g_get_device;
std::atomic<void*> g_get_stream_flags;
std::atomic<void*> g_get_stream_device;

// Flags and device of a stream whose creation the shim did not see.
uint32_t LookAtStream(uint64_t handle, int32_t* device) {
  auto* stream = reinterpret_cast<cudaStream_t>(handle);
  if (auto* get =
          Runtime<cudaError_t(cudaStream_t, int*)>("cudaStreamGetDevice", &g_get_stream_device)) {
    int found = 0;
    if (get(stream, &found) == cudaSuccess) *device = found;
  }
  unsigned flags = 0;
  if (auto* get = Runtime<cudaError_t(cudaStream_t, unsigned*)>("cudaStreamGetFlags",
                                                                &g_get_stream_flags)) {
    if (get(stream, &flags) == cudaSuccess) {
      return (flags & cudaStreamNonBlocking) != 0 ? 0 : uint32_t{ring::kStreamBlocking};
    }
  }
  return ring::kStreamFlagsUnknown;
}

bool Drained(const StreamState& stream) {
  const MarkerQueue* queue = stream.markers.load(std::memory_order_acquire);
  if (queue == nullptr || queue->broken.load(std::memory_order_relaxed) != 0) return true;
  // The watcher has written to the stream's slot for the last time.
  // litmus: markers.drained
  const uint64_t tail = queue->tail.load(std::memory_order_acquire);
  return tail == queue->head.load(std::memory_order_relaxed);
}

// Index of a slot, under the stream lock: a fresh one, else one whose stream was destroyed and has
// nothing outstanding. Going round keeps the state of what was destroyed last readable the longest.
uint32_t TakeStreamSlot(Process& process) {
  const uint32_t used = process.streams_used.load(std::memory_order_relaxed);
  if (used < ring::kMaxStreams) return used;
  constexpr int kAttempts = 200;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    bool soon = false;  // some slot only waits for the watcher to look
    for (uint32_t i = 0; i < ring::kMaxStreams; ++i) {
      const uint32_t index = (process.stream_reuse_cursor + i) % ring::kMaxStreams;
      const StreamState& state = process.stream_states[index];
      if (state.key.load(std::memory_order_relaxed) != 0) continue;
      if (Drained(state)) {
        process.stream_reuse_cursor = index + 1;
        return index;
      }
      soon = true;
    }
    if (!soon) break;
    WakeWatcher(process);
    sched_yield();
  }
  return UINT32_MAX;
}

StreamState* InsertStream(Process& process, uint64_t key, uint64_t handle, int32_t device,
                          uint32_t flags) {
  ring::Header& header = *process.header;
  const uint32_t index = TakeStreamSlot(process);
  if (index == UINT32_MAX) {
    Add(header.lost_streams, uint64_t{1});
    return nullptr;
  }
  StreamState& state = process.stream_states[index];
  ring::StreamSlot& slot = process.streams[index];
  // The id is the stamp of the slot: a reader takes the rest only between two looks at the same one.
  Put(slot.stream, uint32_t{ring::kNoId});
  // litmus: stream.free
  std::atomic_thread_fence(std::memory_order_release);
  state.handle = handle;
  state.slot = &slot;
  state.id = ++process.next_stream_id;
  state.device = device;
  state.run_mark.store(0, std::memory_order_relaxed);
  state.deferred.store(0, std::memory_order_relaxed);
  state.driver_id.store(0, std::memory_order_relaxed);
  ForgetMarkers(state);
  ForgetOrder(state);
  Put(slot.flags, flags);
  Put(slot.device, device);
  Put(slot.handle, handle);
  Put(slot.enqueued, uint64_t{0});
  Put(slot.head, uint64_t{0});
  Put(slot.done, uint64_t{0});
  Put(slot.synced, uint64_t{0});
  // litmus: stream.own
  Shared(slot.stream).store(state.id, std::memory_order_release);
  // litmus: stream.key
  state.key.store(key, std::memory_order_release);
  // Last: from here on other threads find it, without a lock.
  // litmus: stream.tell
  if (!process.stream_table.Insert(key, index)) {
    state.key.store(0, std::memory_order_relaxed);
    Put(slot.stream, uint32_t{ring::kNoId});
    Add(header.lost_streams, uint64_t{1});
    return nullptr;
  }
  if (index == process.streams_used.load(std::memory_order_relaxed)) {
    process.streams_used.store(index + 1, std::memory_order_release);
    Shared(header.streams_used).store(index + 1, std::memory_order_release);
  }
  return &state;
}

StreamState* KnownStream(Process& process, uint64_t key) {
  const uint32_t index = process.stream_table.Find(key);
  return index < ring::kMaxStreams ? &process.stream_states[index] : nullptr;
}

StreamState* Cache(ThreadContext& thread, StreamState* stream) {
  (stream->handle > kPerThreadHandle ? thread.cached_stream : thread.cached_default) = stream;
  return stream;
}

}  // namespace

int32_t QueryDevice(ThreadContext& thread) {
  ErrnoKeeper keep_errno;
  int device = 0;
  if (auto* get = Runtime<cudaError_t(int*)>("cudaGetDevice", &g_get_device)) {
    if (get(&device) != cudaSuccess) return 0;
  } else {
    // A program with cudart inside it: only the driver knows.
    PrepareDriver(thread);
    if (!CurrentContextDevice(&device)) return 0;
  }
  thread.device = device;
  return device;
}

StreamState* FindOrAddStream(ThreadContext& thread, uint64_t handle, int32_t device) {
  ErrnoKeeper keep_errno;
  Process& process = *thread.process;
  const uint64_t key = StreamKey(thread, handle, device);
  if (StreamState* known = KnownStream(process, key)) return Cache(thread, known);
  uint32_t flags = 0;
  if (handle == kLegacyHandle) {
    flags = ring::kStreamLegacy | ring::kStreamBlocking;
  } else if (handle == kPerThreadHandle) {
    flags = ring::kStreamPerThread | ring::kStreamBlocking;
  } else {
    device = CurrentDevice(thread);
    flags = LookAtStream(handle, &device);
  }
  if (!process.stream_lock.Acquire()) {
    Add(process.header->lost_streams, uint64_t{1});
    return nullptr;
  }
  StreamState* stream = KnownStream(process, key);
  const bool fresh = stream == nullptr;
  if (fresh) stream = InsertStream(process, key, handle, device, flags);
  process.stream_lock.Release();
  if (stream == nullptr) return nullptr;
  if (fresh) PublishStream(thread, *stream, ring::kCall_cudaStreamCreateWithFlags, 0);
  return Cache(thread, stream);
}

StreamState* AddStream(ThreadContext& thread, uint64_t handle, int32_t device, uint32_t flags,
                       CallId call, uint64_t site) {
  if (handle <= kPerThreadHandle) return nullptr;
  Process& process = *thread.process;
  if (!process.stream_lock.Acquire()) {
    Add(process.header->lost_streams, uint64_t{1});
    return nullptr;
  }
  // Its destruction bypassed the shim, and another stream has the handle.
  if (StreamState* stale = KnownStream(process, handle)) {
    stale->key.store(0, std::memory_order_relaxed);
    process.stream_table.Erase(handle);
  }
  StreamState* stream = InsertStream(process, handle, handle, device, flags);
  process.stream_lock.Release();
  if (stream != nullptr) PublishStream(thread, *Cache(thread, stream), call, site);
  return stream;
}

uint32_t RemoveStream(ThreadContext& thread, uint64_t handle) {
  Process& process = *thread.process;
  if (handle <= kPerThreadHandle || !process.stream_lock.Acquire()) return ring::kNoId;
  uint32_t id = ring::kNoId;
  if (StreamState* stream = KnownStream(process, handle)) {
    id = stream->id;
    stream->key.store(0, std::memory_order_relaxed);
    process.stream_table.Erase(handle);
  }
  process.stream_lock.Release();
  return id;
}

void ForgetPerThreadStreams(Process& process, uint32_t thread_index) {
  if (!process.stream_lock.Acquire()) return;
  const uint32_t used = process.streams_used.load(std::memory_order_relaxed);
  const uint64_t mask = uint64_t{1} << 63 | uint64_t{3} << 56 | uint64_t{0xffff} << 40;
  const uint64_t wanted = uint64_t{1} << 63 | kPerThreadHandle << 56 | uint64_t{thread_index} << 40;
  for (uint32_t i = 0; i < used; ++i) {
    const uint64_t key = process.stream_states[i].key.load(std::memory_order_relaxed);
    if ((key & mask) != wanted) continue;
    process.stream_states[i].key.store(0, std::memory_order_relaxed);
    process.stream_table.Erase(key);
  }
  process.stream_lock.Release();
}

// The number of hardware queues that the device's streams share; 0: the driver's choice.
uint32_t Connections() {
  const char* text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  uint32_t value = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9' && value < 1000; ++text) {
    value = 10 * value + static_cast<uint32_t>(*text - '0');
  }
  return value;
}

void PublishStream(ThreadContext& thread, const StreamState& stream, CallId call, uint64_t site) {
  const uint64_t order = NextOrder(thread);
  ring::Record* record =
      StartRecord(thread, ring::RecordKind::kPoint, call, 0, order, ReadTicks(thread), site);
  if (record == nullptr) return;
  record->payload.stream = {
      stream.id,     Shared(stream.slot->flags).load(std::memory_order_relaxed),
      stream.device, Connections(),
      stream.handle, 0};
  FinishRecord(thread);
}

namespace {

uint32_t TakeCommSlot(Process& process) {
  const uint32_t used = process.comms_used.load(std::memory_order_relaxed);
  if (used < ring::kMaxComms) return used;
  for (uint32_t i = 0; i < ring::kMaxComms; ++i) {
    const uint32_t index = (process.comm_reuse_cursor + i) % ring::kMaxComms;
    CommState& state = process.comm_states[index];
    // litmus: comm.unused
    const bool in_use = state.in_use.load(std::memory_order_acquire) != 0;
    const ring::CommState now = GetCommState(state);
    if (!in_use || (state.handle.load(std::memory_order_relaxed) == 0 &&
                    (now == ring::CommState::kDestroyed || now == ring::CommState::kFailed ||
                     now == ring::CommState::kAborted))) {
      process.comm_reuse_cursor = index + 1;
      return index;
    }
  }
  return UINT32_MAX;
}

struct Question {
  const char* name;
  const char* otherwise;  // the application's form, for an NCCL without the tools' one
};
constexpr Question kQuestions[] = {{"pncclCommCount", "ncclCommCount"},
                                   {"pncclCommUserRank", "ncclCommUserRank"},
                                   {"pncclCommCuDevice", "ncclCommCuDevice"}};

// A communicator made out of the shim's sight: asks NCCL about it.
void LookAtComm(ThreadContext& thread, CommState& comm, uint64_t handle) {
  int32_t nranks = 0;
  int32_t rank = -1;
  AskNccl(CommQuestion::kCount, handle, &nranks);
  AskNccl(CommQuestion::kRank, handle, &rank);
  AskNccl(CommQuestion::kDevice, handle, &comm.device);
  Put(comm.slot->device, comm.device);
  SizeComm(*thread.process, comm, nranks, rank);
}

CommState* KnownComm(Process& process, uint64_t handle) {
  const uint32_t index = process.comm_table.Find(handle);
  return index < ring::kMaxComms ? &process.comm_states[index] : nullptr;
}

}  // namespace

CommState* FindOrAddComm(ThreadContext& thread, uint64_t handle) {
  ErrnoKeeper keep_errno;
  Process& process = *thread.process;
  CommState* comm = KnownComm(process, handle);
  if (comm == nullptr) {
    comm = AddComm(process, 0, ring::kNoId, 0, -1, CurrentDevice(thread));
    if (comm == nullptr) return nullptr;
    BindComm(process, *comm, handle);
    LookAtComm(thread, *comm, handle);
    SetCommState(*comm, ring::CommState::kReady);
  }
  thread.cached_comm = comm;
  return comm;
}

CommState* AddComm(Process& process, uint64_t uid, uint32_t parent, int32_t nranks, int32_t rank,
                   int32_t device) {
  ring::Header& header = *process.header;
  if (!process.comm_lock.Acquire()) {
    Add(header.lost_comms, uint64_t{1});
    return nullptr;
  }
  const uint32_t index = TakeCommSlot(process);
  if (index == UINT32_MAX) {
    process.comm_lock.Release();
    Add(header.lost_comms, uint64_t{1});
    return nullptr;
  }
  CommState& comm = process.comm_states[index];
  ring::CommSlot& slot = process.comms[index];
  // As in a stream's slot.
  Put(slot.comm, uint32_t{ring::kNoId});
  // litmus: comm.free
  std::atomic_thread_fence(std::memory_order_release);
  comm.in_use.store(1, std::memory_order_relaxed);
  comm.handle.store(0, std::memory_order_relaxed);
  comm.slot = &slot;
  comm.id = ++process.next_comm_id;
  comm.device = device;
  comm.uid = uid;
  comm.next_sequence.store(0, std::memory_order_relaxed);
  comm.child_calls.store(0, std::memory_order_relaxed);
  comm.torch_group = ring::kNoId;
  comm.flags = 0;
  comm.deferred_count.store(0, std::memory_order_relaxed);
  comm.nranks = 0;
  comm.rank = -1;
  Put(slot.device, device);
  Put(slot.uid, uid);
  Put(slot.other_uid, uint64_t{0});
  Put(slot.handle, uint64_t{0});
  Put(slot.next_sequence, uint64_t{0});
  Put(slot.parent, parent);
  Put(slot.state, ring::CommState::kIniting);
  for (char& letter : slot.name) Put(letter, '\0');
  comm.numbers = ClaimNumbers(process, comm, ring::NumberKind::kCollective, -1);
  SizeComm(process, comm, nranks, rank);
  // litmus: comm.own
  Shared(slot.comm).store(comm.id, std::memory_order_release);
  if (index == process.comms_used.load(std::memory_order_relaxed)) {
    process.comms_used.store(index + 1, std::memory_order_release);
    Shared(header.comms_used).store(index + 1, std::memory_order_release);
  }
  process.comm_lock.Release();
  return &comm;
}

void BindComm(Process& process, CommState& comm, uint64_t handle) {
  if (handle == 0) return;
  if (!process.comm_lock.Acquire()) {
    Add(process.header->lost_comms, uint64_t{1});
    return;
  }
  const auto index = static_cast<uint32_t>(&comm - process.comm_states);
  if (CommState* stale = KnownComm(process, handle)) {
    stale->handle.store(0, std::memory_order_relaxed);  // freed by a call that bypassed the shim
    process.comm_table.Erase(handle);  // its entry may stand behind the one that is used now
  }
  process.comm_table.Insert(handle, index);
  comm.handle.store(handle, std::memory_order_release);
  Put(comm.slot->handle, handle);
  process.comm_lock.Release();
}

void UnbindComm(Process& process, CommState& comm) {
  const uint64_t handle = comm.handle.load(std::memory_order_relaxed);
  if (handle == 0 || !process.comm_lock.Acquire()) return;
  process.comm_table.Erase(handle);
  comm.handle.store(0, std::memory_order_relaxed);
  process.comm_lock.Release();
}

void ReleaseComm(Process& process, CommState& comm) {
  UnbindComm(process, comm);
  // litmus: comm.release
  Shared(comm.slot->comm).store(ring::kNoId, std::memory_order_release);
  // litmus: comm.give_back
  comm.in_use.store(0, std::memory_order_release);
}

void SizeComm(Process& process, CommState& comm, int32_t nranks, int32_t rank) {
  if (nranks > comm.p2p_capacity) {
    const size_t bytes = 2 * static_cast<size_t>(nranks) * sizeof(PairNumbers);
    comm.p2p = static_cast<PairNumbers*>(ArenaAllocate(process, bytes));
    comm.p2p_capacity = comm.p2p != nullptr ? nranks : 0;
  } else if (comm.nranks == 0) {
    for (int32_t i = 0; i < 2 * nranks; ++i) {
      comm.p2p[i].next.store(0, std::memory_order_relaxed);
      comm.p2p[i].slot = nullptr;
    }
  }
  comm.nranks = nranks;
  comm.rank = rank;
  Put(comm.slot->nranks, nranks);
  Put(comm.slot->rank, rank);
}

bool AskNccl(CommQuestion question, uint64_t handle, int32_t* value) {
  const Question& asked = kQuestions[static_cast<uint32_t>(question)];
  // Asks the copy of NCCL that this thread's call went to: the communicator belongs to it.
  void* found = FindBeside(t_local.nccl, asked.name);
  if (found == nullptr) found = FindBeside(t_local.nccl, asked.otherwise);
  if (found == nullptr) return false;
  int answer = 0;
  const auto ask = reinterpret_cast<ncclResult_t (*)(ncclComm_t, int*)>(found);
  if (ask(reinterpret_cast<ncclComm_t>(handle), &answer) != ncclSuccess) return false;
  *value = answer;
  return true;
}

void SetCommState(CommState& comm, ring::CommState state) {
  // litmus: comm.state
  Shared(comm.slot->state).store(state, std::memory_order_release);
}

ring::CommState GetCommState(const CommState& comm) {
  // litmus: comm.is_over
  return Shared(comm.slot->state).load(std::memory_order_acquire);
}

}  // namespace gordian::interpose
