// One rank of several departs from what all others call, in communicators of several shapes: who
// waits for it directly, and who only with it, changes with what it calls next.
#include "tests/e2e/jobs/job.h"

namespace {

struct Grid {
  ncclComm_t world = nullptr, pair = nullptr;
  cudaStream_t s = nullptr;
  float* buffer = nullptr;
};

void AllToAll(job::Context& c, const Grid& g) {
  constexpr size_t kCount = 256;
  NCCL_OK(ncclGroupStart());
  for (int peer = 0; peer < c.nranks; ++peer) {
    if (peer == c.rank) continue;
    NCCL_OK(ncclSend(g.buffer + kCount * peer, kCount, ncclFloat, peer, g.world, g.s));
    NCCL_OK(ncclRecv(g.buffer + kCount * (c.nranks + peer), kCount, ncclFloat, peer, g.world, g.s));
  }
  NCCL_OK(ncclGroupEnd());
}

// The world, and a communicator of each even rank and the next.
Grid MakeGrid(job::Context& c) {
  Grid g;
  g.s = c.Stream();
  g.world = c.World();
  const int first = c.rank / 2 * 2;
  g.pair = c.MakeComm("pair " + std::to_string(first), {first, first + 1});
  g.buffer = c.Buffer(static_cast<size_t>(512) * c.nranks);
  c.Warm(g.world, g.s);
  c.Warm(g.pair, g.s);
  AllToAll(c, g);
  c.Sync(g.s);
  return g;
}

constexpr int kSteps = 3;

// Stage after stage passes each microbatch on.
void Pipeline(job::Context& c, const Grid& g, int microbatches) {
  for (int m = 0; m < microbatches; ++m) {
    c.Step("microbatch");
    if (c.rank > 0) NCCL_OK(ncclRecv(g.buffer, 256, ncclFloat, c.rank - 1, g.world, g.s));
    if (c.rank < c.nranks - 1)
      NCCL_OK(ncclSend(g.buffer, 256, ncclFloat, c.rank + 1, g.world, g.s));
    c.Sync(g.s);
  }
}

}  // namespace

JOB(all_to_all_skipped, 4) {
  // Rank 2 has no tokens in the second step, skips the exchange, and calls its pair's all-reduce.
  const Grid g = MakeGrid(c);
  c.Begin(g.s);
  for (int step = 0; step < kSteps; ++step) {
    c.AllReduce(g.world, g.s);
    if (c.twin || c.rank != 2 || step != 1) AllToAll(c, g);
    c.AllReduce(g.pair, g.s);
  }
  c.Sync(g.s);
}

JOB(all_reduce_skipped, 4) {
  // The same with an all-reduce of all.
  const Grid g = MakeGrid(c);
  c.Begin(g.s);
  for (int step = 0; step < kSteps; ++step) {
    if (c.twin || c.rank != 2 || step != 1) c.AllReduce(g.world, g.s);
    c.AllReduce(g.pair, g.s);
    c.Sync(g.s);
  }
}

JOB(pair_skipped, 4) {
  // Rank 3 leaves out its pair's all-reduce: now its partner is the one that all others wait for.
  const Grid g = MakeGrid(c);
  c.Begin(g.s);
  for (int step = 0; step < kSteps; ++step) {
    c.AllReduce(g.world, g.s);
    if (c.twin || c.rank != 3 || step != 1) c.AllReduce(g.pair, g.s);
    c.Sync(g.s);
  }
}

JOB(one_microbatch_more, 4) {
  // Stage 1 believes that the second step has four microbatches, all others that it has three.
  const Grid g = MakeGrid(c);
  c.Begin(g.s);
  for (int step = 0; step < 2; ++step) {
    Pipeline(c, g, !c.twin && c.rank == 1 && step == 1 ? 4 : 3);
    c.AllReduce(g.world, g.s);
    c.Sync(g.s);
  }
}

JOB(one_microbatch_less, 4) {
  // Stage 1 believes that it has two.
  const Grid g = MakeGrid(c);
  c.Begin(g.s);
  for (int step = 0; step < 2; ++step) {
    Pipeline(c, g, !c.twin && c.rank == 1 && step == 1 ? 2 : 3);
    c.AllReduce(g.world, g.s);
    c.Sync(g.s);
  }
}

JOB(wrong_colour, 6) {
  // Rank 3 computes the colour of another stage, and calls as often as its own stage does.
  const Grid g = MakeGrid(c);
  const int stage = c.rank / 2;
  const int colour = !c.twin && c.rank == 3 ? 0 : stage;
  ncclComm_t tensor = nullptr;
  NCCL_OK(ncclCommSplit(g.world, colour, c.rank, &tensor, nullptr));
  c.Begin(g.s);
  for (int layer = 0; layer <= stage; ++layer) {
    c.AllReduce(tensor, g.s);
    c.Sync(g.s);
  }
  c.AllReduce(g.world, g.s);
  c.Sync(g.s);
}
