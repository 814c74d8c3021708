// Ranks that decide for themselves what to call next, and decide differently.
#include <poll.h>
#include <unistd.h>

#include "tests/e2e/jobs/job.h"

namespace {

bool Last(const job::Context& c) { return c.rank == c.nranks - 1; }

// Waits for a byte that nobody writes, as a server waits for its next request.
void WaitForARequest(job::Context& c) {
  int ends[2];
  if (pipe(ends) != 0) std::_Exit(7);
  c.Step("wait for a request");
  pollfd wanted{ends[0], POLLIN, 0};
  while (poll(&wanted, 1, -1) < 0) {
  }
}

}  // namespace

JOB(flag_reduced_to_one, 2) {
  // "Does anybody overflow?" is reduced to rank 0 alone. The others ask their own copy, and the
  // last rank, which did not overflow, goes for the next batch while the others agree on a scale.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  float* flag = c.Buffer(16);
  c.Warm(world, s);
  c.Begin(s);
  const float mine = c.rank == 0 ? 1 : 0;
  float anybody = 0;
  CUDA_OK(cudaMemcpyAsync(flag, &mine, sizeof mine, cudaMemcpyHostToDevice, s));
  c.Step("reduce");
  if (c.twin) {
    NCCL_OK(ncclAllReduce(flag, flag, 1, ncclFloat, ncclSum, world, s));
  } else {
    NCCL_OK(ncclReduce(flag, flag, 1, ncclFloat, ncclSum, 0, world, s));
  }
  CUDA_OK(cudaMemcpyAsync(&anybody, flag, sizeof anybody, cudaMemcpyDeviceToHost, s));
  c.Sync(s);
  if (anybody > 0) {
    c.AllReduce(world, s);
    c.Sync(s);
  } else {
    WaitForARequest(c);
  }
}

JOB(group_left_open, 2) {
  // The last rank finds nothing to scale and returns early: out of a group, which stays open.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  const auto scale = [&](bool nothing) {
    NCCL_OK(ncclGroupStart());
    c.AllReduce(world, s);
    c.AllReduce(world, s);
    if (nothing) return;
    NCCL_OK(ncclGroupEnd());
  };
  scale(!c.twin && Last(c));
  c.Sync(s);
  if (!c.twin && Last(c)) WaitForARequest(c);
}

JOB(fused_differently, 2) {
  // Two gradients that the last rank's compiler has put into one all-reduce.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (!c.twin && Last(c)) {
    c.AllReduce(world, s, 2048);
  } else {
    c.AllReduce(world, s, 1024);
    c.AllReduce(world, s, 1024);
  }
  c.Sync(s);
}

JOB(grouped_by_one, 3) {
  // The last rank alone puts two all-reduces into a group: to NCCL they are one kernel.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  const bool group = c.twin || Last(c);
  if (group) NCCL_OK(ncclGroupStart());
  c.AllReduce(world, s, 1024);
  c.AllReduce(world, s, 1024);
  if (group) NCCL_OK(ncclGroupEnd());
  c.Sync(s);
}

JOB(branch_taken_alone, 3) {
  // The last rank alone finds that its gradients overflow, and adds up one more thing.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  c.AllReduce(world, s, 1024);
  if (!c.twin && Last(c)) c.AllReduce(world, s, 1);
  c.AllReduce(world, s, 512);
  c.AllReduce(world, s, 256);
  c.AllReduce(world, s, 128);
  c.Sync(s);
}

JOB(one_step_less, 2) {
  // Each rank of a serving job decides by its own queue whether there is another step.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  const int steps = !c.twin && Last(c) ? 3 : 4;
  for (int i = 0; i < steps; ++i) {
    c.AllReduce(world, s);
    c.Sync(s);
  }
  if (!c.twin && Last(c)) WaitForARequest(c);
}

JOB(batch_asymmetric, 2) {
  // Both exchange with each other in one group; the last rank leaves its send out.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  float* buffer = c.Buffer(4096);
  c.Warm(world, s);
  const int peer = c.rank == 0 ? c.nranks - 1 : 0;
  for (int i = 0; i < 2; ++i) {
    if (i == 1) c.Begin(s);
    if (c.rank == 0 || Last(c)) {
      NCCL_OK(ncclGroupStart());
      if (i == 0 || c.twin || c.rank == 0)
        NCCL_OK(ncclSend(buffer, 1024, ncclFloat, peer, world, s));
      NCCL_OK(ncclRecv(buffer + 2048, 1024, ncclFloat, peer, world, s));
      NCCL_OK(ncclGroupEnd());
    }
    c.AllReduce(world, s);
    c.Sync(s);
  }
}

JOB(wrong_peer, 3) {
  // Rank 0 sends to the last rank what rank 1 waits for.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  float* buffer = c.Buffer(4096);
  for (int i = 0; i < 2; ++i) {  // connects
    for (int to : {1, c.nranks - 1}) {
      if (c.rank == 0) NCCL_OK(ncclSend(buffer, 64, ncclFloat, to, world, s));
      if (c.rank == to) NCCL_OK(ncclRecv(buffer, 64, ncclFloat, 0, world, s));
    }
    c.Warm(world, s);
  }
  c.Begin(s);
  c.Step("send or receive");
  if (c.rank == 0) NCCL_OK(ncclSend(buffer, 1024, ncclFloat, c.twin ? 1 : c.nranks - 1, world, s));
  if (c.rank == 1) NCCL_OK(ncclRecv(buffer, 1024, ncclFloat, 0, world, s));
  c.AllReduce(world, s);
  c.Sync(s);
}

JOB(send_never_received, 2) {
  // The first send to a peer connects, and waits on the host for it; the peer never receives.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  float* buffer = c.Buffer(4096);
  c.Warm(world, s);
  c.Begin(s);
  if (c.rank == 0) {
    c.Step("send");
    NCCL_OK(ncclSend(buffer, 1024, ncclFloat, c.nranks - 1, world, s));
  } else if (Last(c)) {
    if (!c.twin) WaitForARequest(c);
    NCCL_OK(ncclRecv(buffer, 1024, ncclFloat, 0, world, s));
  }
  c.Sync(s);
}

JOB(destroyed_with_pending, 2) {
  // An all-reduce is pending when its communicator is destroyed; the last rank has gone without it.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  c.Begin(s);
  if (c.twin || !Last(c)) c.AllReduce(world, s);
  c.Step("destroy");
  NCCL_OK(ncclCommDestroy(world));
}
