// What programs of job.cc begin with: checks that end the program, a stream, a communicator, a
// call.
#ifndef GORDIAN_TESTS_UNIT_INTERPOSE_JOB_CALLS_H_
#define GORDIAN_TESTS_UNIT_INTERPOSE_JOB_CALLS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <type_traits>

inline void Check(bool right, const char* what, const char* file, int line) {
  if (right) return;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
  _exit(1);
}
#define CHECK(condition) Check((condition), #condition, __FILE__, __LINE__)

inline float g_buffer[64];
inline cudaStream_t MakeStream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess);
  return stream;
}
inline ncclComm_t MakeComm(int nranks = 2, int rank = 0) {
  ncclUniqueId id = {};
  std::strcpy(id.internal, "the id");
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, nranks, id, rank) == ncclSuccess);
  return comm;
}
inline ncclResult_t AllReduce(ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(g_buffer, g_buffer, 16, ncclFloat, ncclSum, comm, stream);
}
inline cudaError_t Launch(cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(&g_buffer), dim3(1), dim3(1), nullptr, 0,
                          stream);
}

// An argument for a row of the table.
template <typename T>
T Default() {
  if constexpr (std::is_same_v<T, void*>) {
    return g_buffer;
  } else if constexpr (std::is_same_v<T, CUdeviceptr>) {
    return 4096;
  } else {
    return T{};
  }
}

#endif  // GORDIAN_TESTS_UNIT_INTERPOSE_JOB_CALLS_H_
