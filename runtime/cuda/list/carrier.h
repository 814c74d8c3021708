// Launches carriers: the kernels that run an operation on its caller's stream. A block carries one
// channel, or several if the kernel gets fewer places than the operation has channels.
//
// Thread rule: any thread, with the device current. Only PreloadCarriers may block. Ownership:
// launches copy their arguments. Errors: CUDA's.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_CARRIER_H_
#define GORDIAN_RUNTIME_CUDA_LIST_CARRIER_H_

#include <cuda_runtime_api.h>

#include <vector>

#include "runtime/cuda/list/help_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// Launches every kernel once, with nothing to do; the caller then waits for the stream. The first
// launch of a kernel may wait until the device is idle: CUDA loads the kernel, and grows the memory
// of all threads' stacks if it needs more than earlier ones. If a kernel on the device waited for
// an operation that is not launched yet, such a launch would never return.
cudaError_t PreloadCarriers(cudaStream_t stream);

// Enqueues the operation's kernel with so many places (places.h). It can use one for each channel;
// with fewer it is slower. `early`: the device may start its blocks while the kernel before it on
// the stream is ending (programmatic dependent launch); they first wait for that end. Not for a
// captured stream.
cudaError_t LaunchCarrier(const Work& work, const HelpList& help, uint32_t places, bool early,
                          cudaStream_t stream);

// One kernel for several sends and receives of one communicator that are carried in one way
// (WayOf): at most one of each for every other member. Each block carries channels of any of them
// (shares.h). PlacesForSeveral: how many places the kernel can use.
uint32_t PlacesForSeveral(const std::vector<const Work*>& works);
// Enqueues it. `entries`: of the operations, from HelpStream::Publish; `kernel`: from
// HelpStream::Join.
cudaError_t LaunchSeveral(const std::vector<const Work*>& works,
                          const std::vector<HelpList>& entries, const HelpList& kernel,
                          uint32_t places, cudaStream_t stream);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_CARRIER_H_
