// Groups: several operations that start together, also across communicators and streams.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

// Both communicators in one group. `a` and `b`: the streams of dp and tp.
void Group(Rank& r, Comm& dp, Comm& tp, cudaStream_t a, cudaStream_t b, bool reverse) {
  r.GroupStart();
  r.AllReduce(reverse ? tp : dp, reverse ? b : a);
  r.AllReduce(reverse ? dp : tp, reverse ? a : b);
  r.GroupEnd();
}

void TwoComms(Rank& r, bool two_streams, bool departing_rank_groups, bool cold) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = two_streams ? r.Stream() : a;
  Comm dp = cold ? r.MakeComm("dp") : r.Ready("dp");
  Comm tp = cold ? r.MakeComm("tp") : r.Ready("tp");
  r.Begin();
  // NCCL sorts the communicators of a group by a hash of their random ids. So the calls come in
  // both orders: one of the two is not that of the group.
  const int rounds = departing_rank_groups ? 1 : 2;
  for (int i = 0; i < rounds; ++i) {
    if (!r.Departs() || departing_rank_groups) {
      Group(r, dp, tp, a, b, r.Departs());
    } else {
      r.AllReduce(i == 0 ? tp : dp, i == 0 ? b : a);
      r.AllReduce(i == 0 ? dp : tp, i == 0 ? a : b);
    }
  }
  r.Finish({a, b});
}

}  // namespace

TRUTH_PROGRAM(group_two_comms_same_order, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  Group(r, dp, tp, s, s, false);
  r.Finish({s});
}
TRUTH_PROGRAM(group_two_comms_opposite, 2) { TwoComms(r, false, true, false); }
TRUTH_PROGRAM(group_two_comms_opposite_two_streams, 2) { TwoComms(r, true, true, false); }
TRUTH_PROGRAM(group_against_opposite_calls, 2) { TwoComms(r, false, false, false); }
TRUTH_PROGRAM(group_against_opposite_calls_two_streams, 2) { TwoComms(r, true, false, false); }
TRUTH_PROGRAM(group_two_comms_opposite_cold, 2) { TwoComms(r, true, true, true); }

// Inside a group nothing starts; the end of an inner group ends nothing.
namespace {
void Held(Rank& r, int depth) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    for (int i = 0; i < depth; ++i) r.GroupStart();
    r.AllReduce(dp, s);
    for (int i = 1; i < depth; ++i) r.GroupEnd();
    r.WaitFor(0, "others are through");
    r.GroupEnd();
  } else {
    r.AllReduce(dp, s);
    r.Sync(s, "dp");
    r.Raise(0);
  }
  r.Finish({s});
}
}  // namespace
TRUTH_PROGRAM(group_holds_back, 2) { Held(r, 1); }
TRUTH_PROGRAM(nested_group_holds_back, 2) { Held(r, 2); }

TRUTH_PROGRAM(nested_groups, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  r.GroupStart();
  r.GroupStart();
  r.AllReduce(dp, s);
  r.GroupEnd();
  r.GroupStart();
  r.AllReduce(tp, s);
  r.GroupEnd();
  r.GroupEnd();
  r.Finish({s});
}

// The operations of one group on one communicator start together, when both streams have come so
// far. Rank 0 has tp before one of the streams, the others tp behind the other stream.
TRUTH_PROGRAM(group_across_streams, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  if (r.rank == 0) r.AllReduce(tp, b);
  r.GroupStart();
  r.AllReduce(dp, a);
  r.AllReduce(dp, b);
  r.GroupEnd();
  if (r.rank != 0) r.AllReduce(tp, a);
  r.Finish({a, b});
}

// As above with tp before the group at all ranks, on different streams: nothing is crossed.
TRUTH_PROGRAM(group_across_streams_same_order, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  r.AllReduce(tp, r.rank == 0 ? b : a);
  r.GroupStart();
  r.AllReduce(dp, a);
  r.AllReduce(dp, b);
  r.GroupEnd();
  r.Finish({a, b});
}

// A group of tp and dp: tp's stream is held back by an all-reduce that comes after dp elsewhere. Do
// two communicators of one group start together, too?
TRUTH_PROGRAM(group_two_comms_start_together, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  Comm third = r.Ready("third");
  r.Begin();
  if (r.rank == 0) r.AllReduce(third, b);
  Group(r, dp, tp, a, b, false);
  if (r.rank != 0) r.AllReduce(third, a);
  r.Finish({a, b});
}

// Two all-reduces of one communicator are one kernel in a group; the departing rank calls them one
// by one.
namespace {
void TwoAgainstCalls(Rank& r, bool synced) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (!r.Departs()) r.GroupStart();
  r.AllReduce(dp, s);
  if (r.Departs() && synced) r.Sync(s, "first");
  r.AllReduce(dp, s);
  if (!r.Departs()) r.GroupEnd();
  r.Finish({s});
}
}  // namespace
TRUTH_PROGRAM(group_of_two_against_calls, 2) { TwoAgainstCalls(r, false); }
TRUTH_PROGRAM(group_of_two_against_calls_synced, 2) { TwoAgainstCalls(r, true); }

// An all-reduce with sends in one group, in different order.
TRUTH_PROGRAM(group_collective_and_pair, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  Comm pp = r.MakeComm("pp");
  auto exchange = [&] {
    r.Send(pp, (r.rank + 1) % r.n, s, pp.count);
    r.Recv(pp, (r.rank + r.n - 1) % r.n, s, pp.count);
  };
  r.GroupStart();
  exchange();
  r.GroupEnd();
  r.Sync(s, "warm pp");
  r.Begin();
  r.GroupStart();
  if (r.Departs()) exchange();
  r.AllReduce(dp, s);
  if (!r.Departs()) exchange();
  r.GroupEnd();
  r.Finish({s});
}

// A simulated group is not carried out: what follows is the first that the others see.
TRUTH_PROGRAM(group_simulate_end, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.GroupStart();
    r.AllReduce(dp, s);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    r.Call("ncclGroupSimulateEnd", [&] { return ncclGroupSimulateEnd(&info); });
  }
  r.AllReduce(dp, s);
  r.Finish({s});
}

// Rank 0's simulated operation is all that it contributes.
TRUTH_PROGRAM(group_simulate_end_instead, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.GroupStart();
    r.Check("ncclAllReduce",
            ncclAllReduce(dp.in, dp.out, dp.count, ncclFloat, ncclSum, dp.handle, s));
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    r.Call("ncclGroupSimulateEnd", [&] { return ncclGroupSimulateEnd(&info); });
  } else {
    r.AllReduce(dp, s);
  }
  r.Finish({s});
}

TRUTH_PROGRAM(empty_group, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.GroupStart();
    r.GroupEnd();
  }
  r.AllReduce(dp, s);
  r.Finish({s});
}
