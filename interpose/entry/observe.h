// From a row of the table to the functions that describe its call: what a row is about follows from
// its effect and the types of its arguments, all at compile time. A row that no rule here fits does
// not compile.
#ifndef GORDIAN_INTERPOSE_ENTRY_OBSERVE_H_
#define GORDIAN_INTERPOSE_ENTRY_OBSERVE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <type_traits>

#include "interpose/describe/copy_kinds.h"
#include "interpose/describe/describe_cuda.h"
#include "interpose/describe/describe_memory.h"
#include "interpose/describe/describe_nccl.h"
#include "interpose/entry/call_rows.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/entry/nccl_newer.h"
#include "interpose/progress/graph_markers.h"
#include "interpose/sources/stub_compute.h"

namespace gordian::interpose {

// Call<kRow>(thread, site, forward)(arguments...): describes, forwards, describes; gives what the
// real function gave. `forward` makes the real call and nothing else; of an operation it is given
// the OperationRoute, and says there who has taken it.
template <CallId kCall, typename Forward>
struct Call {
  ThreadContext& thread;
  const uint64_t site;
  const Forward& forward;

  static constexpr ring::CallInfo kRow = ring::kCalls[kCall];
  static constexpr ring::PayloadKind kPayload = kRow.payload;
  static constexpr ring::CallStyle kStyle = kRow.style;
  static constexpr bool kCopiesAsync = kRow.Has(ring::kCopiesAsync);

  // What there is to note when a call has ended that may have waited for the GPU.
  struct WaitNote {
    enum What : uint32_t { kNothing, kQueued, kWaited } what;
    StreamState* stream;
  };

  // Begin and End, for rows that write records at both moments, and for a source that reports the
  // two moments separately (interpose/sources/cupti_source.h). Other rows use operator().
  static constexpr bool kWaits =
      kPayload == ring::PayloadKind::kHostWait && kStyle != ring::CallStyle::kSilent;
  static constexpr bool kTellsBegin = kWaits || kCopiesAsync;
  template <typename... Arguments>
  auto Begin(const Arguments&... arguments) const {
    MarkRowUsed(*thread.header, kCall);
    if constexpr (kWaits) {
      return BeginWait(arguments...);
    } else {
      return BeginCopy(arguments...);
    }
  }
  template <typename Note>
  void End(const Note& note, int result) const {
    if constexpr (kWaits) {
      EndWait(note, result);
    } else {
      EndCopy(note, result);
    }
  }

  // Of a call that ends a capture, before it does.
  template <typename... Arguments>
  static uint64_t CaptureOfArgument(const Arguments&... arguments) {
    const auto stream = Pick<cudaStream_t>(nullptr, arguments...);
    return CaptureOf(stream == nullptr && IsPerThread(kCall) ? kPerThreadHandle
                                                             : reinterpret_cast<uint64_t>(stream));
  }

  template <typename... Arguments>
  auto operator()(const Arguments&... arguments) const {
    MarkRowUsed(*thread.header, kCall);
    if constexpr (IsNccl(kCall)) {
      CountNcclCall(thread);
      if (__builtin_expect(!thread.calls_by_symbol, 0)) {
        thread.calls_by_symbol = true;
        thread.process->calls_by_symbol.store(1, std::memory_order_relaxed);
      }
    }
    if constexpr (kPayload == ring::PayloadKind::kOperation) {
      OperationNote note;
      BeginOperation(thread, kCall, site, DescribeOperation<kCall>(arguments...), &note);
      const ncclResult_t result = forward(&note.route);
      if (StillAttached(thread)) EndOperation(thread, kCall, site, note, result);
      return result;
    } else if constexpr (kPayload == ring::PayloadKind::kSignal) {
      OperationNote note;
      BeginOperation(thread, kCall, site, DescribeSignals(arguments..., &note.sent), &note);
      const ncclResult_t result = forward();
      if (StillAttached(thread)) EndOperation(thread, kCall, site, note, result);
      return result;
    } else if constexpr (kPayload == ring::PayloadKind::kGroup) {
      return Group();
    } else if constexpr (kPayload == ring::PayloadKind::kCommInit) {
      return Init(arguments...);
    } else if constexpr (kPayload == ring::PayloadKind::kCommCall) {
      return OnComm(arguments...);
    } else if constexpr (kPayload == ring::PayloadKind::kHostWait) {
      if constexpr (kStyle == ring::CallStyle::kSilent) {
        return Query(arguments...);
      } else {
        return Wait(arguments...);
      }
    } else if constexpr (kPayload == ring::PayloadKind::kStreamWork) {
      return Work(arguments...);
    } else if constexpr (kPayload == ring::PayloadKind::kStreamCreate) {
      return Create(arguments...);
    } else if constexpr (kPayload == ring::PayloadKind::kStreamDestroy) {
      static_assert(kTakes<cudaStream_t, Arguments...>);
      const auto result = forward();
      if (Succeeded(result)) {
        NoteStreamDestroyed(thread, kCall, site, Pick<cudaStream_t>(nullptr, arguments...));
      }
      return result;
    } else if constexpr (kPayload == ring::PayloadKind::kGraph) {
      return Graph(arguments...);
    } else {
      static_assert(kPayload == ring::PayloadKind::kNone && kStyle == ring::CallStyle::kSilent);
      return Other(arguments...);
    }
  }

 private:
  template <typename... Arguments>
  StreamState* StreamOf(const Arguments&... arguments) const {
    return ResolveStream(thread, StreamArgument<kCall>(arguments...), IsPerThread(kCall));
  }

  template <typename Result>
  bool Succeeded(Result result) const {
    return static_cast<int>(result) == 0 && StillAttached(thread);
  }

  ncclResult_t Group() const {
    constexpr bool kStarts = kRow.meaning == ring::Meaning::kGroupStart;
    constexpr bool kEnds = kRow.meaning == ring::Meaning::kGroupEnd;
    if constexpr (kEnds) BeginGroupEnd(thread, kCall, site);
    const ncclResult_t result = forward();
    if (!StillAttached(thread)) return result;
    if constexpr (kStarts) {
      EndGroupStart(thread, result);
    } else if constexpr (kEnds) {
      EndGroupEnd(thread, kCall, site, result);
    } else {
      EndGroupSimulateEnd(thread);
    }
    return result;
  }

  ncclResult_t Make(const InitArguments& init, ncclComm_t* made) const {
    CommState* comm = BeginInit(thread, kCall, site, init, true);
    const ncclResult_t result = forward();
    if (StillAttached(thread)) EndInit(thread, kCall, site, comm, made, result, true);
    return result;
  }
  static InitArguments Root(int nranks, int rank, uint64_t uid, const ncclConfig_t* config) {
    InitArguments init;
    init.nranks = nranks;
    init.rank = rank;
    init.uid = uid;
    init.config = config;
    return init;
  }
  // One overload for each shape of an init call. Root communicators:
  ncclResult_t Init(ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                    ncclConfig_t* config = nullptr) const {
    return Make(Root(nranks, rank, HashIds(&id, 1), config), comm);
  }
  ncclResult_t Init(ncclComm_t* comm, int nranks, int rank, int ids, ncclUniqueId* id,
                    ncclConfig_t* config) const {
    return Make(Root(nranks, rank, HashIds(id, ids), config), comm);
  }
  // All members in this process:
  ncclResult_t Init(ncclComm_t* comms, int count, const int* devices) const {
    constexpr int kMost = 64;
    const int shown = count < 0 ? 0 : count < kMost ? count : kMost;
    const uint64_t uid = LocalUid(*thread.process);
    CommState* states[kMost];
    for (int i = 0; i < shown; ++i) {
      InitArguments init = Root(count, i, uid, nullptr);
      init.device = devices != nullptr ? devices[i] : i;
      states[i] = BeginInit(thread, kCall, site, init, i == 0);
    }
    const ncclResult_t result = forward();
    if (!StillAttached(thread)) return result;
    for (int i = 0; i < shown; ++i) {
      EndInit(thread, kCall, site, states[i], comms != nullptr ? &comms[i] : nullptr, result,
              i == shown - 1);
    }
    return result;
  }
  // Children:
  ncclResult_t Child(ncclComm_t parent, int color, ncclComm_t* made, ncclConfig_t* config) const {
    InitArguments init;
    init.parent = FindComm(thread, parent);
    init.uid = ChildUid(init.parent, kCall);
    init.color = color;
    init.config = config;
    if (init.parent != nullptr) init.device = init.parent->device;
    return Make(init, made);
  }
  ncclResult_t Init(ncclComm_t parent, int color, int, ncclComm_t* made,
                    ncclConfig_t* config) const {
    return Child(parent, color, made, config);
  }
  ncclResult_t Init(ncclComm_t parent, int*, int, ncclComm_t* made, ncclConfig_t* config,
                    int) const {
    return Child(parent, 0, made, config);
  }

  // Members of the parent know it and not the id, new ones the id alone. The one that is given the
  // id beside the parent knows both, and says so: its record of the second name comes between the
  // call's begin and its end. A rank of the parent keeps its number (nccl.h of 2.30: it passes -1).
  ncclResult_t Init(ncclComm_t parent, int nranks, const ncclUniqueId* id, int rank,
                    ncclComm_t* made, ncclConfig_t* config) const {
    InitArguments init;
    CommState* const grown = parent != nullptr ? FindComm(thread, parent) : nullptr;
    const uint64_t by_parent = ChildUid(grown, kCall);
    init.uid = id != nullptr ? HashIds(id, 1) : by_parent;
    init.nranks = nranks;
    init.rank = grown != nullptr ? grown->rank : rank;
    init.device = grown != nullptr ? grown->device : -1;
    init.config = config;
    CommState* comm = BeginInit(thread, kCall, site, init, true);
    if (id != nullptr && by_parent != 0) NoteOtherUid(thread, kCall, site, comm, by_parent);
    const ncclResult_t result = forward();
    if (StillAttached(thread)) EndInit(thread, kCall, site, comm, made, result, true);
    return result;
  }

  template <typename... Arguments>
  ncclResult_t OnComm(const Arguments&... arguments) const {
    static_assert(kTakes<ncclComm_t, Arguments...>);
    const auto handle = Pick<ncclComm_t>(nullptr, arguments...);
    if constexpr (kStyle == ring::CallStyle::kSilent) {
      static_assert(kTakes<ncclResult_t*, Arguments...>);
      const ncclResult_t result = forward();
      if (StillAttached(thread)) {
        EndGetAsyncError(thread, kCall, handle, result, Pick<ncclResult_t*>(nullptr, arguments...));
      }
      return result;
    } else {
      ring::CommState before = ring::CommState::kReady;
      CommState* comm = BeginCommCall(thread, kCall, site, handle, &before);
      const ncclResult_t result = forward();
      if (StillAttached(thread)) EndCommCall(thread, kCall, site, comm, handle, result, before);
      if constexpr (kRow.Has(ring::kRegistersMemory)) {
        static_assert(kTakes<void*, Arguments...> && kTakes<size_t, Arguments...>);
        // Registered: other ranks may write there from now on. Under the number of a row whose
        // records are work.
        if (Succeeded(result)) {
          NoteMemoryShared(thread, ring::kCall_cuIpcGetMemHandle, site,
                           Pick<void*>(nullptr, arguments...), Pick<size_t>(0, arguments...));
        }
      }
      return result;
    }
  }

  template <typename... Arguments>
  auto Wait(const Arguments&... arguments) const {
    const WaitNote note = BeginWait(arguments...);
    const auto result = forward();
    EndWait(note, static_cast<int>(result));
    return result;
  }

  template <typename... Arguments>
  WaitNote BeginWait(const Arguments&... arguments) const {
    constexpr ring::WaitKind kKind = kRow.wait;
    StreamState* stream = nullptr;
    if constexpr (kKind == ring::WaitKind::kStream) {
      static_assert(kTakes<cudaStream_t, Arguments...>);
      stream = ResolveStream(thread, Pick<cudaStream_t>(nullptr, arguments...), IsPerThread(kCall));
    } else if constexpr (kKind == ring::WaitKind::kCopy) {
      static_assert(!kTakes<cudaStream_t, Arguments...>);
      stream = ResolveStream(thread, nullptr, IsPerThread(kCall));
      if (IsQueuedCopy(arguments...)) return {WaitNote::kQueued, stream};
    }
    static_assert((kKind == ring::WaitKind::kEvent) == kTakes<cudaEvent_t, Arguments...>);
    if constexpr (kKind == ring::WaitKind::kFree) {
      // Freeing nothing waits for nothing, and its return proves nothing.
      if (((static_cast<uint64_t>((uintptr_t)arguments) == 0) && ...))
        return {WaitNote::kNothing, nullptr};
    }
    int32_t device = -1;
    if constexpr (kTakes<CUcontext, Arguments...>) {
      // cuCtxSynchronize_v2: cudart 13 names the context and need not make it current.
      const ErrnoKeeper keep_errno;
      int of_context = -1;
      if (DeviceOfContext(Pick<CUcontext>(nullptr, arguments...), &of_context)) device = of_context;
    }
    if constexpr (kRow.Has(ring::kResetsDevice)) {
      device = Pick<CUdevice>(-1, arguments...);
      DropMarkersOfDevice(*thread.process, device >= 0 ? device : CurrentDevice(thread));
    }
    const void* event = Pick<cudaEvent_t>(nullptr, arguments...);
    BeginHostWait(thread, kCall, site, kKind, stream, event, device);
    return {WaitNote::kWaited, stream};
  }

  void EndWait(const WaitNote& note, int result) const {
    if (!StillAttached(thread)) return;
    if (note.what == WaitNote::kWaited) EndHostWait(thread, kCall, site, result);
    if (note.what == WaitNote::kQueued && result == 0) {
      NoteKernel(thread, ring::kCall_cudaMemcpyAsync, site, note.stream);
    }
  }

  // The "asynchronous" copies to host memory wait if the memory is pageable. Their records carry
  // the synchronous copy's number, whose records are host waits.
  static constexpr CallId kCopyAs =
      kRow.library == ring::Library::kRuntime ? ring::kCall_cudaMemcpy : ring::kCall_cuMemcpy;

  template <typename... Arguments>
  WaitNote BeginCopy(const Arguments&... arguments) const {
    StreamState* stream = StreamOf(arguments...);
    if (!MayCopyToHost<kRow.Has(ring::kToHost)>(arguments...)) return {WaitNote::kQueued, stream};
    BeginHostWait(thread, kCopyAs, site, ring::WaitKind::kAsyncCopy, stream, nullptr);
    return {WaitNote::kWaited, stream};
  }

  void EndCopy(const WaitNote& note, int result) const {
    if (!StillAttached(thread)) return;
    if (note.what == WaitNote::kWaited) EndHostWait(thread, kCopyAs, site, result);
    if (result == 0) NoteKernel(thread, kCall, site, note.stream);
  }

  template <typename... Arguments>
  auto Query(const Arguments&... arguments) const {
    const auto result = forward();
    if (!StillAttached(thread)) return result;
    constexpr int kNotReady = cudaErrorNotReady;
    static_assert(kNotReady == CUDA_ERROR_NOT_READY);
    const void* object = nullptr;
    if constexpr (kTakes<cudaEvent_t, Arguments...>) {
      object = Pick<cudaEvent_t>(nullptr, arguments...);
    } else {
      static_assert(kTakes<cudaStream_t, Arguments...>);
      object = Pick<cudaStream_t>(nullptr, arguments...);
      // 0 in the state block means "not polling": a default stream goes by its other name.
      if (object == nullptr) {
        object = reinterpret_cast<void*>(IsPerThread(kCall) ? kPerThreadHandle : kLegacyHandle);
      }
    }
    NoteQuery(thread, kCall, object, static_cast<int>(result) == kNotReady);
    return result;
  }

  // Events come and go by handle. The record of an end comes before it: as soon as CUDA has freed
  // the handle, another thread may be given it.
  template <typename... Arguments>
  auto Event(const Arguments&... arguments) const {
    static_assert(kTakes<cudaEvent_t, Arguments...> != kRow.Has(ring::kMakesEvent));
    if constexpr (kRow.Has(ring::kDestroysEvent)) {
      NoteEventForgotten(thread, kCall, site, Pick<cudaEvent_t>(nullptr, arguments...));
      return forward();
    } else {
      const auto result = forward();
      if (!Succeeded(result)) return result;
      const void* event = Pick<cudaEvent_t>(nullptr, arguments...);
      if constexpr (kRow.Has(ring::kMakesEvent)) {
        static_assert(kTakes<cudaEvent_t*, Arguments...>);
        const auto* made = Pick<cudaEvent_t*>(nullptr, arguments...);
        if (made != nullptr) event = *made;
      }
      NoteEventForgotten(thread, kCall, site, event);
      return result;
    }
  }

  // Pointer in, handle out; or the other way round.
  template <typename Handle, typename Pointer>
  auto Share(Handle*, Pointer pointer) const {
    const auto result = forward();
    if (Succeeded(result)) NoteMemoryShared(thread, kCall, site, (const void*)pointer, 1);
    return result;
  }
  template <typename Pointer, typename Handle>
  auto Share(Pointer* pointer, const Handle&, unsigned) const {
    const auto result = forward();
    if (Succeeded(result) && pointer != nullptr) {
      NoteMemoryShared(thread, kCall, site, (const void*)*pointer, 1);
    }
    return result;
  }
  auto Share(void*, CUdeviceptr pointer, size_t bytes, CUmemRangeHandleType,
             unsigned long long) const {
    const auto result = forward();
    if (Succeeded(result)) NoteMemoryShared(thread, kCall, site, (const void*)pointer, bytes);
    return result;
  }

  // W10: waits for and writes of values.
  template <typename Value>
  requires std::is_integral_v<Value>
  auto OnMemory(CUstream handle, CUdeviceptr address, Value value, unsigned flags) const {
    StreamState* stream = ResolveStream(thread, handle, IsPerThread(kCall));
    const auto result = forward();
    if (Succeeded(result)) {
      constexpr bool kWide = sizeof(Value) == sizeof(uint64_t);
      const MemoryNote note = kRow.work == ring::WorkKind::kMemoryWait
                                  ? DescribeWait(address, value, kWide, flags)
                                  : DescribeWrite(address, value, kWide);
      NoteMemoryWork(thread, kCall, site, stream, &note, 1);
    }
    return result;
  }
  auto OnMemory(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* operations,
                unsigned) const {
    StreamState* stream = ResolveStream(thread, handle, IsPerThread(kCall));
    const auto result = forward();
    if (Succeeded(result)) NoteMemoryBatch(thread, kCall, site, stream, operations, count);
    return result;
  }

  // One launch on several devices, each on a stream of its own.
  auto Launches(const CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned) const {
    const auto result = forward();
    for (unsigned i = 0; Succeeded(result) && list != nullptr && i < count; ++i) {
      NoteKernel(thread, kCall, site, ResolveStream(thread, list[i].hStream, false));
    }
    return result;
  }

  template <typename... Arguments>
  auto Work(const Arguments&... arguments) const {
    if constexpr (kRow.work == ring::WorkKind::kEventForgotten) {
      return Event(arguments...);
    } else if constexpr (kRow.work == ring::WorkKind::kMemoryShared) {
      return Share(arguments...);
    } else if constexpr (kRow.work == ring::WorkKind::kMemoryWait ||
                         kRow.work == ring::WorkKind::kMemoryWrite) {
      return OnMemory(arguments...);
    } else if constexpr (kTakes<CUDA_LAUNCH_PARAMS*, Arguments...>) {
      return Launches(arguments...);
    } else {
      return OnStream(arguments...);
    }
  }

  template <typename... Arguments>
  auto OnStream(const Arguments&... arguments) const {
    constexpr ring::WorkKind kKind = kRow.work;
    if constexpr (kRow.Has(ring::kLaunch)) {
      if (StubsCompute() && IsStubbedLaunch(arguments...)) {
        Add(thread.header->skipped_kernels, uint64_t{1});
        return static_cast<decltype(forward())>(0);
      }
    }
    if constexpr (kCopiesAsync) {
      const WaitNote note = BeginCopy(arguments...);
      const auto result = forward();
      EndCopy(note, static_cast<int>(result));
      return result;
    }
    StreamState* stream = StreamOf(arguments...);
    const auto result = forward();
    if (!Succeeded(result)) return result;
    if constexpr (kKind == ring::WorkKind::kKernels) {
      NoteKernel(thread, kCall, site, stream);
    } else if constexpr (kKind == ring::WorkKind::kGraphLaunch) {
      static_assert(kTakes<cudaGraphExec_t, Arguments...>);
      NoteStreamWork(thread, kCall, site, kKind, stream,
                     Pick<cudaGraphExec_t>(nullptr, arguments...));
    } else {
      static_assert(kTakes<cudaEvent_t, Arguments...> || kKind == ring::WorkKind::kHostFunction);
      NoteStreamWork(thread, kCall, site, kKind, stream, Pick<cudaEvent_t>(nullptr, arguments...));
    }
    return result;
  }

  template <typename... Arguments>
  auto Create(const Arguments&... arguments) const {
    static_assert(kTakes<cudaStream_t*, Arguments...>);
    const auto result = forward();
    auto* made = Pick<cudaStream_t*>(nullptr, arguments...);
    if (Succeeded(result) && made != nullptr) {
      NoteStreamCreated(thread, kCall, site, *made, Pick<unsigned>(0, arguments...));
    }
    return result;
  }

  // W12. Captures are counted as well, so that a process that has none is never asked about them.
  template <typename... Arguments>
  auto Graph(const Arguments&... arguments) const {
    static_assert(kTakes<cudaGraph_t, Arguments...> || kTakes<cudaGraph_t*, Arguments...> ||
                  kTakes<cudaGraphExec_t, Arguments...>);
    constexpr ring::GraphCall kGraphCall = kRow.graph;
    constexpr bool kBegins = kRow.Has(ring::kBeginsCapture);
    constexpr bool kEnds = kGraphCall == ring::GraphCall::kEndCapture;
    ring::GraphPayload payload = {kGraphCall, 0, 0, 0, 0};
    if constexpr (kEnds) {
      if constexpr (requires { forward.capture; }) {
        payload.capture = forward.capture;
      } else {
        payload.capture = CaptureOfArgument(arguments...);
      }
    }
    if constexpr (kGraphCall == ring::GraphCall::kDestroy ||
                  kGraphCall == ring::GraphCall::kExecDestroy) {
      // Before it is no more: another thread may be given the same handle at once.
      payload.graph = GraphArgument<kCall>(arguments...);
      payload.made = reinterpret_cast<uint64_t>(Pick<cudaGraphExec_t>(nullptr, arguments...));
      NoteGraphCall(thread, kCall, site, payload);
      return forward();
    }
    if constexpr (kBegins) StopGraphMarkers(*thread.process);
    const auto result = forward();
    if constexpr (kBegins || kEnds) {
      std::atomic<uint32_t>& active = thread.process->active_captures;
      if (kBegins && Succeeded(result)) active.fetch_add(1, std::memory_order_relaxed);
      if (kEnds && StillAttached(thread) && active.load(std::memory_order_relaxed) != 0) {
        active.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    if (!Succeeded(result)) return result;
    payload.graph = GraphArgument<kCall>(arguments...);
    if constexpr (kTakes<cudaGraphExec_t*, Arguments...>) {
      const auto* made = Pick<cudaGraphExec_t*>(nullptr, arguments...);
      payload.made = made != nullptr ? reinterpret_cast<uint64_t>(*made) : 0;
    } else if constexpr (kGraphCall == ring::GraphCall::kClone) {
      const auto* made = Pick<cudaGraph_t*>(nullptr, arguments...);
      payload.made = made != nullptr ? reinterpret_cast<uint64_t>(*made) : 0;
    } else {
      payload.made = reinterpret_cast<uint64_t>(Pick<cudaGraphExec_t>(nullptr, arguments...));
    }
    NoteGraphCall(thread, kCall, site, payload);
    return result;
  }

  template <typename... Arguments>
  auto Other(const Arguments&... arguments) const {
    if constexpr (kRow.Has(ring::kDestroysContext)) {
      DropMarkersOfContext(*thread.process, Pick<CUcontext>(nullptr, arguments...));
    }
    if constexpr (std::is_void_v<decltype(forward())>) {
      forward();
    } else {
      const auto result = forward();
      if constexpr (kRow.Has(ring::kBeginsCapture)) {
        if (Succeeded(result)) {
          thread.process->active_captures.fetch_add(1, std::memory_order_relaxed);
        }
      }
      return result;
    }
  }
};

template <CallId kCall, typename Forward>
Call<kCall, Forward> Observe(ThreadContext& thread, const void* site, const Forward& forward) {
  // Within a call of torch.distributed, the line of the job that has made that. PyTorch's engine
  // calls NCCL for the backward pass that runs, as for DistributedDataParallel's buckets.
  uint64_t line = thread.torch.site;
  if (__builtin_expect(thread.of_autograd, 0) && line == 0)
    line = thread.process->backward_site.load(std::memory_order_relaxed);
  return {thread, __builtin_expect(line != 0, 0) ? line : reinterpret_cast<uint64_t>(site),
          forward};
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ENTRY_OBSERVE_H_
