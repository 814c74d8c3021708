// A rank's NCCL, for a Python program to call by ctypes: one communicator, one stream.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <string.h>

namespace {

ncclComm_t comm;
cudaStream_t stream;
float* buffer;

}  // namespace

extern "C" {

int rank_id_bytes() { return sizeof(ncclUniqueId); }

int rank_make_id(char* to) {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  memcpy(to, &id, sizeof id);
  return result;
}

int rank_init(int ranks, const char* from, int rank) {
  ncclUniqueId id;
  memcpy(&id, from, sizeof id);
  if (cudaSetDevice(rank) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess ||
      cudaMalloc(reinterpret_cast<void**>(&buffer), 4096) != cudaSuccess) {
    return -1;
  }
  return ncclCommInitRank(&comm, ranks, id, rank);
}

int rank_all_reduce() {
  return ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comm, stream);
}

int rank_synchronize() { return cudaStreamSynchronize(stream); }

int rank_end() { return ncclCommDestroy(comm); }
}
