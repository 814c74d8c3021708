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

namespace {

struct StageBuffers {
  float *from_previous, *from_next, *to_next, *to_previous;
};

// A ring of stages: every stage sends on and then receives; sends are buffered, so that works. One
// direction of the exchange is strict here: forward activations are received before backward
// gradients are sent. The departing stage waits for a gradient before it passes its activation on.
void PipelineStep(job::Context& c, ncclComm_t pipe, cudaStream_t s, const StageBuffers& b) {
  int last = c.nranks - 1;
  bool swapped = !c.twin && c.rank == 1;
  // Forward: 0 -> 1 -> ... -> last. Backward: last -> ... -> 1 -> 0.
  if (c.rank > 0) RecvFrom(c, pipe, c.rank - 1, s, b.from_previous);
  if (c.rank < last) {
    if (swapped) {
      RecvFrom(c, pipe, c.rank + 1, s, b.from_next);
      SendTo(c, pipe, c.rank + 1, s, b.to_next);
    } else {
      SendTo(c, pipe, c.rank + 1, s, b.to_next);
      RecvFrom(c, pipe, c.rank + 1, s, b.from_next);
    }
  }
  if (c.rank > 0) SendTo(c, pipe, c.rank - 1, s, b.to_previous);
  c.Sync(s);
}

// All of the stage's 1,024 numbers are `expected`.
void MustHold(const job::Context& c, const float* buffer, int expected) {
  std::vector<float> values(1024);
  CUDA_OK(cudaMemcpy(values.data(), buffer, values.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (const float value : values) {
    if (value == static_cast<float>(expected)) continue;
    std::fprintf(stderr, "rank %d: %f where %d must be\n", c.rank, value, expected);
    std::_Exit(7);
  }
}

}  // namespace

JOB(pipeline_swapped, 4) {
  // What a stage passes on is what it has received last: one buffer for all.
  cudaStream_t s = c.Stream();
  ncclComm_t pipe = c.MakeComm("pp", c.All());
  float* buffer = c.Buffer(4096);
  WarmNeighbours(c, pipe, s, buffer);
  c.Begin(s);
  PipelineStep(c, pipe, s, {buffer, buffer, buffer, buffer});
}

JOB(pipeline_swapped_apart, 4) {
  // Activations and gradients have buffers of their own, so that nothing but order is wrong.
  cudaStream_t s = c.Stream();
  ncclComm_t pipe = c.MakeComm("pp", c.All());
  float* buffer = c.Buffer(4096);
  WarmNeighbours(c, pipe, s, buffer);
  const StageBuffers b = {buffer, buffer + 1024, buffer + 2048, buffer + 3072};
  const std::vector<float> activation(1024, static_cast<float>(c.rank)),
      gradient(1024, static_cast<float>(100 + c.rank));
  CUDA_OK(cudaMemcpy(b.to_next, activation.data(), 4096, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemcpy(b.to_previous, gradient.data(), 4096, cudaMemcpyHostToDevice));
  c.Begin(s);
  PipelineStep(c, pipe, s, b);
  if (c.rank > 0) MustHold(c, b.from_previous, c.rank - 1);
  if (c.rank < c.nranks - 1) MustHold(c, b.from_next, 100 + c.rank + 1);
}

JOB(send_send_buffered, 2) {
  // Both ranks send first. NCCL buffers, so this ends: a hazard, not a hang, with and without
  // --twin.
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
