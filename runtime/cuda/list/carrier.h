// Carriers: the kernels that run an operation on its caller's stream. One block a channel.
//
// Thread rule: any thread, with the device current. Nothing blocks but PreloadCarriers.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_CARRIER_H_
#define GORDIAN_RUNTIME_CUDA_LIST_CARRIER_H_

#include <cuda_runtime_api.h>

#include <vector>

#include "runtime/cuda/list/help_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// Runs every kernel once, with nothing to do. The first launch of a kernel may wait until the
// device is idle: it is loaded, and the memory of all threads' stacks grows if it needs more than
// those before it. If a kernel on the device waits for an operation that is still to be launched,
// that launch would never return. The caller waits for the stream.
cudaError_t PreloadCarriers(cudaStream_t stream);

// Enqueues the operation's kernel with so many places (places.h). It can use one a channel; with
// fewer it is as correct, and slower. `early`: its blocks may come onto the device while the kernel
// before it on the stream is ending (programmatic dependent launch); they wait for its end before
// anything else. Not on a captured stream.
cudaError_t LaunchCarrier(const Work& work, const HelpList& help, uint32_t places, bool early,
                          cudaStream_t stream);

// Several sends and receives of one communicator, carried in one way, in one kernel, side by side;
// not more than its other members times two. Each block carries channels of any of them (shares.h),
// as many as there are places for.
uint32_t PlacesForSeveral(const std::vector<const Work*>& works);
// `entries`: as published; `kernel`: of HelpStream::Join.
cudaError_t LaunchSeveral(const std::vector<const Work*>& works,
                          const std::vector<HelpList>& entries, const HelpList& kernel,
                          uint32_t places, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_CARRIER_H_
