// One rank of a job of MPI and NCCL, started by mpirun. The last rank is in MPI_Barrier while the
// others wait for it in an all-reduce, behind which they come to the barrier. --twin: it comes to
// the all-reduce first, too.
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                                 \
  do {                                                           \
    if (static_cast<int>(call) != 0) {                           \
      fprintf(stderr, "%s failed (line %d)\n", #call, __LINE__); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

int main(int argc, char** argv) {
  const bool twin = argc > 1 && strcmp(argv[1], "--twin") == 0;
  OK(MPI_Init(&argc, &argv));
  int rank = 0, ranks = 0;
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  ncclUniqueId id;
  if (rank == 0) OK(ncclGetUniqueId(&id));
  OK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
  OK(cudaSetDevice(rank));
  cudaStream_t stream;
  float* buffer;
  OK(cudaStreamCreate(&stream));
  OK(cudaMalloc(reinterpret_cast<void**>(&buffer), 4096));
  ncclComm_t world;
  OK(ncclCommInitRank(&world, ranks, id, rank));
  const bool early = !twin && rank == ranks - 1;
  for (int step = 0; step < 2; ++step) {
    if (step == 1 && early) OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, world, stream));
    OK(cudaStreamSynchronize(stream));
  }
  if (!early) OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(ncclCommDestroy(world));
  OK(MPI_Finalize());
  return 0;
}
