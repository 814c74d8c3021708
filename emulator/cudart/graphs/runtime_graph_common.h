// What the runtime API's files on graphs share.
#ifndef GORDIAN_EMULATOR_CUDART_GRAPHS_RUNTIME_GRAPH_COMMON_H_
#define GORDIAN_EMULATOR_CUDART_GRAPHS_RUNTIME_GRAPH_COMMON_H_

#include "emulator/cudart/graphs/runtime_graph_params.h"
#include "emulator/cudart/runtime_common.h"
#include "emulator/engine/graph/graph_api.h"

namespace gordian::emu {

inline GraphEngine& Graphs() { return TheEngine().Graphs(); }

// Converts CUDA's arrays of handles and edges to the engine's.
inline void* const* Handles(const cudaGraphNode_t* nodes) {
  return reinterpret_cast<void* const*>(nodes);
}
inline void** Handles(cudaGraphNode_t* nodes) { return reinterpret_cast<void**>(nodes); }
inline const EdgeData* Edges(const cudaGraphEdgeData* edges) {
  static_assert(sizeof(cudaGraphEdgeData) == sizeof(EdgeData));
  return reinterpret_cast<const EdgeData*>(edges);
}
inline EdgeData* Edges(cudaGraphEdgeData* edges) { return reinterpret_cast<EdgeData*>(edges); }

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDART_GRAPHS_RUNTIME_GRAPH_COMMON_H_
