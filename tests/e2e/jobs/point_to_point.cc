// Sends and receives that wait for each other, alone or with a collective.
#include "tests/e2e/jobs/job.h"

namespace {

void SendTo(job::Context& c, ncclComm_t comm, int peer, cudaStream_t s, float* buffer) {
  c.Step("send");
  NCCL_OK(ncclSend(buffer, 1024, ncclFloat, peer, comm, s));
  c.Step("send issued");
}

void RecvFrom(job::Context& c, ncclComm_t comm, int peer, cudaStream_t s, float* buffer) {
  c.Step("recv");
  NCCL_OK(ncclRecv(buffer, 1024, ncclFloat, peer, comm, s));
  c.Step("recv issued");
}

// Connects every neighbour in both directions, as a first step of any pipeline would.
void WarmNeighbours(job::Context& c, ncclComm_t comm, cudaStream_t s, float* buffer) {
  int next = (c.rank + 1) % c.nranks;
  int previous = (c.rank + c.nranks - 1) % c.nranks;
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclSend(buffer, 16, ncclFloat, next, comm, s));
  NCCL_OK(ncclRecv(buffer + 64, 16, ncclFloat, previous, comm, s));
  NCCL_OK(ncclSend(buffer + 128, 16, ncclFloat, previous, comm, s));
  NCCL_OK(ncclRecv(buffer + 192, 16, ncclFloat, next, comm, s));
  NCCL_OK(ncclGroupEnd());
  c.Sync(s);
}

}  // namespace

JOB(hybrid_recv_all_reduce, 2) {
  // Rank 0 receives before the all-reduce, rank 1 sends after it.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  ncclComm_t pipe = c.MakeComm("pp", c.All());
  float* buffer = c.Buffer(4096);
  c.Warm(world, s);
  WarmNeighbours(c, pipe, s, buffer);
  c.Begin(s);
  if (c.rank == 0) {
    RecvFrom(c, pipe, 1, s, buffer);
    c.AllReduce(world, s);
  } else if (c.rank == 1) {
    if (c.twin) SendTo(c, pipe, 0, s, buffer);
    c.AllReduce(world, s);
    if (!c.twin) SendTo(c, pipe, 0, s, buffer);
  } else {
    c.AllReduce(world, s);
  }
  c.Sync(s);
}

JOB(pipeline_swapped, 4) {
  // A ring of stages: every stage sends on and then receives; sends are buffered, so that works. One
  // direction of the exchange is strict here: forward activations are received before backward
  // gradients are sent. The departing stage waits for a gradient before it passes its activation on.
  cudaStream_t s = c.Stream();
  ncclComm_t pipe = c.MakeComm("pp", c.All());
  float* buffer = c.Buffer(4096);
  WarmNeighbours(c, pipe, s, buffer);
  c.Begin(s);
  int last = c.nranks - 1;
  bool swapped = !c.twin && c.rank == 1;
  // Forward: 0 -> 1 -> ... -> last. Backward: last -> ... -> 1 -> 0.
  if (c.rank > 0) RecvFrom(c, pipe, c.rank - 1, s, buffer);
  if (c.rank < last) {
    if (swapped) {
      RecvFrom(c, pipe, c.rank + 1, s, buffer);
      SendTo(c, pipe, c.rank + 1, s, buffer);
    } else {
      SendTo(c, pipe, c.rank + 1, s, buffer);
      RecvFrom(c, pipe, c.rank + 1, s, buffer);
    }
  }
  if (c.rank > 0) SendTo(c, pipe, c.rank - 1, s, buffer);
  c.Sync(s);
}

JOB(send_send_buffered, 2) {
  // Both ranks send first. NCCL buffers, so this ends: a hazard, not a hang, with and without --twin.
  cudaStream_t s = c.Stream();
  ncclComm_t pipe = c.MakeComm("pp", c.All());
  float* buffer = c.Buffer(4096);
  WarmNeighbours(c, pipe, s, buffer);
  c.Begin(s);
  if (c.rank < 2) {
    SendTo(c, pipe, 1 - c.rank, s, buffer);
    RecvFrom(c, pipe, 1 - c.rank, s, buffer);
  }
  c.Sync(s);
}

JOB(missing_send, 2) {
  // Rank 0 receives twice, and the last rank sends once.
  cudaStream_t s = c.Stream();
  ncclComm_t pipe = c.MakeComm("pp", c.All());
  float* buffer = c.Buffer(4096);
  WarmNeighbours(c, pipe, s, buffer);
  c.Begin(s);
  if (c.rank == 0) {
    RecvFrom(c, pipe, c.nranks - 1, s, buffer);
    RecvFrom(c, pipe, c.nranks - 1, s, buffer);
  } else if (c.rank == c.nranks - 1) {
    SendTo(c, pipe, 0, s, buffer);
    if (!c.twin) c.SleepInUserCode(3600);
    SendTo(c, pipe, 0, s, buffer);
  }
  c.Sync(s);
}
