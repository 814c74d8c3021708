// What the driver API's files on graphs share.
#ifndef GORDIAN_EMULATOR_CUDA_GRAPHS_DRIVER_GRAPH_COMMON_H_
#define GORDIAN_EMULATOR_CUDA_GRAPHS_DRIVER_GRAPH_COMMON_H_

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/graph/graph_api.h"

namespace gordian::emu {

inline GraphEngine& Graphs() { return TheEngine().Graphs(); }

// Converts CUDA's arrays of handles and edges to the engine's.
inline void* const* Handles(const CUgraphNode* nodes) {
  return reinterpret_cast<void* const*>(nodes);
}
inline void** Handles(CUgraphNode* nodes) { return reinterpret_cast<void**>(nodes); }
inline const EdgeData* Edges(const CUgraphEdgeData* edges) {
  static_assert(sizeof(CUgraphEdgeData) == sizeof(EdgeData));
  return reinterpret_cast<const EdgeData*>(edges);
}
inline EdgeData* Edges(CUgraphEdgeData* edges) { return reinterpret_cast<EdgeData*>(edges); }

// Checks that this library owns the kernel and the device accepts its shape; adds its duration.
CUresult CheckKernelParams(KernelParams* params);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDA_GRAPHS_DRIVER_GRAPH_COMMON_H_
