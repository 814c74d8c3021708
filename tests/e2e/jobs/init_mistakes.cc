// Calls of ncclCommInitRank whose members disagree on what they make.

#include "tests/e2e/jobs/job.h"

JOB(init_same_rank, 4) {
  // Rank 2 passes the rank of its neighbour.
  cudaStream_t s = c.Stream();
  const ncclUniqueId id = c.Id("world", 0);
  c.BeLateIfAsked();
  const int rank = !c.twin && c.rank == 2 ? 1 : c.rank;
  ncclComm_t world = nullptr;
  c.Step("init");
  NCCL_OK(ncclCommInitRank(&world, c.nranks, id, rank));
  c.Warm(world, s);
}

JOB(init_other_size, 4) {
  // The last rank believes that one more takes part.
  cudaStream_t s = c.Stream();
  const ncclUniqueId id = c.Id("world", 0);
  c.BeLateIfAsked();
  const int nranks = !c.twin && c.rank == c.nranks - 1 ? c.nranks + 1 : c.nranks;
  ncclComm_t world = nullptr;
  c.Step("init");
  NCCL_OK(ncclCommInitRank(&world, nranks, id, c.rank));
  c.Warm(world, s);
}

JOB(init_stale_id, 4) {
  // Rank 1 still has the id of the communicator that all have made before.
  cudaStream_t s = c.Stream();
  ncclComm_t first = nullptr;
  const ncclUniqueId old = c.Id("first", 0);
  const ncclUniqueId id = c.Id("second", 0);
  NCCL_OK(ncclCommInitRank(&first, c.nranks, old, c.rank));
  c.Warm(first, s);
  c.BeLateIfAsked();
  const bool stale = !c.twin && c.rank == 1;
  ncclComm_t second = nullptr;
  c.Step("init");
  NCCL_OK(ncclCommInitRank(&second, c.nranks, stale ? old : id, c.rank));
  c.Warm(second, s);
}

JOB(init_pairs_in_circle, 4) {
  // Each rank makes its communicator with the next rank first, and so do all: none gets there.
  cudaStream_t s = c.Stream();
  const int before = (c.rank + c.nranks - 1) % c.nranks;
  const auto id = [&](int of) { return c.Id("pair " + std::to_string(of), of); };
  ncclUniqueId ids[2] = {id(c.rank), id(before)};
  c.BeLateIfAsked();
  // The twin's even ranks begin with the one, its odd ranks with the other.
  const bool turned = c.twin && c.rank % 2 == 1;
  for (int i = 0; i < 2; ++i) {
    const bool with_next = (i == 0) != turned;
    ncclComm_t pair = nullptr;
    c.Step(with_next ? "pair with the next" : "pair with the one before");
    NCCL_OK(ncclCommInitRank(&pair, 2, with_next ? ids[0] : ids[1], with_next ? 0 : 1));
    c.Warm(pair, s);
  }
}
