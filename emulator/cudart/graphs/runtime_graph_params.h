// Converts between the runtime API's descriptions of nodes and the engine's.
#ifndef GORDIAN_EMULATOR_CUDART_GRAPHS_RUNTIME_GRAPH_PARAMS_H_
#define GORDIAN_EMULATOR_CUDART_GRAPHS_RUNTIME_GRAPH_PARAMS_H_

#include <cuda_runtime_api.h>

#include "emulator/engine/graph/graph_api.h"

namespace gordian::emu {

// These check everything that needs no engine, and do not set the last error.
cudaError_t MakeKernelParams(const void* function, dim3 grid, dim3 block, size_t shared_bytes,
                             void** arguments, KernelParams* params);
cudaError_t ToParams(const cudaKernelNodeParams* from, NodeParams* to);
cudaError_t ToParams(const cudaMemcpy3DParms* from, NodeParams* to);
cudaError_t ToParams(const cudaMemsetParams* from, NodeParams* to);
cudaError_t ToParams(const cudaHostNodeParams* from, NodeParams* to);
cudaError_t ToParams(const cudaMemAllocNodeParams* from, NodeParams* to);
cudaError_t ToParams(const cudaGraphNodeParams* from, NodeParams* to);
NodeParams CopyOf(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

// The node owns the memory behind pointers in the result.
cudaError_t FromParams(const NodeParams& from, cudaKernelNodeParams* to);
void FromParams(const NodeParams& from, cudaMemcpy3DParms* to);
void FromParams(const NodeParams& from, cudaMemsetParams* to);
void FromParams(const NodeParams& from, cudaHostNodeParams* to);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_CUDART_GRAPHS_RUNTIME_GRAPH_PARAMS_H_
