// A rank that others wait for is held up by something that is no call of NCCL.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/jobs/job.h"

namespace {

bool Guilty(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }

}  // namespace

JOB(loader_stalls, 2) {
  // A process that loads data writes batches into a pipe. That of the last rank gets stuck in a
  // file that another program never writes.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  int ends[2], file[2];
  if (pipe(ends) != 0 || pipe(file) != 0) std::_Exit(7);
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char batch = 0;
    if (Guilty(c) && read(file[0], &batch, 1) != 1) std::_Exit(1);
    for (;;) {  // until the pipe has no reader
      if (write(ends[1], &batch, 1) != 1) std::_Exit(1);
    }
  }
  close(ends[1]);
  for (int step = 0; step < 3; ++step) {
    c.Step("batch");
    char batch = 0;
    if (read(ends[0], &batch, 1) != 1) std::_Exit(7);
    c.AllReduce(world, s);
    c.Sync(s);
  }
}

JOB(blocked_in_teardown, 2) {
  // The last rank leaves through exit(), where a handler waits for a child that does not end.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) {
    std::atexit([] {
      int ends[2];
      if (pipe(ends) != 0) return;
      const pid_t child = fork();
      if (child == 0) {  // ends with its parent, whose end of the pipe goes with it
        close(ends[1]);
        char byte = 0;
        if (read(ends[0], &byte, 1) < 0) std::_Exit(1);
        std::_Exit(0);
      }
      waitpid(child, nullptr, 0);
    });
    c.Step("exit");
    std::exit(0);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(endless_kernel, 2) {
  // Every rank has called the all-reduce; on the last rank's stream a kernel stands before it that
  // does not end while anybody looks.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  c.Step("kernel");
  c.BusyKernel(s, Guilty(c) ? 3600 : 0.1);
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(blocking_launches, 2) {
  // Two communicators in opposite orders on streams of their own, which is well, unless each launch
  // blocks its thread until it is done (CUDA_LAUNCH_BLOCKING=1).
  cudaStream_t one = c.Stream(), other = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  c.Warm(dp, one);
  c.Warm(tp, other);
  c.Begin(one);
  if (c.rank == 0) {
    c.AllReduce(dp, one);
    c.AllReduce(tp, other);
  } else {
    c.AllReduce(tp, other);
    c.AllReduce(dp, one);
  }
  c.Sync(one);
  c.Sync(other);
}

JOB(same_device, 2) {
  // Two ranks of one communicator on one GPU: NCCL refuses, and every rank ends with an error.
  if (!c.twin) CUDA_OK(cudaSetDevice(0));
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
}
