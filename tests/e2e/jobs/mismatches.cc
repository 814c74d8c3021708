// Ranks that meet in the same operation with different arguments. Rank 0 departs. Sizes are chosen
// on both sides of what NCCL forgives: a mismatch is one whether the job hangs or ends.
#include "tests/e2e/jobs/job.h"

namespace {

bool Departs(const job::Context& c) { return !c.twin && c.rank == 0; }

struct Setup {
  cudaStream_t stream;
  ncclComm_t world;
  float* in;
  float* out;
};

constexpr size_t kSmall = 1 << 10;
constexpr size_t kMedium = 1 << 20;

Setup Prepare(job::Context& c) {
  Setup s{c.Stream(), c.World(), c.Buffer(kMedium),
          c.Buffer(kMedium * static_cast<size_t>(c.nranks))};
  c.Warm(s.world, s.stream);
  c.Begin(s.stream);
  return s;
}

void Count(job::Context& c, size_t n) {
  Setup s = Prepare(c);
  NCCL_OK(
      ncclAllReduce(s.in, s.out, Departs(c) ? n / 2 : n, ncclFloat, ncclSum, s.world, s.stream));
  c.Sync(s.stream);
}

void Type(job::Context& c, size_t n) {
  Setup s = Prepare(c);
  NCCL_OK(
      ncclAllReduce(s.in, s.out, n, Departs(c) ? ncclHalf : ncclFloat, ncclSum, s.world, s.stream));
  c.Sync(s.stream);
}

// Rank 1 is the root; the departing rank 0 takes itself for it, and both only send.
void TwoRoots(job::Context& c, size_t n) {
  Setup s = Prepare(c);
  NCCL_OK(ncclBroadcast(s.in, s.out, n, ncclFloat, Departs(c) ? 0 : 1, s.world, s.stream));
  c.Sync(s.stream);
}

// Rank 0 is the root, and alone takes rank 1 for it: nobody sends.
void NoRoot(job::Context& c, size_t n) {
  Setup s = Prepare(c);
  NCCL_OK(ncclBroadcast(s.in, s.out, n, ncclFloat, Departs(c) ? 1 : 0, s.world, s.stream));
  c.Sync(s.stream);
}

void Operator(job::Context& c, size_t n) {
  Setup s = Prepare(c);
  NCCL_OK(
      ncclAllReduce(s.in, s.out, n, ncclFloat, Departs(c) ? ncclMax : ncclSum, s.world, s.stream));
  c.Sync(s.stream);
}

void Kind(job::Context& c, size_t n) {
  Setup s = Prepare(c);
  if (Departs(c)) {
    NCCL_OK(ncclAllGather(s.in, s.out, n, ncclFloat, s.world, s.stream));
  } else {
    NCCL_OK(ncclAllReduce(s.in, s.out, n, ncclFloat, ncclSum, s.world, s.stream));
  }
  c.Sync(s.stream);
}

// The mismatch passes, and so do those operations that come after it.
void ThenMore(job::Context& c, int operations) {
  Setup s = Prepare(c);
  NCCL_OK(ncclAllReduce(s.in, s.out, kSmall, ncclFloat, Departs(c) ? ncclMax : ncclSum, s.world,
                        s.stream));
  for (int i = 0; i < operations; ++i) c.AllReduce(s.world, s.stream);
  c.Sync(s.stream);
}

}  // namespace

JOB(mismatch_count_hangs, 2) { Count(c, kSmall); }
JOB(mismatch_count_ends, 2) { Count(c, kMedium); }
JOB(mismatch_type_hangs, 2) { Type(c, kSmall); }
JOB(mismatch_two_roots_ends, 2) { TwoRoots(c, kSmall); }
JOB(mismatch_no_root_hangs, 2) { NoRoot(c, kSmall); }
JOB(mismatch_operator_ends, 2) { Operator(c, kSmall); }
JOB(mismatch_kind_hangs, 2) { Kind(c, kSmall); }

JOB(mismatch_long_past, 2) { ThenMore(c, 40); }
JOB(mismatch_just_past, 2) { ThenMore(c, 3); }

JOB(mismatch_p2p_count, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  float* buffer = c.Buffer(4096);
  c.Warm(world, s);
  c.Begin(s);
  if (c.rank == 0) NCCL_OK(ncclSend(buffer, Departs(c) ? 512 : 1024, ncclFloat, 1, world, s));
  if (c.rank == 1) NCCL_OK(ncclRecv(buffer, 1024, ncclFloat, 0, world, s));
  c.Sync(s);
}
