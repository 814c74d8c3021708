// Jobs that go on until they are told: something can happen to whoever watches them meanwhile.
#include <unistd.h>

#include "tests/e2e/jobs/job.h"

namespace {

// Steps of an all-reduce each until the file that JOB_UNTIL names exists. Rank 0 looks, and all
// learn of it by the same all-reduce: nobody makes a step more than another.
void StepUntilTold(job::Context& c, ncclComm_t comm, cudaStream_t stream) {
  const char* until = std::getenv("JOB_UNTIL");
  const char* pause = std::getenv("JOB_STEP_US");
  const auto pause_us = static_cast<useconds_t>(pause == nullptr ? 1000 : std::atoi(pause));
  float* flag = c.Buffer(1);
  float* sum = c.Buffer(1);
  while (true) {
    const float seen = c.rank == 0 && (until == nullptr || access(until, F_OK) == 0) ? 1 : 0;
    CUDA_OK(cudaMemcpy(flag, &seen, sizeof seen, cudaMemcpyHostToDevice));
    c.Step("step");
    NCCL_OK(ncclAllReduce(flag, sum, 1, ncclFloat, ncclSum, comm, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    float told = 0;
    CUDA_OK(cudaMemcpy(&told, sum, sizeof told, cudaMemcpyDeviceToHost));
    if (told > 0) return;
    if (pause_us > 0) usleep(pause_us);
  }
}

}  // namespace

// Then the last rank takes two communicators in the other order than the rest.
JOB(steady_then_inversion, 2) {
  ncclComm_t a = c.MakeComm("dp", c.All());
  ncclComm_t b = c.MakeComm("tp", c.All());
  cudaStream_t stream = c.Stream();
  c.Warm(a, stream);
  c.Warm(b, stream);
  c.Begin(stream);
  StepUntilTold(c, a, stream);
  const bool other = !c.twin && c.rank == c.nranks - 1;
  c.AllReduce(other ? b : a, stream);
  c.AllReduce(other ? a : b, stream);
  c.Sync(stream);
}
