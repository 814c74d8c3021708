// Kinds of collectives: who waits for whom, and what becomes of count 0.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Input;
using truth::Rank;
using truth::SumOfInputs;

enum class Kind { kBroadcast, kReduce, kAllGather, kReduceScatter, kAlltoAll, kGather, kScatter };

// Buffers that are large enough for every kind.
Comm MakeFor(Rank& r, Kind kind, const std::string& name) {
  bool wide_in = kind == Kind::kReduceScatter || kind == Kind::kAlltoAll || kind == Kind::kScatter;
  bool wide_out = kind == Kind::kAllGather || kind == Kind::kAlltoAll || kind == Kind::kGather;
  return r.MakeComm(name, wide_in ? r.n : 1, wide_out ? r.n : 1);
}

ncclResult_t Issue(Kind kind, const Comm& c, int root, cudaStream_t s) {
  switch (kind) {
    case Kind::kBroadcast:
      return ncclBroadcast(c.in, c.out, c.count, ncclFloat, root, c.handle, s);
    case Kind::kReduce:
      return ncclReduce(c.in, c.out, c.count, ncclFloat, ncclSum, root, c.handle, s);
    case Kind::kAllGather:
      return ncclAllGather(c.in, c.out, c.count, ncclFloat, c.handle, s);
    case Kind::kReduceScatter:
      return ncclReduceScatter(c.in, c.out, c.count, ncclFloat, ncclSum, c.handle, s);
    case Kind::kAlltoAll:
      return ncclAlltoAll(c.in, c.out, c.count, ncclFloat, c.handle, s);
    case Kind::kGather:
      return ncclGather(c.in, c.out, c.count, ncclFloat, root, c.handle, s);
    case Kind::kScatter:
      return ncclScatter(c.in, c.out, c.count, ncclFloat, root, c.handle, s);
  }
  return ncclInternalError;
}

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kBroadcast:
      return "ncclBroadcast";
    case Kind::kReduce:
      return "ncclReduce";
    case Kind::kAllGather:
      return "ncclAllGather";
    case Kind::kReduceScatter:
      return "ncclReduceScatter";
    case Kind::kAlltoAll:
      return "ncclAlltoAll";
    case Kind::kGather:
      return "ncclGather";
    case Kind::kScatter:
      return "ncclScatter";
  }
  return "?";
}

// What this rank must find in `out`.
void ExpectOf(Rank& r, Kind kind, const Comm& c, int root) {
  const int scale = c.scale, n = c.n, rank = c.rank;
  const size_t count = c.count;
  auto block = [=](size_t i) { return static_cast<int>(i / count); };
  switch (kind) {
    case Kind::kBroadcast:
      r.Expect(c.out, count, [=](size_t i) { return Input(scale, root, i); });
      break;
    case Kind::kReduce:
      if (rank == root) r.Expect(c.out, count, [=](size_t i) { return SumOfInputs(scale, n, i); });
      break;
    case Kind::kAllGather:
      r.Expect(c.out, count * static_cast<size_t>(n),
               [=](size_t i) { return Input(scale, block(i), i % count); });
      break;
    case Kind::kReduceScatter:
      r.Expect(c.out, count, [=](size_t i) {
        return SumOfInputs(scale, n, i + static_cast<size_t>(rank) * count);
      });
      break;
    case Kind::kAlltoAll:
      r.Expect(c.out, count * static_cast<size_t>(n), [=](size_t i) {
        return Input(scale, block(i), i % count + static_cast<size_t>(rank) * count);
      });
      break;
    case Kind::kGather:
      if (rank == root) {
        r.Expect(c.out, count * static_cast<size_t>(n),
                 [=](size_t i) { return Input(scale, block(i), i % count); });
      }
      break;
    case Kind::kScatter:
      r.Expect(c.out, count,
               [=](size_t i) { return Input(scale, root, i + static_cast<size_t>(rank) * count); });
      break;
  }
}

void Warm(Rank& r, Kind kind, const Comm& c, int root) {
  cudaStream_t s = r.Stream();
  r.Call(std::string("warm ") + Name(kind), [&] { return Issue(kind, c, root, s); });
  r.Sync(s, "warm");
}

// A collective of `kind` on `a` and an all-reduce on `b`, one stream. `first`: the ranks for which
// the collective comes first.
void AgainstAllReduce(Rank& r, Kind kind, int root, bool first) {
  cudaStream_t s = r.Stream();
  Comm a = MakeFor(r, kind, "a");
  Comm b = r.MakeComm("b");
  Warm(r, kind, a, root);
  r.Warm(b);
  ExpectOf(r, kind, a, root);
  r.Begin();
  if (!first) r.AllReduce(b, s);
  r.Call(Name(kind), [&] { return Issue(kind, a, root, s); });
  if (first) r.AllReduce(b, s);
  r.Finish({s});
}

}  // namespace

// The root of a broadcast and the leaves of a reduce do not wait for the others.
TRUTH_PROGRAM(broadcast_root_first, 2) { AgainstAllReduce(r, Kind::kBroadcast, 0, r.rank == 0); }
TRUTH_PROGRAM(broadcast_receiver_first, 2) {
  AgainstAllReduce(r, Kind::kBroadcast, 0, r.rank != 0);
}
TRUTH_PROGRAM(reduce_leaf_first, 2) { AgainstAllReduce(r, Kind::kReduce, 0, r.rank != 0); }
TRUTH_PROGRAM(reduce_root_first, 2) { AgainstAllReduce(r, Kind::kReduce, 0, r.rank == 0); }
TRUTH_PROGRAM(gather_leaf_first, 2) { AgainstAllReduce(r, Kind::kGather, 0, r.rank != 0); }
TRUTH_PROGRAM(gather_root_first, 2) { AgainstAllReduce(r, Kind::kGather, 0, r.rank == 0); }
TRUTH_PROGRAM(scatter_root_first, 2) { AgainstAllReduce(r, Kind::kScatter, 0, r.rank == 0); }
TRUTH_PROGRAM(scatter_receiver_first, 2) { AgainstAllReduce(r, Kind::kScatter, 0, r.rank != 0); }
TRUTH_PROGRAM(all_gather_inversion, 2) { AgainstAllReduce(r, Kind::kAllGather, 0, r.Departs()); }
TRUTH_PROGRAM(reduce_scatter_inversion, 2) {
  AgainstAllReduce(r, Kind::kReduceScatter, 0, r.Departs());
}
TRUTH_PROGRAM(all_to_all_inversion, 2) { AgainstAllReduce(r, Kind::kAlltoAll, 0, r.Departs()); }
TRUTH_PROGRAM(all_to_all_same_order, 2) { AgainstAllReduce(r, Kind::kAlltoAll, 0, true); }

// In a ring the root's data passes through the others: does the last one depend on those between?
TRUTH_PROGRAM(broadcast_last_rank_late, 2) {
  cudaStream_t s = r.Stream();
  Comm a = r.MakeComm("a");
  Warm(r, Kind::kBroadcast, a, 0);
  ExpectOf(r, Kind::kBroadcast, a, 0);
  r.Begin();
  // The last rank comes when the root is done.
  if (r.Departs()) r.WaitFor(0, "root");
  r.Call("ncclBroadcast", [&] { return Issue(Kind::kBroadcast, a, 0, s); });
  if (r.rank == 0) {
    r.Sync(s, "root");
    r.Raise(0);
  }
  r.Finish({s});
}

// Only rank 0 asks for an all-reduce of nothing, and then all for one of something.
TRUTH_PROGRAM(count_zero_extra, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  r.Begin();
  if (r.rank == 0) {
    r.Call("ncclAllReduce nothing", [&] {
      return ncclAllReduce(world.in, world.out, 0, ncclFloat, ncclSum, world.handle, s);
    });
  }
  r.AllReduce(world, s);
  r.Finish({s});
}

// Rank 0's share of the all-reduce is nothing.
TRUTH_PROGRAM(count_zero_instead, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  r.Begin();
  if (r.rank == 0) {
    r.Call("ncclAllReduce nothing", [&] {
      return ncclAllReduce(world.in, world.out, 0, ncclFloat, ncclSum, world.handle, s);
    });
  } else {
    r.AllReduce(world, s);
  }
  r.Finish({s});
}

TRUTH_PROGRAM(send_zero_recv_zero, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  r.Begin();
  // Nothing is sent to the next rank, which does not ask for it; then something for all.
  if (r.rank == 0) r.Send(world, 1, s, 0);
  r.AllReduce(world, s);
  r.Finish({s});
}
