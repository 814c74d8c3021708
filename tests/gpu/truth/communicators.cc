// Calls that make, split, register with and end communicators.
#include <unistd.h>

#include <algorithm>

#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

// One communicator over all ranks from its id, inside a group or not.
ncclResult_t Init(Rank& r, Comm* comm, const std::string& name, bool blocking = true) {
  ncclUniqueId id = r.Id(name);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  comm->name = name;
  comm->rank = r.rank;
  comm->n = r.n;
  r.Publish(truth::State::kHost, "ncclCommInitRankConfig " + name);
  return ncclCommInitRankConfig(&comm->handle, r.n, id, r.rank, &config);
}

// Polls a nonblocking communicator until it is ready.
void WaitReady(Rank& r, const Comm& comm) {
  r.WaitUntil("ncclCommGetAsyncError " + comm.name, [&] {
    ncclResult_t state = ncclInProgress;
    r.Check("ncclCommGetAsyncError", ncclCommGetAsyncError(comm.handle, &state));
    if (state != ncclInProgress) r.Check("asynchronous error of " + comm.name, state);
    return state == ncclSuccess;
  });
}

// Ids first, so that nobody waits for one later.
void MakeIds(Rank& r) {
  r.Id("one");
  r.Id("two");
  r.Begin();
}

void InitOrder(Rank& r, bool opposite) {
  MakeIds(r);
  cudaStream_t s = r.Stream();
  Comm one, two;
  bool reverse = opposite && r.Departs();
  Comm& first = reverse ? two : one;
  Comm& second = reverse ? one : two;
  r.Call("ncclCommInitRankConfig first", [&] { return Init(r, &first, reverse ? "two" : "one"); });
  r.Call("ncclCommInitRankConfig second",
         [&] { return Init(r, &second, reverse ? "one" : "two"); });
  r.FillBuffers(&one);
  r.FillBuffers(&two);
  r.AllReduce(one, s);
  r.AllReduce(two, s);
  r.Finish({s});
}

void NonblockingInit(Rank& r, bool poll_between) {
  MakeIds(r);
  cudaStream_t s = r.Stream();
  Comm one, two;
  bool reverse = r.Departs();
  Comm& first = reverse ? two : one;
  Comm& second = reverse ? one : two;
  r.Check("init", Init(r, &first, reverse ? "two" : "one", false));
  if (poll_between) WaitReady(r, first);
  r.Check("init", Init(r, &second, reverse ? "one" : "two", false));
  WaitReady(r, one);
  WaitReady(r, two);
  r.FillBuffers(&one);
  r.FillBuffers(&two);
  r.AllReduce(one, s);
  WaitReady(r, one);
  r.AllReduce(two, s);
  WaitReady(r, two);
  r.Finish({s});
}

// Nonblocking communicators used for the first time in opposite order, on two streams.
void NonblockingCold(Rank& r, bool poll_between) {
  Comm one, two;
  r.Check("init", Init(r, &one, "one", false));
  WaitReady(r, one);
  r.Check("init", Init(r, &two, "two", false));
  WaitReady(r, two);
  r.FillBuffers(&one);
  r.FillBuffers(&two);
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  r.Begin();
  bool reverse = r.Departs();
  r.AllReduce(reverse ? two : one, reverse ? b : a);
  if (poll_between) WaitReady(r, reverse ? two : one);
  r.AllReduce(reverse ? one : two, reverse ? a : b);
  WaitReady(r, one);
  WaitReady(r, two);
  r.Finish({a, b});
}

Comm Split(Rank& r, const Comm& parent, const std::string& name, int color) {
  Comm child;
  child.name = name;
  r.Call("ncclCommSplit " + name,
         [&] { return ncclCommSplit(parent.handle, color, r.rank, &child.handle, nullptr); });
  if (child.handle != nullptr) {
    r.Check("ncclCommCount", ncclCommCount(child.handle, &child.n));
    r.Check("ncclCommUserRank", ncclCommUserRank(child.handle, &child.rank));
    r.FillBuffers(&child);
  }
  return child;
}

}  // namespace

TRUTH_PROGRAM(init_same_order, 2) { InitOrder(r, false); }
TRUTH_PROGRAM(init_opposite, 2) { InitOrder(r, true); }

TRUTH_PROGRAM(init_opposite_grouped, 2) {
  MakeIds(r);
  cudaStream_t s = r.Stream();
  Comm one, two;
  bool reverse = r.Departs();
  r.GroupStart();
  r.Check("init", Init(r, reverse ? &two : &one, reverse ? "two" : "one"));
  r.Check("init", Init(r, reverse ? &one : &two, reverse ? "one" : "two"));
  r.GroupEnd();
  r.FillBuffers(&one);
  r.FillBuffers(&two);
  r.AllReduce(one, s);
  r.AllReduce(two, s);
  r.Finish({s});
}

TRUTH_PROGRAM(init_missing, 2) {
  MakeIds(r);
  if (r.Departs()) r.WaitFor(0, "never");
  Comm one;
  r.Call("ncclCommInitRankConfig one", [&] { return Init(r, &one, "one"); });
}

TRUTH_PROGRAM(nonblocking_init_opposite, 2) { NonblockingInit(r, false); }
TRUTH_PROGRAM(nonblocking_init_opposite_polled, 2) { NonblockingInit(r, true); }
TRUTH_PROGRAM(nonblocking_cold_opposite, 2) { NonblockingCold(r, false); }
TRUTH_PROGRAM(nonblocking_cold_opposite_polled, 2) { NonblockingCold(r, true); }

TRUTH_PROGRAM(split_same_order, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  Comm one = Split(r, dp, "one", 0);
  Comm two = Split(r, dp, "two", r.rank % 2);
  r.AllReduce(one, s);
  r.AllReduce(two, s);
  r.Finish({s});
}

TRUTH_PROGRAM(split_opposite_parents, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  Comm first = Split(r, r.Departs() ? tp : dp, r.Departs() ? "of tp" : "of dp", 0);
  Comm second = Split(r, r.Departs() ? dp : tp, r.Departs() ? "of dp" : "of tp", 0);
  r.Finish({s});
}

TRUTH_PROGRAM(split_one_skips, 2) {
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.Departs()) r.WaitFor(0, "never");
  Split(r, dp, "child", 0);
  r.Finish({});
}

// A rank without a colour takes part all the same.
TRUTH_PROGRAM(split_no_color, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  Comm child = Split(r, dp, "child", r.Departs() ? NCCL_SPLIT_NOCOLOR : 0);
  r.AllReduce(child, s);
  r.Finish({s});
}

// Rank 0 splits first and then all-reduces on the parent; the others issue their all-reduce first.
// Their host is free to come to the split.
TRUTH_PROGRAM(split_against_all_reduce, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank != 0) r.AllReduce(dp, s);
  Comm child = Split(r, dp, "child", 0);
  if (r.rank == 0) r.AllReduce(dp, s);
  r.Finish({s});
}

// As above, but the others wait for the all-reduce before they split.
TRUTH_PROGRAM(split_against_all_reduce_sync, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank != 0) {
    r.AllReduce(dp, s);
    r.Sync(s, "dp");
  }
  Comm child = Split(r, dp, "child", 0);
  if (r.rank == 0) r.AllReduce(dp, s);
  r.Finish({s});
}

// A new communicator beside an all-reduce that waits for one rank, which comes to it afterwards.
TRUTH_PROGRAM(init_beside_all_reduce, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Id("one");
  r.Begin();
  if (r.rank != 0) r.AllReduce(dp, s);
  Comm one;
  r.Call("ncclCommInitRankConfig one", [&] { return Init(r, &one, "one"); });
  if (r.rank == 0) r.AllReduce(dp, s);
  r.Finish({s});
}

namespace {

// Rank 0 has an all-reduce pending and ends its communicator; the others join the all-reduce only
// when that has returned.
void EndPending(Rank& r, const char* name, ncclResult_t (*end)(ncclComm_t)) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.AllReduce(dp, s);
    r.Call(name, [&] { return end(dp.handle); });
    r.Raise(0);
  } else {
    r.WaitFor(0, "end of rank 0's communicator");
    r.AllReduce(dp, s);
  }
  r.Finish({s});
}

// Rank 0 ends its communicator when nothing is pending; the others do it when that has returned.
void EndAlone(Rank& r, const char* name, ncclResult_t (*end)(ncclComm_t)) {
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank != 0) r.WaitFor(0, "end of rank 0's communicator");
  r.Call(name, [&] { return end(dp.handle); });
  if (r.rank == 0) r.Raise(0);
  r.Finish({});
}

}  // namespace

TRUTH_PROGRAM(destroy_pending, 2) { EndPending(r, "ncclCommDestroy", ncclCommDestroy); }
TRUTH_PROGRAM(finalize_pending, 2) { EndPending(r, "ncclCommFinalize", ncclCommFinalize); }
TRUTH_PROGRAM(destroy_alone, 2) { EndAlone(r, "ncclCommDestroy", ncclCommDestroy); }
TRUTH_PROGRAM(finalize_alone, 2) { EndAlone(r, "ncclCommFinalize", ncclCommFinalize); }

namespace {

void DestroyOpposite(Rank& r, Comm dp, Comm tp) {
  r.Begin();
  r.Call("ncclCommDestroy first", [&] { return ncclCommDestroy((r.Departs() ? tp : dp).handle); });
  r.Call("ncclCommDestroy second", [&] { return ncclCommDestroy((r.Departs() ? dp : tp).handle); });
  r.Finish({});
}

}  // namespace

TRUTH_PROGRAM(destroy_opposite, 2) {
  const Comm dp = r.Ready("dp");
  DestroyOpposite(r, dp, r.Ready("tp"));
}

// The same of communicators that nobody has used: their members are not connected to each other.
TRUTH_PROGRAM(destroy_opposite_unused, 2) {
  const Comm dp = r.MakeComm("dp");
  DestroyOpposite(r, dp, r.MakeComm("tp"));
}

namespace {

// The communicator was used for one transfer from rank 0 to rank 1. `first` destroys it alone.
void EndAloneAfterTransfer(Rank& r, int first) {
  cudaStream_t s = r.Stream();
  Comm pp = r.MakeComm("pp");
  if (r.rank == 0) r.Send(pp, 1, s, pp.count);
  if (r.rank == 1) r.Recv(pp, 0, s, pp.count);
  r.Sync(s, "warm pp");
  r.Begin();
  if (r.rank != first) r.WaitFor(0, "end of the first rank's communicator");
  r.Call("ncclCommDestroy", [&] { return ncclCommDestroy(pp.handle); });
  if (r.rank == first) r.Raise(0);
  r.Finish({});
}

}  // namespace

TRUTH_PROGRAM(destroy_sender_alone, 2) { EndAloneAfterTransfer(r, 0); }
TRUTH_PROGRAM(destroy_receiver_alone, 2) { EndAloneAfterTransfer(r, 1); }

TRUTH_PROGRAM(finalize_opposite, 2) {
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  r.Call("ncclCommFinalize first",
         [&] { return ncclCommFinalize((r.Departs() ? tp : dp).handle); });
  r.Call("ncclCommFinalize second",
         [&] { return ncclCommFinalize((r.Departs() ? dp : tp).handle); });
  r.Finish({});
}

// The all-reduce of rank 0 waits for nobody who comes; ncclCommAbort lets the stream go on.
TRUTH_PROGRAM(abort_pending, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.Call("ncclAllReduce dp", [&] {
      return ncclAllReduce(dp.in, dp.out, dp.count, ncclFloat, ncclSum, dp.handle, s);
    });
    r.Call("ncclCommAbort", [&] { return ncclCommAbort(dp.handle); });
    r.Sync(s, "aborted");
    r.Raise(0);
  } else {
    r.WaitFor(0, "abort of rank 0");
  }
}

namespace {

// As nccl.h of 2.28.9 and 2.30 declare them; the installed header may be older.
using Revoke = ncclResult_t(ncclComm_t, int);
using Grow = ncclResult_t(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
using GrowId = ncclResult_t(ncclComm_t, ncclUniqueId*);

// Rank 0 alone in a communicator lets rank 1 in, under the id that rank 0 makes from it.
void GrowByOne(Rank& r, bool newcomer_comes) {
  auto* const grow = r.Find<Grow>("ncclCommGrow");
  auto* const grow_id = r.Find<GrowId>("ncclCommGetUniqueId");
  Comm alone = r.MakeComm("alone", std::vector<int>{0});
  cudaStream_t s = r.Stream();
  r.Begin();
  Comm grown;
  grown.name = "grown";
  grown.rank = r.rank;
  grown.n = 2;
  const ncclUniqueId id =
      r.MadeId("grown", [&](ncclUniqueId* made) { return grow_id(alone.handle, made); });
  if (r.rank == 1 && !newcomer_comes) r.WaitFor(0, "never");
  r.Call("ncclCommGrow", [&] {
    return grow(r.rank == 0 ? alone.handle : nullptr, 2, &id, r.rank == 0 ? -1 : 1, &grown.handle,
                nullptr);
  });
  r.FillBuffers(&grown);
  r.AllReduce(grown, s);
  r.Finish({s});
}

}  // namespace

TRUTH_PROGRAM(grow_by_one, 2) { GrowByOne(r, true); }
TRUTH_PROGRAM(grow_newcomer_missing, 2) { GrowByOne(r, false); }

// The all-reduce of rank 0 waits for others that do not come; does ncclCommRevoke let the stream go
// on, and does it wait for the others' revoke?
TRUTH_PROGRAM(revoke_pending, 2) {
  auto* const revoke = r.Find<Revoke>("ncclCommRevoke");
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.Call("ncclAllReduce dp", [&] {
      return ncclAllReduce(dp.in, dp.out, dp.count, ncclFloat, ncclSum, dp.handle, s);
    });
    r.Call("ncclCommRevoke", [&] { return revoke(dp.handle, 0); });
    r.Sync(s, "revoked");
    r.Raise(0);
  } else {
    r.WaitFor(0, "revoke of rank 0");
  }
}

namespace {

void Windows(Rank& r, bool opposite) {
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  constexpr size_t kBytes = size_t{2} << 20;
  void* first_memory = nullptr;
  void* second_memory = nullptr;
  r.Call("ncclMemAlloc", [&] { return ncclMemAlloc(&first_memory, kBytes); });
  r.Call("ncclMemAlloc", [&] { return ncclMemAlloc(&second_memory, kBytes); });
  r.Begin();
  bool reverse = opposite && r.Departs();
  const Comm& first = reverse ? tp : dp;
  const Comm& second = reverse ? dp : tp;
  ncclWindow_t one = nullptr;
  ncclWindow_t two = nullptr;
  r.Call("ncclCommWindowRegister first", [&] {
    return ncclCommWindowRegister(first.handle, first_memory, kBytes, &one,
                                  NCCL_WIN_COLL_SYMMETRIC);
  });
  r.Call("ncclCommWindowRegister second", [&] {
    return ncclCommWindowRegister(second.handle, second_memory, kBytes, &two,
                                  NCCL_WIN_COLL_SYMMETRIC);
  });
  r.Finish({});
}

}  // namespace

TRUTH_PROGRAM(windows_same_order, 2) { Windows(r, false); }
TRUTH_PROGRAM(windows_opposite, 2) { Windows(r, true); }

// Only one rank registers: locally that is nobody else's business, a window is.
TRUTH_PROGRAM(register_alone, 2) {
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    void* handle = nullptr;
    r.Call("ncclCommRegister",
           [&] { return ncclCommRegister(dp.handle, dp.in, dp.count * sizeof(float), &handle); });
    r.Call("ncclCommDeregister", [&] { return ncclCommDeregister(dp.handle, handle); });
  }
  r.Finish({});
}

TRUTH_PROGRAM(window_alone, 2) {
  Comm dp = r.Ready("dp");
  constexpr size_t kBytes = size_t{2} << 20;
  void* memory = nullptr;
  r.Call("ncclMemAlloc", [&] { return ncclMemAlloc(&memory, kBytes); });
  r.Begin();
  if (r.rank == 0) {
    ncclWindow_t window = nullptr;
    r.Call("ncclCommWindowRegister", [&] {
      return ncclCommWindowRegister(dp.handle, memory, kBytes, &window, NCCL_WIN_COLL_SYMMETRIC);
    });
    r.Raise(0);
  } else {
    r.WaitFor(0, "window of rank 0");
  }
  r.Finish({});
}
