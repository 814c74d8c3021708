// Two and more communicators on streams, in the same and in different orders.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

// dp on `a` and tp on `b`; the departing rank issues them the other way round. `between` runs on
// every rank between the two.
template <typename F>
void Inverted(Rank& r, Comm& dp, Comm& tp, cudaStream_t a, cudaStream_t b, F between) {
  bool reverse = r.Departs();
  r.AllReduce(reverse ? tp : dp, reverse ? b : a);
  between(reverse ? b : a, reverse ? a : b);
  r.AllReduce(reverse ? dp : tp, reverse ? a : b);
}

template <typename F>
void WarmInversion(Rank& r, bool two_streams, F between) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = two_streams ? r.Stream() : a;
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  Inverted(r, dp, tp, a, b, between);
  r.Finish({a, b});
}

void Nothing(cudaStream_t, cudaStream_t) {}

void ColdInversion(Rank& r, bool two_streams) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = two_streams ? r.Stream() : a;
  Comm dp = r.MakeComm("dp");
  Comm tp = r.MakeComm("tp");
  r.Begin();
  Inverted(r, dp, tp, a, b, Nothing);
  r.Finish({a, b});
}

}  // namespace

TRUTH_PROGRAM(same_order_one_stream, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  r.AllReduce(dp, s);
  r.AllReduce(tp, s);
  r.Finish({s});
}

TRUTH_PROGRAM(same_order_cold, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.MakeComm("dp");
  Comm tp = r.MakeComm("tp");
  r.Begin();
  r.AllReduce(dp, s);
  r.AllReduce(tp, s);
  r.Finish({s});
}

TRUTH_PROGRAM(inversion_one_stream, 2) { WarmInversion(r, false, Nothing); }
TRUTH_PROGRAM(inversion_two_streams, 2) { WarmInversion(r, true, Nothing); }
TRUTH_PROGRAM(inversion_cold_one_stream, 2) { ColdInversion(r, false); }
TRUTH_PROGRAM(inversion_cold, 2) { ColdInversion(r, true); }

TRUTH_PROGRAM(inversion_device_sync, 2) {
  WarmInversion(r, true, [&](cudaStream_t, cudaStream_t) { r.DeviceSync(); });
}

TRUTH_PROGRAM(inversion_free, 2) {
  float* scratch = r.Buffer(1024);
  WarmInversion(r, true, [&](cudaStream_t, cudaStream_t) {
    r.Call("cudaFree", [&] { return cudaFree(scratch); });
  });
}

TRUTH_PROGRAM(inversion_stream_sync, 2) {
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t) { r.Sync(first, "first"); });
}

// The other stream is idle: to wait for it is to wait for nothing.
TRUTH_PROGRAM(inversion_other_stream_sync, 2) {
  WarmInversion(r, true, [&](cudaStream_t, cudaStream_t second) { r.Sync(second, "second"); });
}

TRUTH_PROGRAM(inversion_event_sync, 2) {
  cudaEvent_t e = r.Event();
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t) {
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, first); });
    r.Call("cudaEventSynchronize", [&] { return cudaEventSynchronize(e); });
  });
}

TRUTH_PROGRAM(inversion_event_poll, 2) {
  cudaEvent_t e = r.Event();
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t) {
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, first); });
    r.WaitUntil("cudaEventQuery", [&] {
      cudaError_t result = cudaEventQuery(e);
      if (result != cudaErrorNotReady) r.Check("cudaEventQuery", result);
      return result == cudaSuccess;
    });
  });
}

// Each stream waits for the other, differently at the two ranks.
TRUTH_PROGRAM(inversion_event_wait, 2) {
  cudaEvent_t e = r.Event();
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t second) {
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, first); });
    r.Call("cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(second, e, 0); });
  });
}

// An event that was never recorded holds nobody.
TRUTH_PROGRAM(inversion_event_unrecorded, 2) {
  cudaEvent_t e = r.Event();
  WarmInversion(r, true, [&](cudaStream_t, cudaStream_t second) {
    r.Call("cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(second, e, 0); });
  });
}

// A wait covers what the event stood behind when the wait was issued: here nothing, though the
// event is recorded behind the collective afterwards.
TRUTH_PROGRAM(inversion_event_recorded_again, 2) {
  cudaEvent_t e = r.Event();
  cudaStream_t idle = r.Stream();
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t second) {
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, idle); });
    r.Call("cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(second, e, 0); });
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, first); });
  });
}

// Events put dp before tp on every rank, on two streams.
TRUTH_PROGRAM(event_chain_same_order, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  cudaEvent_t e = r.Event();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  r.AllReduce(dp, a);
  r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, a); });
  r.Call("cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(b, e, 0); });
  r.AllReduce(tp, b);
  r.Finish({a, b});
}

// The second communicator holds only ranks 0 and 1, which disagree; the others are victims.
TRUTH_PROGRAM(inversion_subset, 3) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  Comm pair = r.Ready("pair", {0, 1});
  r.Begin();
  r.AllReduce(r.rank == 1 ? pair : world, s);
  r.AllReduce(r.rank == 1 ? world : pair, s);
  r.Finish({s});
}

namespace {

void ThreeComms(Rank& r, bool cycle) {
  cudaStream_t s = r.Stream();
  Comm ab = r.Ready("ab", {0, 1});
  Comm bc = r.Ready("bc", {1, 2});
  Comm ca = r.Ready("ca", {2, 0});
  r.Begin();
  if (r.rank == 0) {
    r.AllReduce(ab, s);
    r.AllReduce(ca, s);
  } else if (r.rank == 1) {
    r.AllReduce(cycle ? bc : ab, s);
    r.AllReduce(cycle ? ab : bc, s);
  } else if (r.rank == 2) {
    r.AllReduce(cycle ? ca : bc, s);
    r.AllReduce(cycle ? bc : ca, s);
  }
  r.Finish({s});
}

// Communicators c0..c5, each on its own stream; the departing rank takes them in reverse.
void ManyStreams(Rank& r, bool shared_stream) {
  constexpr int kComms = 6;
  std::vector<Comm> comms;
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < kComms; ++i) {
    comms.push_back(r.Ready("c" + std::to_string(i)));
    streams.push_back(r.Stream());
  }
  r.Begin();
  for (int i = 0; i < kComms; ++i) {
    int k = r.Departs() ? kComms - 1 - i : i;
    // Shared: the first and the last communicator have one stream.
    r.AllReduce(comms[static_cast<size_t>(k)],
                streams[static_cast<size_t>(shared_stream && k == kComms - 1 ? 0 : k)]);
  }
  r.Finish({streams[0], streams[1], streams[2], streams[3], streams[4], streams[5]});
}

}  // namespace

TRUTH_PROGRAM(three_comms_cycle, 3) { ThreeComms(r, true); }
TRUTH_PROGRAM(three_comms_chain, 3) { ThreeComms(r, false); }
TRUTH_PROGRAM(inversion_six_streams, 2) { ManyStreams(r, false); }
TRUTH_PROGRAM(inversion_six_comms_five_streams, 2) { ManyStreams(r, true); }

TRUTH_PROGRAM(one_too_many, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  r.Begin();
  for (int i = 0; i < 3 + (r.rank == 0 ? 1 : 0); ++i) r.AllReduce(world, s);
  r.Finish({s});
  r.Raise(0);
  r.WaitFor(1, "never");
}

TRUTH_PROGRAM(missing_rank, 2) {
  cudaStream_t s = r.Stream();
  Comm world = r.Ready("world");
  r.Begin();
  if (r.Departs()) r.WaitFor(0, "never");
  r.AllReduce(world, s);
  r.Finish({s});
}

// One communicator on two streams: operations match by the order of the calls, not by stream.
TRUTH_PROGRAM(one_comm_two_streams_crossed, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  r.AllReduce(dp, r.Departs() ? b : a);
  r.AllReduce(dp, r.Departs() ? a : b);
  r.Finish({a, b});
}

// NCCL runs the operations of one communicator one after another, whatever their streams: rank 0's
// second dp waits for its first, which the others hold back until tp is done.
TRUTH_PROGRAM(one_comm_two_streams_held, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  if (r.Departs()) {
    r.AllReduce(tp, a);
    r.AllReduce(dp, a);
    r.AllReduce(dp, a);
  } else {
    r.AllReduce(dp, a);
    r.AllReduce(dp, b);
    r.AllReduce(tp, b);
  }
  r.Finish({a, b});
}

// Behind the first operation its stream writes a word, with a memory barrier.
TRUTH_PROGRAM(inversion_write_value, 2) {
  r.DeviceWord(0);
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t) { r.WriteValue(first, 0, 1); });
}

TRUTH_PROGRAM(inversion_pageable_copy, 2) {
  float* scratch = r.Buffer(1024);
  std::vector<float> host(1024);
  WarmInversion(r, true, [&](cudaStream_t first, cudaStream_t) {
    r.Call("cudaMemcpyAsync", [&] {
      return cudaMemcpyAsync(host.data(), scratch, host.size() * sizeof(float),
                             cudaMemcpyDeviceToHost, first);
    });
  });
}
