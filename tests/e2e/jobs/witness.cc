// Runs what `gordian simulate --witness` wrote: every rank's collectives and waits in its order. In
// the simulated model collectives hold up nothing but waits, so each has a communicator and a
// stream of its own; a wait is for the whole device. JOB_WITNESS names a file of numbers
// (tests/e2e/witness.py):
//
//   GPUS COLLECTIVES, then of each collective SIZE MEMBER..., then of each GPU LENGTH ENTRY...
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/jobs/job.h"

namespace {

std::vector<int> List(std::ifstream& file) {
  int size = 0;
  file >> size;
  std::vector<int> list(file ? static_cast<size_t>(size) : 0);
  for (int& entry : list) file >> entry;
  return list;
}

}  // namespace

JOB(witness, 2) {
  const char* path = std::getenv("JOB_WITNESS");
  std::ifstream file(path == nullptr ? "" : path);
  int gpus = 0;
  int collectives = 0;
  file >> gpus >> collectives;
  std::vector<std::vector<int>> members;
  for (int i = 0; i < collectives; ++i) members.push_back(List(file));
  std::vector<std::vector<int>> sequences;
  for (int i = 0; i < gpus; ++i) sequences.push_back(List(file));
  if (!file || gpus != c.nranks) {
    std::fprintf(stderr, "JOB_WITNESS: no witness of %d ranks\n", c.nranks);
    std::_Exit(2);
  }
  std::vector<ncclComm_t> comms;
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < collectives; ++i) {
    comms.push_back(c.MakeComm("c" + std::to_string(i), members[static_cast<size_t>(i)]));
    streams.push_back(comms.back() == nullptr ? nullptr : c.Stream());
    c.Warm(comms.back(), streams.back());
  }
  c.Begin(c.Stream());
  for (const int entry : sequences[static_cast<size_t>(c.rank)]) {
    if (entry < 0) {
      c.Step("wait");
      CUDA_OK(cudaDeviceSynchronize());
      c.Step("waited");
    } else {
      c.AllReduce(comms[static_cast<size_t>(entry)], streams[static_cast<size_t>(entry)], 16);
    }
  }
  c.Step("wait for all");
  CUDA_OK(cudaDeviceSynchronize());
}
