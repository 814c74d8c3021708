// The base of cases and benches of the CUDA backend: one rank's part, which ends the rank at the
// first error.
//
// Thread rule: as RankProcess.
#ifndef GORDIAN_RUNTIME_TESTING_CHECKED_RANK_H_
#define GORDIAN_RUNTIME_TESTING_CHECKED_RANK_H_

#include <cuda_runtime_api.h>

#include <cstdio>

#include "common/status.h"
#include "runtime/testing/ranks.h"

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

#endif  // GORDIAN_RUNTIME_TESTING_CHECKED_RANK_H_
