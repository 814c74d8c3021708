// Registered windows: collectives on symmetric memory, and puts, signals and waits for signals (RMA,
// NCCL 2.29 and later).
#include <algorithm>
#include <string>

#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

// As nccl.h of 2.30 declares them; the installed header may be older.
struct WaitSignalDesc {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
};
using PutSignal = ncclResult_t(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int,
                               int, unsigned, ncclComm_t, cudaStream_t);
using Signal = ncclResult_t(int, int, int, unsigned, ncclComm_t, cudaStream_t);
using WaitSignal = ncclResult_t(int, WaitSignalDesc*, ncclComm_t, cudaStream_t);

float* Registered(Rank& r, const Comm& comm, size_t bytes, ncclWindow_t* window) {
  void* memory = nullptr;
  r.Call("ncclMemAlloc", [&] { return ncclMemAlloc(&memory, bytes); });
  r.Check("cudaMemset", cudaMemset(memory, 0, bytes));
  r.Call("ncclCommWindowRegister " + comm.name, [&] {
    return ncclCommWindowRegister(comm.handle, memory, bytes, window, NCCL_WIN_COLL_SYMMETRIC);
  });
  return static_cast<float*>(memory);
}

// A communicator whose all-reduces read and write windows.
Comm Symmetric(Rank& r, const std::string& name) {
  Comm comm = r.MakeComm(name);
  const size_t bytes = std::max<size_t>(comm.count * sizeof(float), 4096);
  ncclWindow_t in = nullptr, out = nullptr;
  float* const input = Registered(r, comm, bytes, &in);
  r.Check("cudaMemcpy", cudaMemcpy(input, comm.in, comm.count * sizeof(float), cudaMemcpyDefault));
  comm.in = input;
  comm.out = Registered(r, comm, bytes, &out);
  r.Warm(comm);
  return comm;
}

void SymmetricOrder(Rank& r, bool opposite, bool two_streams) {
  cudaStream_t s = r.Stream();
  cudaStream_t t = two_streams ? r.Stream() : s;
  Comm dp = Symmetric(r, "dp");
  Comm tp = Symmetric(r, "tp");
  r.Begin();
  const bool reverse = opposite && r.Departs();
  r.AllReduce(reverse ? tp : dp, reverse ? t : s);
  r.AllReduce(reverse ? dp : tp, reverse ? s : t);
  r.Finish({s, t});
}

// Two ranks, each with a window on the communicator that the other may put into.
struct Pair {
  Comm comm;
  int peer;
  float* source;  // registered, too: NCCL puts from windows only
  float* memory;
  ncclWindow_t window;
};

Pair MakePair(Rank& r, const std::string& name = "pair") {
  Pair p = {};
  p.comm = r.MakeComm(name);
  r.Warm(p.comm);
  p.peer = 1 - r.rank;
  const size_t bytes = std::max<size_t>(p.comm.count * sizeof(float), 4096);
  ncclWindow_t window = nullptr;
  p.source = Registered(r, p.comm, bytes, &window);
  r.Check("cudaMemcpy",
          cudaMemcpy(p.source, p.comm.in, p.comm.count * sizeof(float), cudaMemcpyDefault));
  p.memory = Registered(r, p.comm, bytes, &p.window);
  return p;
}

void Send(Rank& r, const Pair& p, cudaStream_t s) {
  auto* const signal = r.Find<Signal>("ncclSignal");
  r.Call("ncclSignal", [&] { return signal(p.peer, 0, 0, 0, p.comm.handle, s); });
}

void Put(Rank& r, const Pair& p, cudaStream_t s) {
  auto* const put = r.Find<PutSignal>("ncclPutSignal");
  r.Call("ncclPutSignal", [&] {
    return put(p.source, p.comm.count, ncclFloat, p.peer, p.window, 0, 0, 0, 0, p.comm.handle, s);
  });
}

void Await(Rank& r, const Pair& p, cudaStream_t s, int signals = 1) {
  auto* const wait = r.Find<WaitSignal>("ncclWaitSignal");
  WaitSignalDesc one = {signals, p.peer, 0, 0};
  r.Call("ncclWaitSignal", [&] { return wait(1, &one, p.comm.handle, s); });
}

void ExpectPeersData(Rank& r, const Pair& p) {
  r.Expect(p.memory, p.comm.count, [scale = p.comm.scale, peer = p.peer](size_t i) {
    return truth::Input(scale, peer, i);
  });
}

// The pair has exchanged one signal each way.
Pair WarmPair(Rank& r) {
  Pair p = MakePair(r);
  cudaStream_t s = r.Stream();
  Send(r, p, s);
  Await(r, p, s);
  r.Sync(s, "warm signals");
  return p;
}

}  // namespace

TRUTH_PROGRAM(symmetric_same_order, 2) { SymmetricOrder(r, false, false); }
TRUTH_PROGRAM(symmetric_inversion_one_stream, 2) { SymmetricOrder(r, true, false); }
TRUTH_PROGRAM(symmetric_inversion_two_streams, 2) { SymmetricOrder(r, true, true); }

// One rank issues an all-reduce on symmetric memory that the others do not.
TRUTH_PROGRAM(symmetric_one_too_many, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = Symmetric(r, "dp");
  r.Begin();
  r.AllReduce(dp, s);
  if (r.Departs()) r.AllReduce(dp, s);
  r.Finish({s});
}

TRUTH_PROGRAM(rma_put_and_wait, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  ExpectPeersData(r, p);
  Put(r, p, s);
  Await(r, p, s);
  r.Finish({s});
}

// Both wait before they put.
TRUTH_PROGRAM(rma_wait_and_put, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  ExpectPeersData(r, p);
  Await(r, p, s);
  Put(r, p, s);
  r.Finish({s});
}

// Does the first RMA call of a communicator wait for that of the others? Rank 0 signals, and only
// when its call has returned rank 1 comes to its own.
TRUTH_PROGRAM(rma_cold_signal_first, 2) {
  cudaStream_t s = r.Stream();
  Pair p = MakePair(r);
  r.Begin();
  if (r.rank == 0) {
    Send(r, p, s);
    r.Raise(0);
  } else {
    r.WaitFor(0, "signal of rank 0");
    Await(r, p, s);
  }
  r.Finish({s});
}

TRUTH_PROGRAM(rma_cold_wait_first, 2) {
  cudaStream_t s = r.Stream();
  Pair p = MakePair(r);
  r.Begin();
  if (r.rank == 0) {
    Await(r, p, s);
    r.Raise(0);
  } else {
    r.WaitFor(0, "wait of rank 0");
    Send(r, p, s);
  }
  r.Finish({s});
}

// The same, of a pair that has signalled before.
TRUTH_PROGRAM(rma_warm_wait_first, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    Await(r, p, s);
    r.Raise(0);
  } else {
    r.WaitFor(0, "wait of rank 0");
    Send(r, p, s);
  }
  r.Finish({s});
}

TRUTH_PROGRAM(rma_signal_missing, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) Await(r, p, s, 2);
  if (r.rank == 1) Send(r, p, s);
  r.Finish({s});
}

// One signal for two waits of one: does a wait use its signals up?
TRUTH_PROGRAM(rma_one_signal_two_waits, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    Await(r, p, s);
    Await(r, p, s);
  } else {
    Send(r, p, s);
  }
  r.Finish({s});
}

// Signals that came before the wait for them count.
TRUTH_PROGRAM(rma_signals_come_first, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 1) {
    Send(r, p, s);
    Send(r, p, s);
    r.Sync(s, "signals");
    r.Raise(0);
  } else {
    r.WaitFor(0, "signals of rank 1");
    Await(r, p, s);
    Await(r, p, s);
  }
  r.Finish({s});
}

// Does a wait hold its communicator? Rank 0 waits on one stream and all-reduces on another; rank 1
// signals when the all-reduce is done.
TRUTH_PROGRAM(rma_wait_beside_all_reduce, 2) {
  cudaStream_t s = r.Stream();
  cudaStream_t t = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    Await(r, p, s);
    r.AllReduce(p.comm, t);
  } else {
    r.AllReduce(p.comm, t);
    r.Sync(t, "all-reduce");
    Send(r, p, s);
  }
  r.Finish({s, t});
}

// Does an all-reduce that waits hold the signals behind it? Rank 0 all-reduces on one stream and
// signals on another; rank 1 joins the all-reduce behind its wait.
TRUTH_PROGRAM(rma_signal_beside_all_reduce, 2) {
  cudaStream_t s = r.Stream();
  cudaStream_t t = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    r.AllReduce(p.comm, t);
    Send(r, p, s);
  } else {
    Await(r, p, s);
    r.Sync(s, "wait");
    r.AllReduce(p.comm, t);
  }
  r.Finish({s, t});
}

// Does a wait hold the puts behind it on another stream?
TRUTH_PROGRAM(rma_wait_and_put_two_streams, 2) {
  cudaStream_t s = r.Stream();
  cudaStream_t t = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  ExpectPeersData(r, p);
  Await(r, p, s);
  Put(r, p, t);
  r.Finish({s, t});
}

TRUTH_PROGRAM(rma_group_behind_wait, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  Await(r, p, s);
  r.GroupStart();
  Put(r, p, s);
  Send(r, p, s);
  r.GroupEnd();
  r.Finish({s});
}

// What is in one group: does a signal leave although a wait was called before it?
TRUTH_PROGRAM(rma_group_wait_and_signal, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  r.GroupStart();
  Await(r, p, s);
  Send(r, p, s);
  r.GroupEnd();
  r.Finish({s});
}

// Does a group's signal leave before its all-reduce is done?
TRUTH_PROGRAM(rma_group_all_reduce_and_signal, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    r.GroupStart();
    r.AllReduce(p.comm, s);
    Send(r, p, s);
    r.GroupEnd();
  } else {
    Await(r, p, s);
    r.Sync(s, "wait");
    r.AllReduce(p.comm, s);
  }
  r.Finish({s});
}

// Does a group's all-reduce start before its wait is done?
TRUTH_PROGRAM(rma_group_wait_and_all_reduce, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    r.GroupStart();
    Await(r, p, s);
    r.AllReduce(p.comm, s);
    r.GroupEnd();
  } else {
    r.AllReduce(p.comm, s);
    r.Sync(s, "all-reduce");
    Send(r, p, s);
  }
  r.Finish({s});
}

// The first RMA calls of two communicators in opposite order.
TRUTH_PROGRAM(rma_cold_opposite, 2) {
  cudaStream_t s = r.Stream();
  cudaStream_t t = r.Stream();
  Pair one = MakePair(r, "one");
  Pair two = MakePair(r, "two");
  r.Begin();
  Send(r, r.Departs() ? two : one, s);
  Send(r, r.Departs() ? one : two, t);
  r.Finish({s, t});
}

// A first RMA call against an all-reduce that the other rank waits for before its own.
TRUTH_PROGRAM(rma_cold_against_all_reduce, 2) {
  cudaStream_t s = r.Stream();
  Pair p = MakePair(r);
  r.Begin();
  if (r.rank == 0) {
    Send(r, p, s);
    r.AllReduce(p.comm, s);
  } else {
    r.AllReduce(p.comm, s);
    r.Sync(s, "all-reduce");
    Await(r, p, s);
  }
  r.Finish({s});
}

// Ends its communicator while a wait for a signal is pending, which comes afterwards.
TRUTH_PROGRAM(rma_destroy_pending_wait, 2) {
  cudaStream_t s = r.Stream();
  Pair p = WarmPair(r);
  r.Begin();
  if (r.rank == 0) {
    Await(r, p, s);
    r.Call("ncclCommDestroy", [&] { return ncclCommDestroy(p.comm.handle); });
    r.Raise(0);
  } else {
    r.WaitFor(0, "end of rank 0's communicator");
    Send(r, p, s);
  }
  r.Finish({s});
}
