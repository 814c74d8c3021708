// A rank that others wait for does not come: busy elsewhere, gone, stopped, or out of the
// communicator.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {
bool Guilty(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }
}  // namespace

JOB(missing_rank, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) c.SleepInUserCode(3600);
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(gives_up, 3) {
  // The last rank comes when it is sent SIGUSR2. Rank 0 has a watchdog, as training frameworks
  // have: at SIGUSR1 it aborts the communicator that its rank waits in, and at SIGHUP it ends the
  // process.
  sigset_t commands;
  sigemptyset(&commands);
  for (const int command : {SIGUSR1, SIGUSR2, SIGHUP}) sigaddset(&commands, command);
  pthread_sigmask(SIG_BLOCK, &commands, nullptr);
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  if (c.rank == 0) {
    std::thread([commands, world] {
      for (int command = 0; sigwait(&commands, &command) == 0;) {
        if (command == SIGHUP) std::abort();
        if (command == SIGUSR1) NCCL_OK(ncclCommAbort(world));
      }
    }).detach();
  }
  c.Begin(s);
  int command = 0;
  if (c.rank == c.nranks - 1) sigwait(&commands, &command);
  c.AllReduce(world, s);
  c.Sync(s);
  if (c.rank == 0) c.SleepInUserCode(c.twin ? 0 : 3600);  // until its watchdog ends it
}

JOB(spinning_rank, 2) {
  // As missing_rank, but the rank computes instead of sleeping.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  volatile unsigned long long x = 0;
  while (Guilty(c)) x = x + 1;
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(one_too_many, 2) {
  // Uneven inputs: rank 0 has one batch more; the others have gone on to save a checkpoint.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  int batches = 3 + (!c.twin && c.rank == 0 ? 1 : 0);
  for (int i = 0; i < batches; ++i) c.AllReduce(world, s);
  c.Sync(s);
  c.SleepInUserCode(c.twin ? 0.01 : 3600);
}

JOB(one_too_many_others_go_on, 2) {
  // Rank 0 has one batch more, and the others meanwhile broadcast on the same communicator.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  float* buffer = c.Buffer(1 << 20);
  c.Warm(world, s);
  c.Begin(s);
  int batches = 3 + (!c.twin && c.rank == 0 ? 1 : 0);
  for (int i = 0; i < batches; ++i) c.AllReduce(world, s);
  c.Step("broadcast");
  NCCL_OK(ncclBroadcast(buffer, buffer, 1024, ncclFloat, 0, world, s));
  c.Sync(s);
}

JOB(exited_rank, 3) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) {
    c.Step("exit");
    std::_Exit(0);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(killed_rank, 3) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) {
    c.Step("kill");
    raise(SIGKILL);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(stopped_rank, 3) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) {
    c.Step("stop");
    raise(SIGSTOP);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(aborted_rank, 3) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (Guilty(c)) {
    c.Step("abort");
    NCCL_OK(ncclCommAbort(world));
    c.SleepInUserCode(3600);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(leaves_early, 3) {
  // Innocent as it stands: the last rank takes part in all that it is needed for and goes; the
  // others work on for longer than it takes to suspect anybody.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  std::vector<int> rest = c.All();
  rest.pop_back();
  ncclComm_t some = c.MakeComm("rest", rest);
  c.Warm(world, s);
  c.Warm(some, s);
  c.Begin(s);
  c.AllReduce(world, s);
  c.Sync(s);
  if (some == nullptr) return;
  for (int i = 0; i < 50; ++i) {
    c.AllReduce(some, s);
    c.Sync(s);
    c.SleepInUserCode(0.1);
  }
}
