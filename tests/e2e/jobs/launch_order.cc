// Operations of different communicators on streams that do not wait for each other, which something
// else orders, or does not: shared resources, NCCL_LAUNCH_ORDER_IMPLICIT, hardware queues,
// multiprocessors.
#include "tests/e2e/jobs/job.h"

namespace {

ncclComm_t WorldThatShares(job::Context& c, bool splits, bool shrinks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  config.splitShare = splits ? 1 : 0;
  config.shrinkShare = shrinks ? 1 : 0;
  ncclComm_t world = nullptr;
  NCCL_OK(ncclCommInitRankConfig(&world, c.nranks, c.Id("world", 0), c.rank, &config));
  return world;
}

// Rank 1 the other way round.
void Opposite(job::Context& c, ncclComm_t world, ncclComm_t child, cudaStream_t s1,
              cudaStream_t s2) {
  c.Warm(world, s1);
  c.Warm(child, s2);
  c.Begin(s1);
  if (c.rank == 1) c.AllReduce(child, s2);
  c.AllReduce(world, s1);
  if (c.rank != 1 && child != nullptr) c.AllReduce(child, s2);
  c.Sync(s1);
  c.Sync(s2);
}

// On rank `held` the second operation of dp waits on its stream behind the first; with
// NCCL_LAUNCH_ORDER_IMPLICIT=1 tp, called after it, starts after it. The others wait for tp before
// they call anything of dp.
void WaitBehindTheLaunchBefore(job::Context& c, int held) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  if (c.rank != held) {
    c.AllReduce(tp, s2);
    c.Sync(s2);
  }
  c.AllReduce(dp, s1);
  c.AllReduce(dp, s1);
  if (c.rank == held) {
    c.AllReduce(tp, s2);
    c.Sync(s2);
  }
  c.Sync(s1);
}

}  // namespace

// A child that shares its parent's resources does not take turns with it (measured on H200s).
// Innocent, and so is the twin, whose communicators share nothing.
JOB(split_shares, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t world = WorldThatShares(c, !c.twin, false);
  ncclComm_t child = nullptr;
  NCCL_OK(ncclCommSplit(world, 0, c.rank, &child, nullptr));
  Opposite(c, world, child, s1, s2);
}

// The same with what is left without the last rank.
JOB(shrink_shares, 3) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t world = WorldThatShares(c, false, !c.twin);
  ncclComm_t child = nullptr;
  int last = c.nranks - 1;
  if (c.rank != last) {
    NCCL_OK(ncclCommShrink(world, &last, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  }
  Opposite(c, world, child, s1, s2);
}

// NCCL_LAUNCH_ORDER_IMPLICIT=1 (not for the twin).
JOB(launch_order, 2) { WaitBehindTheLaunchBefore(c, 0); }

// The last rank alone has that setting, which the harness gives it: members must agree on it.
JOB(settings_differ, 2) { WaitBehindTheLaunchBefore(c, c.nranks - 1); }

// With one hardware queue (not for the twin) what waits behind the first operation of dp holds up
// tp, which was called after it on another stream. The others begin with tp, and use one stream.
JOB(queue_behind, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  if (c.rank != 0) c.AllReduce(tp, s1);
  c.AllReduce(dp, s1);
  c.AllReduce(dp, s1);
  if (c.rank == 0) c.AllReduce(tp, s2);
  c.Sync(s1);
  c.Sync(s2);
}

// With one multiprocessor (not for the twin) the first operation of each rank leaves the second
// none.
JOB(no_processors, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  if (c.rank != 0) c.AllReduce(tp, s2);
  c.AllReduce(dp, s1);
  if (c.rank == 0) c.AllReduce(tp, s2);
  c.Sync(s1);
  c.Sync(s2);
}
