// Ranks that meet in one operation with different arguments. Rank 0 departs. Sizes matter: NCCL
// lets the same mismatch pass at one size and hangs at another.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

Comm World(Rank& r) {
  Comm world = r.MakeComm("world", 1, r.n);  // room for an all-gather
  r.Warm(world);
  return world;
}

void Root(Rank& r, int mine) {
  cudaStream_t s = r.Stream();
  Comm world = r.MakeComm("world");
  r.Call("warm", [&] {
    return ncclBroadcast(world.in, world.out, world.count, ncclFloat, 1, world.handle, s);
  });
  r.Sync(s, "warm");
  // Members that take different ranks for the root cannot all be right.
  const int scale = world.scale;
  r.Expect(world.out, world.count, [=](size_t i) { return truth::Input(scale, 1, i); });
  r.Begin();
  r.Call("ncclBroadcast", [&] {
    return ncclBroadcast(world.in, world.out, world.count, ncclFloat, mine, world.handle, s);
  });
  r.Finish({s});
}

void ExpectSum(Rank& r, const Comm& c, size_t count) {
  const int scale = c.scale, n = c.n;
  r.Expect(c.out, count, [=](size_t i) { return truth::SumOfInputs(scale, n, i); });
}

}  // namespace

// Rank 0 reduces half of what the others do.
TRUTH_PROGRAM(mismatch_count, 2) {
  cudaStream_t s = r.Stream();
  Comm world = World(r);
  size_t count = r.rank == 0 ? world.count / 2 : world.count;
  r.Begin();
  r.Call("ncclAllReduce", [&] {
    return ncclAllReduce(world.in, world.out, count, ncclFloat, ncclSum, world.handle, s);
  });
  ExpectSum(r, world, count);
  r.Finish({s});
}

// Rank 1 is the root; rank 0 takes itself for it, so that two send.
TRUTH_PROGRAM(mismatch_two_roots, 2) { Root(r, r.rank == 0 ? 0 : 1); }
// Rank 0 is the root, and alone takes rank 1 for it: nobody sends.
TRUTH_PROGRAM(mismatch_no_root, 2) { Root(r, r.rank == 0 ? 1 : 0); }

TRUTH_PROGRAM(mismatch_operator, 2) {
  cudaStream_t s = r.Stream();
  Comm world = World(r);
  r.Begin();
  r.Call("ncclAllReduce", [&] {
    return ncclAllReduce(world.in, world.out, world.count, ncclFloat,
                         r.rank == 0 ? ncclMax : ncclSum, world.handle, s);
  });
  ExpectSum(r, world, world.count);
  r.Finish({s});
}

TRUTH_PROGRAM(mismatch_type, 2) {
  cudaStream_t s = r.Stream();
  Comm world = World(r);
  r.Begin();
  r.Call("ncclAllReduce", [&] {
    return ncclAllReduce(world.in, world.out, world.count, r.rank == 0 ? ncclHalf : ncclFloat,
                         ncclSum, world.handle, s);
  });
  ExpectSum(r, world, world.count);
  r.Finish({s});
}

TRUTH_PROGRAM(mismatch_kind, 2) {
  cudaStream_t s = r.Stream();
  Comm world = World(r);
  r.Call("warm", [&] {
    return ncclAllGather(world.in, world.out, world.count, ncclFloat, world.handle, s);
  });
  r.Sync(s, "warm");
  r.Begin();
  r.Call(r.rank == 0 ? "ncclAllGather" : "ncclAllReduce", [&] {
    return r.rank == 0 ? ncclAllGather(world.in, world.out, world.count, ncclFloat, world.handle, s)
                       : ncclAllReduce(world.in, world.out, world.count, ncclFloat, ncclSum,
                                       world.handle, s);
  });
  ExpectSum(r, world, world.count);
  r.Finish({s});
}

// One rank all-reduces in place: no mismatch at all.
TRUTH_PROGRAM(in_place_at_one_rank, 2) {
  cudaStream_t s = r.Stream();
  Comm world = World(r);
  r.Begin();
  float* out = r.rank == 0 ? world.in : world.out;
  r.Call("ncclAllReduce", [&] {
    return ncclAllReduce(world.in, out, world.count, ncclFloat, ncclSum, world.handle, s);
  });
  const int scale = world.scale, n = world.n;
  r.Expect(out, world.count, [=](size_t i) { return truth::SumOfInputs(scale, n, i); });
  r.Finish({s});
}
