// Where the arguments of a call say what its row is about: by the row's effect and the types of the
// arguments, all at compile time.
#ifndef GORDIAN_INTERPOSE_ENTRY_CALL_ROWS_H_
#define GORDIAN_INTERPOSE_ENTRY_CALL_ROWS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <type_traits>

#include "interpose/describe/copy_kinds.h"
#include "interpose/describe/describe_nccl.h"
#include "interpose/entry/nccl_newer.h"
#include "interpose/sources/stub_compute.h"

namespace gordian::interpose {

constexpr bool IsNccl(CallId call) { return ring::kCalls[call].library == ring::Library::kNccl; }

constexpr bool IsPerThread(CallId call) { return ring::kCalls[call].Has(ring::kPerThread); }

// Whether a launch of a kernel is left out (interpose/sources/stub_compute.h).
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

// The stream of a launch, a copy or an event call; null where the row says that it has none.
template <CallId kCall, typename... Arguments>
void* StreamArgument(const Arguments&... arguments) {
  constexpr bool kNamesStream = kTakes<cudaStream_t, Arguments...> ||
                                kTakes<const cudaLaunchConfig_t*, Arguments...> ||
                                kTakes<const CUlaunchConfig*, Arguments...>;
  static_assert(kNamesStream != ring::kCalls[kCall].Has(ring::kDefaultStream),
                "a row works on the stream that an argument names, or on the default stream");
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
  if constexpr (ring::kCalls[kCall].meaning == ring::Meaning::kBroadcast &&
                !kTakes<const void*, Arguments...>) {
    a.send = a.receive;  // ncclBcast: one buffer for both
  }
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

// The graph that a call is about: what came out of the end of a capture, the inner one where a
// graph becomes a node of another, else the only one.
template <CallId kCall, typename... Arguments>
uint64_t GraphArgument(const Arguments&... arguments) {
  cudaGraph_t graph = nullptr;
  if constexpr (ring::kCalls[kCall].graph == ring::GraphCall::kEndCapture) {
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

#endif  // GORDIAN_INTERPOSE_ENTRY_CALL_ROWS_H_
