// From a row of the table to its route: the real call, or the preemptive runtime's
// (interpose/collectives.h). What a row is about follows from its payload, its name and the types
// of its arguments, as in interpose/observe.h.
#ifndef GORDIAN_INTERPOSE_COLLECTIVES_ROUTE_H_
#define GORDIAN_INTERPOSE_COLLECTIVES_ROUTE_H_

#include "interpose/collectives.h"
#include "interpose/observe.h"

namespace gordian::interpose {

// Stream work that the runtime does not know of, told before it is enqueued.
template <CallId kCall, typename... Arguments>
void NoteOtherWork(const Arguments&... arguments) {
  constexpr ring::PayloadKind kPayload = ring::kCalls[kCall].payload;
  [[maybe_unused]] const auto stream = [&]() -> void* {
    void* handle = StreamArgument(arguments...);
    return handle == nullptr && IsPerThread(kCall) ? reinterpret_cast<void*>(kPerThreadHandle)
                                                   : handle;
  };
  if constexpr (kPayload == ring::PayloadKind::kStreamWork) {
    if constexpr (MakesEvent(kCall)) {
      // Its handle is told apart from an older one's at that one's end.
    } else if constexpr (DestroysEvent(kCall) || RecordsContext(kCall)) {
      NoteEventGone(Pick<cudaEvent_t>(nullptr, arguments...));
    } else if constexpr (SharesMemory(kCall)) {
      // No work.
    } else if constexpr (kTakes<CUDA_LAUNCH_PARAMS*, Arguments...>) {
      const auto launches = [](const CUDA_LAUNCH_PARAMS* list, unsigned count, unsigned) {
        for (unsigned i = 0; list != nullptr && i < count; ++i) NoteForeignWork(list[i].hStream);
      };
      launches(arguments...);
    } else if constexpr (WorkKindOf(kCall) == ring::WorkKind::kEventRecord) {
      NoteEventRecord(Pick<cudaEvent_t>(nullptr, arguments...), stream());
    } else if constexpr (WorkKindOf(kCall) == ring::WorkKind::kEventWait) {
      NoteEventWait(Pick<cudaEvent_t>(nullptr, arguments...), stream());
    } else {
      NoteForeignWork(stream());
    }
  } else if constexpr (kPayload == ring::PayloadKind::kStreamDestroy) {
    NoteStreamGone(Pick<cudaStream_t>(nullptr, arguments...));
  } else if constexpr (kPayload == ring::PayloadKind::kHostWait) {
    if constexpr (NameHas(kCall, "Memcpy")) NoteForeignWork(nullptr);
  } else if constexpr (kPayload == ring::PayloadKind::kNone && kTakes<cudaStream_t, Arguments...>) {
    NoteForeignWork(stream());
  }
}

// `real` makes the real call.
template <CallId kCall, typename Real, typename... Arguments>
auto Routed(const Real& real, const Arguments&... arguments) {
  constexpr ring::PayloadKind kPayload = ring::kCalls[kCall].payload;
  if constexpr (!IsNccl(kCall)) {
    NoteOtherWork<kCall>(arguments...);
    return real();
  } else if constexpr (kPayload == ring::PayloadKind::kOperation) {
    ncclResult_t result = ncclSuccess;
    if (RouteOperation(kCall, DescribeOperation<kCall>(arguments...), &result)) return result;
    return real();
  } else if constexpr (kCall == ring::kCall_ncclGroupStart) {
    RouteGroupStart();
    return real();
  } else if constexpr (kCall == ring::kCall_ncclGroupEnd) {
    const ncclResult_t own = RouteGroupEnd();
    const ncclResult_t result = real();
    RouteGroupEnded(result);
    return result == ncclSuccess ? own : result;
  } else if constexpr (kCall == ring::kCall_ncclCommInitRank ||
                       kCall == ring::kCall_ncclCommInitRankConfig) {
    const ncclResult_t result = real();
    const auto init = [&](ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                          const ncclConfig_t* config = nullptr) {
      if (result == ncclSuccess) RouteInit(comm, ranks, id, rank, config);
    };
    init(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommInitAll) {
    const ncclResult_t result = real();
    if (result == ncclSuccess) RouteInitAll(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommSplit) {
    const ncclResult_t result = real();
    const auto split = [&](ncclComm_t parent, int color, int, ncclComm_t* made,
                           const ncclConfig_t* config) {
      if (result == ncclSuccess) RouteSplit(parent, color, made, config);
    };
    split(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommInitRankScalable) {
    const ncclResult_t result = real();
    const auto init = [&](ncclComm_t* made, int ranks, int rank, int ids, ncclUniqueId* id,
                          const ncclConfig_t* config) {
      if (result == ncclSuccess && ids > 0) RouteInit(made, ranks, id[0], rank, config);
    };
    init(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommShrink) {
    const auto aborts = [](ncclComm_t parent, int*, int, ncclComm_t*, const ncclConfig_t*,
                           int flags) {
      if ((flags & NCCL_SHRINK_ABORT) != 0) RouteRevoke(parent);
    };
    aborts(arguments...);
    const ncclResult_t result = real();
    const auto shrink = [&](ncclComm_t parent, int*, int, ncclComm_t* made,
                            const ncclConfig_t* config, int) {
      if (result == ncclSuccess) RouteShrink(parent, made, config);
    };
    shrink(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommFinalize) {
    RouteFinalize(arguments...);
    return real();
  } else if constexpr (kCall == ring::kCall_ncclCommDestroy) {
    RouteDestroy(arguments...);
    return real();
  } else if constexpr (kCall == ring::kCall_ncclCommAbort) {
    RouteAbort(arguments...);
    return real();
  } else if constexpr (kCall == ring::kCall_ncclCommRevoke) {
    const auto revoke = [](ncclComm_t comm, int) { RouteRevoke(comm); };
    revoke(arguments...);
    return real();
  } else if constexpr (kCall == ring::kCall_ncclCommRegister) {
    const ncclResult_t result = real();
    const auto registered = [&](ncclComm_t comm, void* memory, size_t bytes, void** handle) {
      if (result == ncclSuccess && handle != nullptr) RouteRegister(comm, memory, bytes, *handle);
    };
    registered(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommWindowRegister) {
    const ncclResult_t result = real();
    const auto registered = [&](ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window,
                                int) {
      if (result == ncclSuccess) RouteWindow(comm, memory, bytes, window);
    };
    registered(arguments...);
    return result;
  } else if constexpr (kCall == ring::kCall_ncclCommDeregister ||
                       kCall == ring::kCall_ncclCommWindowDeregister) {
    RouteDeregister(arguments...);
    return real();
  } else if constexpr (kPayload == ring::PayloadKind::kSignal) {
    NoteForeignWork(Pick<cudaStream_t>(nullptr, arguments...));
    return real();
  } else if constexpr (kCall == ring::kCall_ncclCommGetAsyncError) {
    const ncclResult_t result = real();
    if (result == ncclSuccess) RouteAsyncError(arguments...);
    return result;
  } else {
    return real();
  }
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_COLLECTIVES_ROUTE_H_
