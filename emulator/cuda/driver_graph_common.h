// Shared by the driver API's files on graphs.
#ifndef GORDIAN_EMULATOR_CUDA_DRIVER_GRAPH_COMMON_H_
#define GORDIAN_EMULATOR_CUDA_DRIVER_GRAPH_COMMON_H_

#include "emulator/cuda/driver_common.h"
#include "emulator/engine/graph_api.h"

namespace gordian::emu {

inline GraphEngine& Graphs() { return TheEngine().Graphs(); }

// CUDA's arrays of handles and of edges, as the engine takes them.
inline void* const* Handles(const CUgraphNode* nodes) {
  return reinterpret_cast<void* const*>(nodes);
}
inline void** Handles(CUgraphNode* nodes) { return reinterpret_cast<void**>(nodes); }
inline const EdgeData* Edges(const CUgraphEdgeData* edges) {
  static_assert(sizeof(CUgraphEdgeData) == sizeof(EdgeData));
  return reinterpret_cast<const EdgeData*>(edges);
}
inline EdgeData* Edges(CUgraphEdgeData* edges) { return reinterpret_cast<EdgeData*>(edges); }

// A kernel of this library with a shape that the device takes; adds its duration.
CUresult CheckKernelParams(KernelParams* params);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDA_DRIVER_GRAPH_COMMON_H_
