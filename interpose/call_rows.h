// What a row of the table is about, and where its arguments say it: by its payload column, its
// name, and the types of its arguments, all at compile time.
#ifndef GORDIAN_INTERPOSE_CALL_ROWS_H_
#define GORDIAN_INTERPOSE_CALL_ROWS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <type_traits>

#include "interpose/copy_kinds.h"
#include "interpose/describe_nccl.h"
#include "interpose/nccl_newer.h"
#include "interpose/stub_compute.h"

namespace gordian::interpose {

constexpr bool NameHas(CallId call, const char* part) {
  for (const char* at = ring::kCalls[call].name; *at != '\0'; ++at) {
    const char* a = at;
    const char* b = part;
    while (*b != '\0' && *a == *b) ++a, ++b;
    if (*b == '\0') return true;
  }
  return false;
}

constexpr bool IsNccl(CallId call) { return ring::kCalls[call].library[0] == 'n'; }
constexpr bool IsPerThread(CallId call) { return NameHas(call, "_ptsz") || NameHas(call, "_ptds"); }
constexpr bool ChangesDevice(CallId call) {
  return call == ring::kCall_cudaSetDevice || NameHas(call, "PrimaryCtxReset") ||
         (NameHas(call, "cuCtx") && !NameHas(call, "Synchronize") && !NameHas(call, "Event"));
}

// After these calls nothing is known any more of what the event stands behind: it is another one,
// or none, or was recorded on a whole context.
constexpr bool MakesEvent(CallId call) {
  return NameHas(call, "EventCreate") || NameHas(call, "OpenEventHandle");
}
constexpr bool DestroysEvent(CallId call) { return NameHas(call, "EventDestroy"); }
constexpr bool RecordsContext(CallId call) { return NameHas(call, "CtxRecordEvent"); }

// Calls after which others may write memory of this process, or it sees memory of others.
constexpr bool SharesMemory(CallId call) {
  return NameHas(call, "IpcGetMemHandle") || NameHas(call, "IpcOpenMemHandle") ||
         NameHas(call, "HandleForAddressRange");
}
constexpr bool WorksOnMemory(CallId call) {
  return NameHas(call, "StreamWaitValue") || NameHas(call, "StreamWriteValue") ||
         NameHas(call, "BatchMemOp");
}

constexpr ring::WorkKind WorkKindOf(CallId call) {
  if (NameHas(call, "EventRecord")) return ring::WorkKind::kEventRecord;
  if (NameHas(call, "StreamWaitEvent")) return ring::WorkKind::kEventWait;
  if (NameHas(call, "LaunchHostFunc") || NameHas(call, "AddCallback")) {
    return ring::WorkKind::kHostFunction;
  }
  if (NameHas(call, "GraphLaunch")) return ring::WorkKind::kGraphLaunch;
  return ring::WorkKind::kKernels;
}

constexpr ring::WaitKind WaitKindOf(CallId call) {
  if (NameHas(call, "StreamSynchronize")) return ring::WaitKind::kStream;
  if (NameHas(call, "EventSynchronize")) return ring::WaitKind::kEvent;
  if (NameHas(call, "DeviceSynchronize") || NameHas(call, "CtxSynchronize") ||
      NameHas(call, "DeviceReset") || NameHas(call, "PrimaryCtxReset")) {
    return ring::WaitKind::kDevice;
  }
  if (NameHas(call, "Free") || NameHas(call, "Unregister")) return ring::WaitKind::kFree;
  return ring::WaitKind::kCopy;
}

constexpr bool CopiesAsync(CallId call) {
  return ring::kCalls[call].payload == ring::PayloadKind::kStreamWork && NameHas(call, "Memcpy") &&
         NameHas(call, "Async");
}

// A launch of one kernel.
constexpr bool LaunchesKernel(CallId call) {
  return (NameHas(call, "LaunchKernel") || NameHas(call, "LaunchCooperativeKernel")) &&
         !NameHas(call, "MultiDevice");
}

// Whether a launch of a kernel is left out (interpose/stub_compute.h).
template <typename... Arguments>
bool IsStubbedLaunch(const Arguments&... arguments) {
  if constexpr (kTakes<const cudaLaunchConfig_t*, Arguments...>) {
    if (RecordsEvent(Pick<const cudaLaunchConfig_t*>(nullptr, arguments...))) return false;
  } else if constexpr (kTakes<const CUlaunchConfig*, Arguments...>) {
    if (RecordsEvent(Pick<const CUlaunchConfig*>(nullptr, arguments...))) return false;
  }
  if constexpr (kTakes<CUfunction, Arguments...>) {
    return IsStubbed(Pick<CUfunction>(nullptr, arguments...));
  } else if constexpr (kTakes<cudaKernel_t, Arguments...>) {
    return IsStubbed(Pick<cudaKernel_t>(nullptr, arguments...));
  } else {
    static_assert(kTakes<const void*, Arguments...>);
    return IsStubbed(Pick<const void*>(nullptr, arguments...));
  }
}

// The stream of a launch, a copy or an event call; 0 where the call has no such argument.
template <typename... Arguments>
void* StreamArgument(const Arguments&... arguments) {
  if constexpr (kTakes<const cudaLaunchConfig_t*, Arguments...>) {
    const auto* config = Pick<const cudaLaunchConfig_t*>(nullptr, arguments...);
    return config != nullptr ? config->stream : nullptr;
  } else if constexpr (kTakes<const CUlaunchConfig*, Arguments...>) {
    const auto* config = Pick<const CUlaunchConfig*>(nullptr, arguments...);
    return config != nullptr ? config->hStream : nullptr;
  } else {
    return Pick<cudaStream_t>(nullptr, arguments...);
  }
}

template <CallId kCall, typename... Arguments>
OperationArguments DescribeOperation(const Arguments&... arguments) {
  static_assert(kTakes<ncclComm_t, Arguments...> && kTakes<cudaStream_t, Arguments...> &&
                kTakes<size_t, Arguments...> && kTakes<ncclDataType_t, Arguments...>);
  OperationArguments a;
  a.send = Pick<const void*>(nullptr, arguments...);
  a.receive = Pick<void*>(nullptr, arguments...);
  a.count = Pick<size_t>(0, arguments...);
  a.datatype = Pick<ncclDataType_t>(ncclInt8, arguments...);
  if constexpr (kTakes<ncclRedOp_t, Arguments...>) {
    a.reduce_op = Pick<ncclRedOp_t>(ncclSum, arguments...);
  }
  a.root_or_peer = Pick<int>(-1, arguments...);
  a.comm = Pick<ncclComm_t>(nullptr, arguments...);
  a.stream = Pick<cudaStream_t>(nullptr, arguments...);
  return a;
}

// RMA: what the call sends, as the one signal that a wait for it would name, or what it waits for.
inline OperationArguments DescribeSignals(int count, GordianNcclWaitSignalDesc* signals,
                                          ncclComm_t comm, cudaStream_t stream,
                                          GordianNcclWaitSignalDesc*) {
  OperationArguments a;
  a.comm = comm;
  a.stream = stream;
  a.signals = signals;
  a.signal_count = count;
  return a;
}
inline OperationArguments DescribeSignals(int peer, int index, int context, unsigned,
                                          ncclComm_t comm, cudaStream_t stream,
                                          GordianNcclWaitSignalDesc* sent) {
  *sent = {1, peer, index, context};
  return DescribeSignals(1, sent, comm, stream, sent);
}
inline OperationArguments DescribeSignals(const void*, size_t, ncclDataType_t, int peer,
                                          ncclWindow_t, size_t, int index, int context,
                                          unsigned flags, ncclComm_t comm, cudaStream_t stream,
                                          GordianNcclWaitSignalDesc* sent) {
  return DescribeSignals(peer, index, context, flags, comm, stream, sent);
}

constexpr ring::GraphCall GraphCallOf(CallId call) {
  if (NameHas(call, "EndCapture")) return ring::GraphCall::kEndCapture;
  if (NameHas(call, "Instantiate") || NameHas(call, "ExecUpdate")) {
    return ring::GraphCall::kInstantiate;
  }
  if (NameHas(call, "ExecDestroy")) return ring::GraphCall::kExecDestroy;
  if (NameHas(call, "GraphDestroy")) return ring::GraphCall::kDestroy;
  if (NameHas(call, "GraphClone")) return ring::GraphCall::kClone;
  return ring::GraphCall::kNest;
}

// The graph that a call is about: what came out of the end of a capture, the inner one where a
// graph becomes a node of another, else the only one.
template <CallId kCall, typename... Arguments>
uint64_t GraphArgument(const Arguments&... arguments) {
  cudaGraph_t graph = nullptr;
  if constexpr (NameHas(kCall, "EndCapture")) {
    const auto* made = Pick<cudaGraph_t*>(nullptr, arguments...);
    graph = made != nullptr ? *made : nullptr;
  } else if constexpr (kTakes<cudaGraphNodeParams*, Arguments...>) {
    const auto* node = Pick<cudaGraphNodeParams*>(nullptr, arguments...);
    if (node != nullptr && node->type == cudaGraphNodeTypeGraph) graph = node->graph.graph;
  } else if constexpr (kTakes<CUgraphNodeParams*, Arguments...>) {
    const auto* node = Pick<CUgraphNodeParams*>(nullptr, arguments...);
    if (node != nullptr && node->type == CU_GRAPH_NODE_TYPE_GRAPH) graph = node->graph.graph;
  } else {
    const auto last = [&graph](const auto& argument) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(argument)>, cudaGraph_t>) {
        graph = argument;
      }
    };
    (last(arguments), ...);
  }
  return reinterpret_cast<uint64_t>(graph);
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_CALL_ROWS_H_
