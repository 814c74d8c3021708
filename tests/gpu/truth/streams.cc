// Kinds of streams: legacy default, per-thread default, blocking, priorities.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

// dp on `a`, tp on `b`, the departing rank the other way round; `between` in the middle.
template <typename F>
void Inverted(Rank& r, cudaStream_t a, cudaStream_t b, F between) {
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  r.Begin();
  bool reverse = r.Departs();
  r.AllReduce(reverse ? tp : dp, reverse ? b : a);
  between();
  r.AllReduce(reverse ? dp : tp, reverse ? a : b);
  r.Finish({a, b});
}

void Nothing() {}

}  // namespace

TRUTH_PROGRAM(legacy_against_blocking, 2) {
  Inverted(r, cudaStreamLegacy, r.Stream(cudaStreamDefault), Nothing);
}

TRUTH_PROGRAM(legacy_against_nonblocking, 2) { Inverted(r, cudaStreamLegacy, r.Stream(), Nothing); }

TRUTH_PROGRAM(blocking_against_blocking, 2) {
  Inverted(r, r.Stream(cudaStreamDefault), r.Stream(cudaStreamDefault), Nothing);
}

// Work on the legacy stream stands between the two, and joins them.
TRUTH_PROGRAM(blocking_with_legacy_between, 2) {
  float* scratch = r.Buffer(64);
  Inverted(r, r.Stream(cudaStreamDefault), r.Stream(cudaStreamDefault), [&] {
    r.Call("cudaMemsetAsync legacy", [&] { return cudaMemsetAsync(scratch, 0, 256, nullptr); });
  });
}

TRUTH_PROGRAM(nonblocking_with_legacy_between, 2) {
  float* scratch = r.Buffer(64);
  Inverted(r, r.Stream(), r.Stream(), [&] {
    r.Call("cudaMemsetAsync legacy", [&] { return cudaMemsetAsync(scratch, 0, 256, nullptr); });
  });
}

// An event recorded on the legacy stream stands behind the blocking streams, too.
TRUTH_PROGRAM(blocking_with_legacy_event, 2) {
  cudaEvent_t e = r.Event();
  Inverted(r, r.Stream(cudaStreamDefault), r.Stream(cudaStreamDefault),
           [&] { r.Call("cudaEventRecord legacy", [&] { return cudaEventRecord(e, nullptr); }); });
}

TRUTH_PROGRAM(blocking_with_legacy_sync, 2) {
  Inverted(r, r.Stream(cudaStreamDefault), r.Stream(cudaStreamDefault),
           [&] { r.Sync(nullptr, "legacy"); });
}

TRUTH_PROGRAM(nonblocking_with_legacy_sync, 2) {
  Inverted(r, r.Stream(), r.Stream(), [&] { r.Sync(nullptr, "legacy"); });
}

TRUTH_PROGRAM(per_thread_against_legacy, 2) {
  Inverted(r, cudaStreamPerThread, cudaStreamLegacy, Nothing);
}

TRUTH_PROGRAM(per_thread_against_blocking, 2) {
  Inverted(r, cudaStreamPerThread, r.Stream(cudaStreamDefault), Nothing);
}

TRUTH_PROGRAM(per_thread_against_nonblocking, 2) {
  Inverted(r, cudaStreamPerThread, r.Stream(), Nothing);
}

TRUTH_PROGRAM(per_thread_one_stream, 2) {
  Inverted(r, cudaStreamPerThread, cudaStreamPerThread, Nothing);
}

TRUTH_PROGRAM(priorities, 2) {
  int least = 0, greatest = 0;
  r.Check("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t low = nullptr, high = nullptr;
  r.Check("cudaStreamCreateWithPriority",
          cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least));
  r.Check("cudaStreamCreateWithPriority",
          cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
  Inverted(r, low, high, Nothing);
}

TRUTH_PROGRAM(synchronous_copy_between, 2) {
  // cudaMemcpy is on the legacy stream: it waits for blocking streams.
  float* scratch = r.Buffer(64);
  float host[64] = {};
  Inverted(r, r.Stream(cudaStreamDefault), r.Stream(cudaStreamDefault), [&] {
    r.Call("cudaMemcpy",
           [&] { return cudaMemcpy(host, scratch, sizeof host, cudaMemcpyDeviceToHost); });
  });
}

TRUTH_PROGRAM(synchronous_copy_between_nonblocking, 2) {
  float* scratch = r.Buffer(64);
  float host[64] = {};
  Inverted(r, r.Stream(), r.Stream(), [&] {
    r.Call("cudaMemcpy",
           [&] { return cudaMemcpy(host, scratch, sizeof host, cudaMemcpyDeviceToHost); });
  });
}
