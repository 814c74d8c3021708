// From a row of the table to its route: the real call, or the preemptive runtime's
// (interpose/route/collectives.h). What a row is about follows from its effect and the types of its
// arguments, as in interpose/entry/observe.h.
#ifndef GORDIAN_INTERPOSE_ROUTE_COLLECTIVES_ROUTE_H_
#define GORDIAN_INTERPOSE_ROUTE_COLLECTIVES_ROUTE_H_

#include "interpose/entry/observe.h"
#include "interpose/route/collectives.h"
#include "interpose/sources/stub_compute.h"

namespace gordian::interpose {

// The handle of the stream that the call works on; null is the legacy default one.
template <CallId kCall, typename... Arguments>
void* StreamHandle(const Arguments&... arguments) {
  void* handle = StreamArgument<kCall>(arguments...);
  return handle == nullptr && IsPerThread(kCall) ? reinterpret_cast<void*>(kPerThreadHandle)
                                                 : handle;
}

// Whether the call may record events that it does not name: a graph's nodes do, and launches by
// their attributes.
template <CallId kCall, typename... Arguments>
bool MayRecordUnseen([[maybe_unused]] const Arguments&... arguments) {
  if constexpr (ring::kCalls[kCall].work == ring::WorkKind::kGraphLaunch) {
    return true;
  } else if constexpr (kTakes<const cudaLaunchConfig_t*, Arguments...>) {
    return RecordsEvent(Pick<const cudaLaunchConfig_t*>(nullptr, arguments...));
  } else if constexpr (kTakes<const CUlaunchConfig*, Arguments...>) {
    return RecordsEvent(Pick<const CUlaunchConfig*>(nullptr, arguments...));
  } else {
    return false;
  }
}

// Reports stream work that is not the runtime's to it, before the real call enqueues the work.
template <CallId kCall, typename... Arguments>
void NoteOtherWork(const Arguments&... arguments) {
  using ring::WorkKind;
  constexpr ring::CallInfo kRow = ring::kCalls[kCall];
  if constexpr (kRow.payload == ring::PayloadKind::kStreamWork) {
    if constexpr (kRow.Has(ring::kMakesEvent)) {
      // Nothing to report: the runtime forgot an older event of this handle when that one ended.
    } else if constexpr (kRow.work == WorkKind::kEventForgotten) {
      NoteEventGone(Pick<cudaEvent_t>(nullptr, arguments...));
    } else if constexpr (kRow.work == WorkKind::kMemoryShared) {
      // No work.
    } else if constexpr (kTakes<CUDA_LAUNCH_PARAMS*, Arguments...>) {
      const auto launches = [](const CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned) {
        for (unsigned i = 0; list != nullptr && i < count; ++i) NoteForeignWork(list[i].hStream);
      };
      launches(arguments...);
    } else if constexpr (kRow.work == WorkKind::kEventRecord) {
      NoteRecording(Pick<cudaEvent_t>(nullptr, arguments...), StreamHandle<kCall>(arguments...));
    } else if constexpr (kRow.work == WorkKind::kEventWait) {
      NoteAwaiting(Pick<cudaEvent_t>(nullptr, arguments...), StreamHandle<kCall>(arguments...));
    } else {
      if (MayRecordUnseen<kCall>(arguments...)) NoteUnseenRecords(true);
      NoteForeignWork(StreamHandle<kCall>(arguments...));
    }
  } else if constexpr (kCall == ring::kCall_cudaIpcGetEventHandle ||
                       kCall == ring::kCall_cuIpcGetEventHandle) {
    NoteEventShared(Pick<cudaEvent_t>(nullptr, arguments...));
  } else if constexpr (kCall == ring::kCall_cuCtxWaitEvent ||
                       kCall == ring::kCall_cuGreenCtxWaitEvent) {
    NoteForeignWork(nullptr);
  } else if constexpr (kRow.payload == ring::PayloadKind::kStreamDestroy) {
    NoteStreamGone(Pick<cudaStream_t>(nullptr, arguments...));
  } else if constexpr (kRow.wait == ring::WaitKind::kCopy) {
    NoteForeignWork(nullptr);
  } else if constexpr (kRow.payload == ring::PayloadKind::kNone &&
                       kTakes<cudaStream_t, Arguments...>) {
    NoteForeignWork(StreamHandle<kCall>(arguments...));
  }
}

// After the real call, which has ended `well`: what NoteOtherWork has said the call would do.
template <CallId kCall, typename... Arguments>
void NoteWorkDone([[maybe_unused]] bool well, [[maybe_unused]] const Arguments&... arguments) {
  using ring::WorkKind;
  constexpr ring::CallInfo kRow = ring::kCalls[kCall];
  if constexpr (kCall == ring::kCall_cudaIpcOpenEventHandle ||
                kCall == ring::kCall_cuIpcOpenEventHandle) {
    const cudaEvent_t* const made = Pick<cudaEvent_t*>(nullptr, arguments...);
    if (well && made != nullptr) NoteEventShared(*made);
  } else if constexpr (kRow.payload == ring::PayloadKind::kStreamWork) {
    if constexpr (kRow.work == WorkKind::kEventRecord) {
      NoteRecorded(Pick<cudaEvent_t>(nullptr, arguments...), StreamHandle<kCall>(arguments...),
                   well);
    } else if constexpr (kRow.work == WorkKind::kEventWait) {
      NoteAwaited(Pick<cudaEvent_t>(nullptr, arguments...), StreamHandle<kCall>(arguments...),
                  well);
    } else if constexpr (!kRow.Has(ring::kMakesEvent) && kRow.work != WorkKind::kEventForgotten &&
                         kRow.work != WorkKind::kMemoryShared) {
      if (MayRecordUnseen<kCall>(arguments...)) NoteUnseenRecords(false);
    }
  }
}

// A communicator that the real call has made, or begun to make: one overload for each shape of such
// a call, as in interpose/entry/observe.h.
inline void RouteMade(ncclComm_t* made, int ranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config = nullptr) {
  RouteInit(made, ranks, id, rank, config);
}
inline void RouteMade(ncclComm_t* made, int ranks, int rank, int ids, ncclUniqueId* id,
                      const ncclConfig_t* config) {
  if (ids > 0) RouteInit(made, ranks, id[0], rank, config);
}
inline void RouteMade(const ncclComm_t* made, int count, const int* devices) {
  RouteInitAll(made, count, devices);
}
inline void RouteMade(ncclComm_t parent, int color, int, ncclComm_t* made,
                      const ncclConfig_t* config) {
  RouteSplit(parent, color, made, config);
}
inline void RouteMade(ncclComm_t parent, int*, int, ncclComm_t* made, const ncclConfig_t* config,
                      int) {
  RouteShrink(parent, made, config);
}
// One that has grown is NCCL's.
inline void RouteMade(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, const ncclConfig_t*) {
}

// Memory that the real call has registered.
inline void RouteRegistered(ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  if (handle != nullptr) RouteRegister(comm, memory, bytes, *handle);
}
inline void RouteRegistered(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window,
                            int) {
  RouteWindow(comm, memory, bytes, window);
}

// NCCL's part is revoked: only the runtime knows of errors.
inline void RecoveredError(ncclComm_t comm, ncclResult_t* error) {
  if (error != nullptr) *error = ncclSuccess;
  RouteAsyncError(comm, error);
}

// A call of NCCL. `real` makes the real call. `route`: of an operation that is recorded, else null.
template <CallId kCall, typename Real, typename... Arguments>
auto Routed(const Real& real, [[maybe_unused]] OperationRoute* route,
            const Arguments&... arguments) {
  using ring::Meaning;
  constexpr ring::CallInfo kRow = ring::kCalls[kCall];
  static_assert(IsNccl(kCall));
  if constexpr (kRow.payload == ring::PayloadKind::kOperation) {
    ncclResult_t result = ncclSuccess;
    if (IsArmed()) {
      ArmedCall armed;
      const OperationArguments described = DescribeOperation<kCall>(arguments...);
      if (BeginArmedOperation(kCall, described, route, &armed, &result)) return result;
      result = real();
      EndArmed(armed, kCall, described, route, result);
      return result;
    }
    if (RouteOperation(kCall, DescribeOperation<kCall>(arguments...), route, &result)) {
      return result;
    }
    return real();
  } else if constexpr (kRow.meaning == Meaning::kGroupStart) {
    RouteGroupStart();
    return real();
  } else if constexpr (kRow.meaning == Meaning::kGroupEnd) {
    const ncclResult_t own = RouteGroupEnd();
    const ncclResult_t result = real();
    RouteGroupEnded(result);
    return result == ncclSuccess ? own : result;
  } else if constexpr (kRow.payload == ring::PayloadKind::kCommInit) {
    if constexpr (kRow.meaning == Meaning::kCommShrink) {
      const auto aborts = [](ncclComm_t parent, int*, int, ncclComm_t*, const ncclConfig_t*,
                             int flags) {
        if ((flags & NCCL_SHRINK_ABORT) != 0) RouteRevoke(parent);
      };
      aborts(arguments...);
    }
    const ncclResult_t result = real();
    if (result == ncclSuccess) RouteMade(arguments...);
    return result;
  } else if constexpr (kRow.meaning == Meaning::kCommFinalize) {
    RouteFinalize(arguments...);
    if (IsArmed() && IsRecovered(arguments...)) return ncclSuccess;  // NCCL's part is revoked
    return real();
  } else if constexpr (kRow.meaning == Meaning::kCommDestroy) {
    RouteDestroy(arguments...);
    return real();
  } else if constexpr (kRow.meaning == Meaning::kCommAbort) {
    RouteAbort(arguments...);
    return real();
  } else if constexpr (kRow.meaning == Meaning::kCommRevoke) {
    const auto comm = Pick<ncclComm_t>(nullptr, arguments...);
    const bool recovered = IsArmed() && IsRecovered(comm);  // NCCL's part is revoked already
    RouteRevoke(comm);
    return recovered ? ncclSuccess : real();
  } else if constexpr (kRow.Has(ring::kRegistersMemory)) {
    const ncclResult_t result = real();
    if (result == ncclSuccess) RouteRegistered(arguments...);
    return result;
  } else if constexpr (kRow.Has(ring::kDeregistersMemory)) {
    RouteDeregister(arguments...);
    return real();
  } else if constexpr (kRow.payload == ring::PayloadKind::kSignal) {
    NoteForeignWork(Pick<cudaStream_t>(nullptr, arguments...));
    return real();
  } else if constexpr (kRow.payload == ring::PayloadKind::kCommCall &&
                       kRow.style == ring::CallStyle::kSilent) {
    if (IsArmed() && IsRecovered(Pick<ncclComm_t>(nullptr, arguments...))) {
      RecoveredError(arguments...);
      return ncclSuccess;
    }
    const ncclResult_t result = real();
    if (result == ncclSuccess) RouteAsyncError(arguments...);
    return result;
  } else {
    return real();
  }
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_COLLECTIVES_ROUTE_H_
