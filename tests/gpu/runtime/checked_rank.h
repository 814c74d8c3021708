// What cases and benches of the CUDA backend are: one rank's part, where whatever is not right ends
// the rank.
//
// Thread rule: as RankProcess.
#ifndef GORDIAN_TESTS_GPU_RUNTIME_CHECKED_RANK_H_
#define GORDIAN_TESTS_GPU_RUNTIME_CHECKED_RANK_H_

#include <cuda_runtime_api.h>

#include <cstdio>

#include "common/status.h"
#include "tests/gpu/runtime/ranks.h"

namespace gordian::testing {

class CheckedRank {
 protected:
  // `process` must outlive this object.
  explicit CheckedRank(RankProcess& process) : p_(process) {}
  void Must(const Status& status) {
    if (!status.ok()) p_.Fail(status.ToString());
  }
  void Must(cudaError_t error) {
    if (error != cudaSuccess) p_.Fail(cudaGetErrorString(error));
  }
  // One line of the result, from rank 0.
  template <typename... A>
  void Say(const char* format, A... arguments) {
    if (p_.rank() != 0) return;
    printf(format, arguments...);
    fflush(stdout);
  }

  RankProcess& p_;
};

}  // namespace gordian::testing

#endif  // GORDIAN_TESTS_GPU_RUNTIME_CHECKED_RANK_H_
