// Which device a rank has. More ranks than devices: in turns. Their kernels wait for each other, so
// they must be able to run at once, which processes that share a device do only under MPS
// (tests/gpu/mps.sh).
#ifndef GORDIAN_TESTS_GPU_RUNTIME_RANK_DEVICE_H_
#define GORDIAN_TESTS_GPU_RUNTIME_RANK_DEVICE_H_

#include <cuda_runtime_api.h>

namespace gordian::testing {

// Without a device this is the rank: what uses it says why it fails.
inline int DeviceOf(int rank) {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 ? rank % devices : rank;
}

}  // namespace gordian::testing

#endif  // GORDIAN_TESTS_GPU_RUNTIME_RANK_DEVICE_H_
