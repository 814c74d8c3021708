// Streams that wait for something outside NCCL: host functions, words in memory, hardware queues.
#include <unistd.h>

#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

void CUDART_CB WaitForFlag(void* flag) {
  auto* word = static_cast<std::atomic<uint32_t>*>(flag);
  while (word->load() == 0) usleep(1000);
}

void CUDART_CB RaiseFlag(void* flag) { static_cast<std::atomic<uint32_t>*>(flag)->store(1); }

void HostFunction(Rank& r, cudaStream_t s, cudaHostFn_t function, int flag) {
  r.Call("cudaLaunchHostFunc", [&] { return cudaLaunchHostFunc(s, function, &r.FlagWord(flag)); });
}

// Rank 0's stream waits in a host function for rank 1's host, which waits for the collective or
// not.
void HostFunctionGate(Rank& r, bool waits_first) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) HostFunction(r, s, WaitForFlag, 0);
  r.AllReduce(dp, s);
  if (r.rank == 1) {
    if (waits_first) r.Sync(s, "dp");
    r.Raise(0);
  }
  r.Finish({s});
}

// The same with a stream wait for a word that rank 1 writes.
void WordGate(Rank& r, bool waits_first) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.DeviceWord(0);
  r.Begin();
  if (r.rank == 0) r.WaitValue(s, 0, 1);
  r.AllReduce(dp, s);
  if (r.rank == 1) {
    if (waits_first) r.Sync(s, "dp");
    r.SetWord(0, 1);
  }
  r.Finish({s});
}

// Rank 0's stream `a` holds a waiting dp and, behind it, `behind`; then tp goes to stream `b`. The
// others do tp first and wait for it. If what stands behind dp takes a hardware queue that `b`
// shares, nobody gets on.
template <typename F>
void QueuedBehind(Rank& r, F behind) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.DeviceWord(0);
  r.Begin();
  if (r.rank == 0) {
    r.AllReduce(dp, a);
    behind(a);
    r.AllReduce(tp, b);
    r.Sync(b, "tp");
    r.SetWord(0, 1);
  } else {
    r.AllReduce(tp, b);
    r.Sync(b, "tp");
    r.AllReduce(dp, a);
  }
  r.Finish({a, b});
}

}  // namespace

TRUTH_PROGRAM(host_function_gate, 2) { HostFunctionGate(r, false); }
TRUTH_PROGRAM(host_function_cycle, 2) { HostFunctionGate(r, true); }

// A host function behind a collective runs only when that is done.
TRUTH_PROGRAM(host_function_behind, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    r.AllReduce(dp, s);
    HostFunction(r, s, RaiseFlag, 0);
  } else {
    r.WaitFor(0, "host function of rank 0");
    r.AllReduce(dp, s);
  }
  r.Finish({s});
}

// The first host function waits for the second, which is on another stream of the same device.
TRUTH_PROGRAM(host_functions_two_streams, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    HostFunction(r, a, WaitForFlag, 0);
    HostFunction(r, b, RaiseFlag, 0);
  }
  r.AllReduce(dp, a);
  r.Finish({a, b});
}

// A host function that waits does not keep a collective on another stream from running.
TRUTH_PROGRAM(host_function_beside, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) HostFunction(r, a, WaitForFlag, 0);
  r.AllReduce(dp, b);
  if (r.rank == 0) {
    r.Sync(b, "dp");
    r.Raise(0);
  }
  r.Finish({a, b});
}

TRUTH_PROGRAM(word_gate, 2) { WordGate(r, false); }
TRUTH_PROGRAM(word_cycle, 2) { WordGate(r, true); }

// The word is written by a stream: rank 1's, behind its all-reduce, for which rank 0 keeps back dp.
TRUTH_PROGRAM(word_written_by_stream_cycle, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.DeviceWord(0);
  r.Begin();
  if (r.rank == 0) r.WaitValue(s, 0, 1);
  r.AllReduce(dp, s);
  if (r.rank == 1) r.WriteValue(s, 0, 1);
  r.Finish({s});
}

TRUTH_PROGRAM(word_written_by_stream, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.DeviceWord(0);
  r.Begin();
  if (r.rank == 0) r.WaitValue(s, 0, 1);
  if (r.rank == 1) r.WriteValue(s, 0, 1);
  r.AllReduce(dp, s);
  r.Finish({s});
}

// Two streams of one rank in a circle of words: each waits for what the other writes afterwards.
TRUTH_PROGRAM(words_crossed, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  r.DeviceWord(0);
  r.Begin();
  if (r.rank == 0) {
    r.WaitValue(a, 0, 1);
    r.WriteValue(a, 1, 1);
    r.WaitValue(b, 1, 1);
    r.WriteValue(b, 0, 1);
  }
  r.AllReduce(dp, a);
  r.Finish({a, b});
}

TRUTH_PROGRAM(queue_collective_behind, 2) {
  Comm other = r.Ready("other");
  cudaStream_t last = nullptr;
  QueuedBehind(r, [&](cudaStream_t a) {
    r.AllReduce(other, a);
    last = a;
  });
  if (r.rank != 0) {
    cudaStream_t s = r.Stream();
    r.AllReduce(other, s);
    r.Finish({s});
  } else {
    r.Finish({last});
  }
}

TRUTH_PROGRAM(queue_wait_value_behind, 2) {
  QueuedBehind(r, [&](cudaStream_t a) { r.WaitValue(a, 0, 1); });
}

TRUTH_PROGRAM(queue_write_value_behind, 2) {
  QueuedBehind(r, [&](cudaStream_t a) { r.WriteValue(a, 1, 1); });
}

TRUTH_PROGRAM(queue_event_behind, 2) {
  cudaEvent_t e = r.Event();
  QueuedBehind(
      r, [&](cudaStream_t a) { r.Call("cudaEventRecord", [&] { return cudaEventRecord(e, a); }); });
}

TRUTH_PROGRAM(queue_memset_behind, 2) {
  float* scratch = r.Buffer(64);
  cudaStream_t s = r.Stream();
  r.Check("cudaMemsetAsync", cudaMemsetAsync(scratch, 0, 256, s));
  QueuedBehind(r, [&](cudaStream_t a) {
    r.Call("cudaMemsetAsync", [&] { return cudaMemsetAsync(scratch, 0, 256, a); });
  });
}

TRUTH_PROGRAM(queue_copy_behind, 2) {
  float* from = r.Buffer(64);
  void* pinned = nullptr;
  r.Check("cudaMallocHost", cudaMallocHost(&pinned, 256));
  QueuedBehind(r, [&](cudaStream_t a) {
    r.Call("cudaMemcpyAsync",
           [&] { return cudaMemcpyAsync(pinned, from, 256, cudaMemcpyDeviceToHost, a); });
  });
}
