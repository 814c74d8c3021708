// Carriers: the kernels that run an operation on its caller's stream. One block a channel.
//
// Thread rule: any thread, with the device current. Nothing blocks but PreloadCarriers.
#ifndef GORDIAN_RUNTIME_CUDA_CARRIER_H_
#define GORDIAN_RUNTIME_CUDA_CARRIER_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/help_device.h"
#include "runtime/cuda/work.h"

namespace gordian::runtime::cuda {

// Loads every kernel now, and launches it with nothing to do: what a first launch may need, its code and local memory
// for its stack, is allocated when the device has come to rest, which it does not while a kernel waits for that launch.
cudaError_t PreloadCarriers();

// Enqueues the operation's kernel. `early`: its blocks may come onto the device while the kernel before it on the stream is
// ending (programmatic dependent launch); they wait for its end before anything else. Not on a captured stream.
cudaError_t LaunchCarrier(const Work& work, const HelpList& help, bool early, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_CARRIER_H_
