// One rank of a job whose launcher is another program: its number and the number of ranks come from
// the launcher's environment, as libraries find them. Nothing of MPI is linked.
//
//   launched_rank FOLDER [--twin] [--rank N --ranks N] [--until FILE]
//
// FOLDER is where ranks meet; it must be empty. Ranks all-reduce on two communicators, on one
// stream; the last rank in the other order, unless --twin. With --until they all-reduce until rank
// 0 sees the file, before that.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#define OK(call)                                                 \
  do {                                                           \
    if (static_cast<int>(call) != 0) {                           \
      fprintf(stderr, "%s failed (line %d)\n", #call, __LINE__); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

namespace {

int FromEnvironment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = getenv(name);
    if (value != nullptr && *value != '\0') return atoi(value);
  }
  return -1;
}

ncclUniqueId Meet(const std::string& path, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    OK(ncclGetUniqueId(&id));
    FILE* const file = fopen((path + ".new").c_str(), "w");
    OK(file == nullptr);
    OK(fwrite(&id, sizeof id, 1, file) != 1);
    OK(fclose(file));
    OK(rename((path + ".new").c_str(), path.c_str()));
  }
  FILE* file = nullptr;
  while ((file = fopen(path.c_str(), "r")) == nullptr) usleep(2000);
  OK(fread(&id, sizeof id, 1, file) != 1);
  fclose(file);
  return id;
}

}  // namespace

int main(int argc, char** argv) {
  int rank =
      FromEnvironment({"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"});
  int ranks = FromEnvironment({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  bool twin = false;
  const char* until = nullptr;
  for (int i = 2; i < argc; ++i) {
    if (strcmp(argv[i], "--twin") == 0) twin = true;
    if (strcmp(argv[i], "--rank") == 0)
      rank = atoi(argv[++i]);
    else if (strcmp(argv[i], "--ranks") == 0)
      ranks = atoi(argv[++i]);
    else if (strcmp(argv[i], "--until") == 0)
      until = argv[++i];
  }
  if (argc < 2 || rank < 0 || ranks < 2) {
    fprintf(stderr, "no folder, or no launcher's variables\n");
    return 2;
  }
  const std::string folder = argv[1];
  OK(cudaSetDevice(rank));
  cudaStream_t stream;
  float* buffer;
  OK(cudaStreamCreate(&stream));
  OK(cudaMalloc(reinterpret_cast<void**>(&buffer), 4096));
  ncclComm_t comms[2];
  for (int i = 0; i < 2; ++i) {
    OK(ncclCommInitRank(&comms[i], ranks, Meet(folder + "/id" + std::to_string(i), rank), rank));
    OK(ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comms[i], stream));
    OK(cudaStreamSynchronize(stream));
  }
  for (float end = 0; until != nullptr && end == 0;) {  // all ranks learn it from rank 0
    end = access(until, F_OK) == 0 ? 1 : 0;
    OK(cudaMemcpy(buffer, &end, sizeof end, cudaMemcpyHostToDevice));
    OK(ncclBroadcast(buffer, buffer, 1, ncclFloat, 0, comms[0], stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&end, buffer, sizeof end, cudaMemcpyDeviceToHost));
    usleep(5000);
  }
  const int first = !twin && rank == ranks - 1 ? 1 : 0;
  OK(ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comms[first], stream));
  OK(ncclAllReduce(buffer, buffer, 16, ncclFloat, ncclSum, comms[1 - first], stream));
  OK(cudaStreamSynchronize(stream));
  for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
  return 0;
}
