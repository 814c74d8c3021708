// Calls that make communicators, and do not meet.
#include "tests/e2e/jobs/job.h"

JOB(init_missing, 3) {
  // The last rank never comes: it takes another branch.
  cudaStream_t s = c.Stream();
  ncclUniqueId id = c.Id("world", 0);
  c.BeLateIfAsked();
  if (!c.twin && c.rank == c.nranks - 1) c.SleepInUserCode(3600);
  ncclComm_t world = nullptr;
  c.Step("init");
  NCCL_OK(ncclCommInitRank(&world, c.nranks, id, c.rank));
  c.Warm(world, s);
}

JOB(init_order, 2) {
  cudaStream_t s = c.Stream();
  ncclUniqueId first = c.Id("first", 0);
  ncclUniqueId second = c.Id("second", 0);
  c.BeLateIfAsked();
  bool reverse = !c.twin && c.rank == c.nranks - 1;
  ncclComm_t a = nullptr;
  ncclComm_t b = nullptr;
  c.Step("init 1");
  NCCL_OK(ncclCommInitRank(&a, c.nranks, reverse ? second : first, c.rank));
  c.Step("init 2");
  NCCL_OK(ncclCommInitRank(&b, c.nranks, reverse ? first : second, c.rank));
  c.Warm(reverse ? b : a, s);
  c.Warm(reverse ? a : b, s);
}

JOB(split_divergent, 3) {
  // One rank believes that it needs no group of its own and skips the split.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  bool skips = !c.twin && c.rank == c.nranks - 1;
  ncclComm_t half = nullptr;
  c.Step("split");
  if (!skips) {
    NCCL_OK(ncclCommSplit(world, c.rank % 2, c.rank, &half, nullptr));
    c.Warm(half, s);
  } else {
    c.SleepInUserCode(3600);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(split_against_all_reduce, 3) {
  // The skipping rank goes straight on to the all-reduce on the parent and waits there.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  bool skips = !c.twin && c.rank == c.nranks - 1;
  ncclComm_t half = nullptr;
  c.Step("split");
  if (!skips) {
    NCCL_OK(ncclCommSplit(world, c.rank % 2, c.rank, &half, nullptr));
    c.Warm(half, s);
  }
  c.AllReduce(world, s);
  c.Sync(s);
}
