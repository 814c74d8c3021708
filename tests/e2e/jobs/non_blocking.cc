// Communicators whose calls come back at once and go on by themselves (ncclConfig.blocking = 0), and
// the end of communicators.
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

bool Departs(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }

// As NCCL's documentation has it: asks until the communicator is ready.
void AwaitReady(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    NCCL_OK(ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  NCCL_OK(state);
}

void Took(ncclResult_t result) {
  if (result != ncclInProgress) NCCL_OK(result);
}

ncclComm_t Make(job::Context& c, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  c.Step("init");
  Took(ncclCommInitRankConfig(&comm, c.nranks, id, c.rank, &config));
  AwaitReady(comm);
  return comm;
}

void AllReduce(job::Context& c, ncclComm_t comm, cudaStream_t stream, float* buffer) {
  c.Step("all-reduce");
  Took(ncclAllReduce(buffer, buffer, 1024, ncclFloat, ncclSum, comm, stream));
  AwaitReady(comm);
}

}  // namespace

JOB(non_blocking_init_missing, 3) {
  // The last rank never comes; the others ask and ask.
  cudaStream_t s = c.Stream();
  float* buffer = c.Buffer(1024);
  const ncclUniqueId id = c.Id("world", 0);
  c.BeLateIfAsked();
  if (Departs(c)) c.SleepInUserCode(3600);
  AllReduce(c, Make(c, id), s, buffer);
  c.Sync(s);
}

JOB(non_blocking_init_behind, 4) {
  // Rank 0 and 1 wait for the last rank with a new communicator, and rank 2 for them.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  const ncclUniqueId id = c.Id("three", 0);
  c.Begin(s);
  if (c.rank != 2) {
    if (Departs(c)) c.SleepInUserCode(3600);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t three = nullptr;
    c.Step("init");
    Took(ncclCommInitRankConfig(&three, 3, id, c.rank == 3 ? 2 : c.rank, &config));
    AwaitReady(three);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(non_blocking_init_order, 2) {
  cudaStream_t s = c.Stream();
  float* buffer = c.Buffer(1024);
  const ncclUniqueId first = c.Id("first", 0), second = c.Id("second", 0);
  c.BeLateIfAsked();
  const ncclComm_t one = Make(c, Departs(c) ? second : first);
  const ncclComm_t other = Make(c, Departs(c) ? first : second);
  AllReduce(c, Departs(c) ? other : one, s, buffer);
  AllReduce(c, Departs(c) ? one : other, s, buffer);
  c.Sync(s);
}

JOB(non_blocking_inversion, 2) {
  cudaStream_t s = c.Stream();
  float* buffer = c.Buffer(1024);
  const ncclComm_t dp = Make(c, c.Id("dp", 0)), tp = Make(c, c.Id("tp", 0));
  for (const ncclComm_t comm : {dp, tp}) AllReduce(c, comm, s, buffer);
  c.Sync(s);
  c.Begin(s);
  AllReduce(c, Departs(c) ? tp : dp, s, buffer);
  AllReduce(c, Departs(c) ? dp : tp, s, buffer);
  c.Sync(s);
}

JOB(non_blocking_cold_inversion, 2) {
  // The communicators wait for each other before anything is launched.
  const cudaStream_t s = c.Stream(), other = c.Stream();
  float* buffer = c.Buffer(1024);
  const ncclComm_t dp = Make(c, c.Id("dp", 0)), tp = Make(c, c.Id("tp", 0));
  c.Begin(s);
  AllReduce(c, Departs(c) ? tp : dp, Departs(c) ? other : s, buffer);
  AllReduce(c, Departs(c) ? dp : tp, Departs(c) ? s : other, buffer);
  c.Sync(s);
  c.Sync(other);
}

JOB(non_blocking_sync_early, 2) {
  // Rank 0's synchronise covers its all-reduce only if NCCL has launched it by then. NCCL has not:
  // it connects first, which needs what rank 0 calls afterwards. So this ends.
  cudaStream_t s = c.Stream(), t = c.Stream();
  float* buffer = c.Buffer(1024);
  const ncclComm_t dp = Make(c, c.Id("dp", 0)), tp = c.MakeComm("tp", c.All());
  c.Warm(tp, t);
  c.Begin(s);
  if (c.rank == 0) {
    c.BusyKernel(s, 2);
    Took(ncclAllReduce(buffer, buffer, 1024, ncclFloat, ncclSum, dp, s));
    c.Sync(s);
    c.AllReduce(tp, t);
  } else {
    c.AllReduce(tp, t);
    c.Sync(t);
    Took(ncclAllReduce(buffer, buffer, 1024, ncclFloat, ncclSum, dp, s));
  }
  AwaitReady(dp);
  c.Sync(s);
  c.Sync(t);
}

JOB(finalize_between, 2) {
  // Finalizing waits for the rank's own work, which waits for the other rank.
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t s = c.Stream(), t = c.Stream();
  c.Warm(dp, s);
  c.Warm(tp, t);
  c.Begin(s);
  const ncclComm_t first = Departs(c) ? tp : dp, second = Departs(c) ? dp : tp;
  c.AllReduce(first, s);
  c.Step("finalize");
  NCCL_OK(ncclCommFinalize(first));
  c.AllReduce(second, t);
  NCCL_OK(ncclCommFinalize(second));
  NCCL_OK(ncclCommDestroy(first));
  NCCL_OK(ncclCommDestroy(second));
}

JOB(finalize_waits_for_absent, 3) {
  // The others ask until their communicators are finalized; the last rank does not come to the
  // all-reduce before it.
  cudaStream_t s = c.Stream();
  float* buffer = c.Buffer(1024);
  const ncclComm_t world = Make(c, c.Id("world", 0));
  AllReduce(c, world, s, buffer);
  c.Sync(s);
  c.Begin(s);
  if (Departs(c)) c.SleepInUserCode(3600);
  AllReduce(c, world, s, buffer);
  c.Step("finalize");
  Took(ncclCommFinalize(world));
  AwaitReady(world);
  NCCL_OK(ncclCommDestroy(world));
}

JOB(finalized_by_one, 2) {
  // A member that has finalized holds up no other that destroys, whatever it does afterwards.
  cudaStream_t s = c.Stream();
  const ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (c.rank == 0) {
    NCCL_OK(ncclCommFinalize(world));
    c.WaitForOthersToReach("destroyed", 2 * c.nranks);
  } else {
    c.SleepInUserCode(1);
    NCCL_OK(ncclCommDestroy(world));
    c.WaitForOthersToReach("destroyed", 2 * c.nranks);
  }
}
