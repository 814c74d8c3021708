// Sends and receives, alone and beside collectives.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

int Next(const Rank& r) { return (r.rank + 1) % r.n; }
int Previous(const Rank& r) { return (r.rank + r.n - 1) % r.n; }

// Exchanges a little with both neighbours, in both directions, so that nothing is left to connect.
// With two ranks both are the same one.
void WarmPairs(Rank& r, Comm& comm) {
  cudaStream_t s = r.Stream();
  float* scratch = r.Buffer(4 * 64);
  auto send = [&](int i, int peer) {
    r.Check("ncclSend", ncclSend(scratch + i * 64, 16, ncclFloat, peer, comm.handle, s));
  };
  auto recv = [&](int i, int peer) {
    r.Check("ncclRecv", ncclRecv(scratch + i * 64, 16, ncclFloat, peer, comm.handle, s));
  };
  r.GroupStart();
  send(0, Next(r));
  recv(1, Previous(r));
  if (Next(r) != Previous(r)) {
    send(2, Previous(r));
    recv(3, Next(r));
  }
  r.GroupEnd();
  r.Sync(s, "warm " + comm.name);
}

Comm ReadyPairs(Rank& r, const std::string& name) {
  Comm comm = r.MakeComm(name);
  WarmPairs(r, comm);
  return comm;
}

}  // namespace

// Every rank sends to its neighbour before it receives: ends as far as sends are buffered.
TRUTH_PROGRAM(send_send, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  r.Send(pp, Next(r), s, pp.count);
  r.Recv(pp, Previous(r), s, pp.count);
  r.Finish({s});
}

TRUTH_PROGRAM(send_send_cold, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = r.MakeComm("pp");
  r.Begin();
  r.Send(pp, Next(r), s, pp.count);
  r.Recv(pp, Previous(r), s, pp.count);
  r.Finish({s});
}

TRUTH_PROGRAM(send_send_two_streams, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  r.Send(pp, Next(r), a, pp.count);
  r.Recv(pp, Previous(r), b, pp.count);
  r.Finish({a, b});
}

TRUTH_PROGRAM(recv_recv, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  r.Recv(pp, Previous(r), s, pp.count);
  r.Send(pp, Next(r), s, pp.count);
  r.Finish({s});
}

// Two streams do not help: operations of one communicator run in order.
TRUTH_PROGRAM(recv_recv_two_streams, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  r.Recv(pp, Previous(r), a, pp.count);
  r.Send(pp, Next(r), b, pp.count);
  r.Finish({a, b});
}

TRUTH_PROGRAM(recv_recv_two_comms, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm there = ReadyPairs(r, "there");
  Comm back = ReadyPairs(r, "back");
  r.Begin();
  bool first = r.rank % 2 == 0;  // even ranks send on `there`, odd ones on `back`
  int peer = r.rank ^ 1;
  if (peer < r.n) {
    r.Recv(first ? back : there, peer, a, back.count);
    r.Send(first ? there : back, peer, b, there.count);
  }
  r.Finish({a, b});
}

TRUTH_PROGRAM(recv_recv_grouped, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  r.GroupStart();
  r.Recv(pp, Previous(r), s, pp.count);
  r.Send(pp, Next(r), s, pp.count);
  r.GroupEnd();
  r.Finish({s});
}

// One rank groups its two directions, the other sends first and receives then.
TRUTH_PROGRAM(grouped_against_ungrouped, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  if (r.rank == 0) r.GroupStart();
  r.Send(pp, Next(r), s, pp.count);
  r.Recv(pp, Previous(r), s, pp.count);
  if (r.rank == 0) r.GroupEnd();
  r.Finish({s});
}

// As above, but the other receives first: only the group of rank 0 lets it get its data.
TRUTH_PROGRAM(grouped_against_recv_first, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  if (r.rank == 0) r.GroupStart();
  r.Recv(pp, Previous(r), s, pp.count);
  r.Send(pp, Next(r), s, pp.count);
  if (r.rank == 0) r.GroupEnd();
  r.Finish({s});
}

TRUTH_PROGRAM(send_to_self_grouped, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  r.GroupStart();
  r.Send(pp, r.rank, s, pp.count);
  r.Recv(pp, r.rank, s, pp.count);
  r.GroupEnd();
  r.Finish({s});
}

// Rank 0 receives before the all-reduce, rank 1 sends after it.
TRUTH_PROGRAM(recv_all_reduce_against_all_reduce_send, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  if (r.rank == 0) r.Recv(pp, 1, s, pp.count);
  r.AllReduce(world, s);
  if (r.rank == 1) r.Send(pp, 0, s, pp.count);
  r.Finish({s});
}

// The harmless way round: the sender does not wait.
TRUTH_PROGRAM(send_all_reduce_against_all_reduce_recv, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  if (r.rank == 0) r.Send(pp, 1, s, pp.count);
  r.AllReduce(world, s);
  if (r.rank == 1) r.Recv(pp, 0, s, pp.count);
  r.Finish({s});
}

// The same on one communicator.
TRUTH_PROGRAM(recv_all_reduce_one_comm, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  WarmPairs(r, world);
  r.Begin();
  float* received = r.Buffer(world.count);
  if (r.rank == 0) {
    r.Call("ncclRecv world",
           [&] { return ncclRecv(received, world.count, ncclFloat, 1, world.handle, s); });
  }
  r.AllReduce(world, s);
  if (r.rank == 1) r.Send(world, 0, s, world.count);
  r.Finish({s});
}

// Activations go 0 -> 1 -> ... -> last, gradients come back; stage 1 waits for a gradient before it
// passes its activation on.
TRUTH_PROGRAM(pipeline_swapped, 3) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  int last = r.n - 1;
  if (r.rank > 0) r.Recv(pp, r.rank - 1, s, pp.count);
  if (r.rank < last) {
    bool swapped = r.rank == 1;
    if (!swapped) r.Send(pp, r.rank + 1, s, pp.count);
    r.Call("ncclRecv gradient",
           [&] { return ncclRecv(pp.out, pp.count, ncclFloat, r.rank + 1, pp.handle, s); });
    if (swapped) r.Send(pp, r.rank + 1, s, pp.count);
  }
  if (r.rank > 0) r.Send(pp, r.rank - 1, s, pp.count);
  r.Finish({s});
}

// First use of two communicators, by one send each, in opposite order at the two ends.
namespace {
void TwoCommsSends(Rank& r, bool cold) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm one = cold ? r.MakeComm("one") : ReadyPairs(r, "one");
  Comm two = cold ? r.MakeComm("two") : ReadyPairs(r, "two");
  r.Begin();
  if (r.rank == 0) {
    r.Send(one, 1, a, one.count);
    r.Send(two, 1, b, two.count);
  } else if (r.rank == 1) {
    r.Recv(two, 0, b, two.count);
    r.Recv(one, 0, a, one.count);
  }
  r.Finish({a, b});
}
}  // namespace
TRUTH_PROGRAM(two_comms_send_inversion, 2) { TwoCommsSends(r, false); }
TRUTH_PROGRAM(two_comms_send_inversion_cold, 2) { TwoCommsSends(r, true); }

// A message that is shorter or longer than its receiver expects.
namespace {
void Lengths(Rank& r, size_t sent, size_t received) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  if (r.rank == 0) r.Send(pp, 1, s, sent);
  if (r.rank == 1) r.Recv(pp, 0, s, received);
  r.Finish({s});
}
}  // namespace
TRUTH_PROGRAM(send_less_than_received, 2) {
  Lengths(r, r.bytes / sizeof(float) / 2, r.bytes / sizeof(float));
}
TRUTH_PROGRAM(send_more_than_received, 2) {
  Lengths(r, r.bytes / sizeof(float), r.bytes / sizeof(float) / 2);
}

TRUTH_PROGRAM(send_nobody_receives, 2) {
  cudaStream_t s = r.Stream();
  Comm pp = ReadyPairs(r, "pp");
  r.Begin();
  if (r.rank == 0) r.Send(pp, 1, s, pp.count);
  r.Finish({s});
}
