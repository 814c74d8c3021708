// Two communicators, used in different orders by different ranks. The last rank departs from the
// others; the twin keeps one order everywhere.
#include "tests/e2e/jobs/job.h"

namespace {

// True for the rank that goes the other way round.
bool Departs(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }

}  // namespace

JOB(inversion_one_stream, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  if (Departs(c)) {
    c.AllReduce(tp, s);
    c.AllReduce(dp, s);
  } else {
    c.AllReduce(dp, s);
    c.AllReduce(tp, s);
  }
  c.Sync(s);
}

// Two pairs of communicators on a stream each; within each pair the last rank departs.
JOB(inversion_two_pairs, 2) {
  cudaStream_t s1 = c.Stream(), s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  ncclComm_t ep = c.MakeComm("ep", c.All()), cp = c.MakeComm("cp", c.All());
  for (ncclComm_t comm : {dp, tp}) c.Warm(comm, s1);
  for (ncclComm_t comm : {ep, cp}) c.Warm(comm, s2);
  c.Begin(s1);
  c.AllReduce(Departs(c) ? tp : dp, s1);
  c.AllReduce(Departs(c) ? dp : tp, s1);
  c.Sync(s1);
  c.AllReduce(Departs(c) ? cp : ep, s2);
  c.AllReduce(Departs(c) ? ep : cp, s2);
  c.Sync(s2);
}

// As inversion_one_stream; only rank 0 calls the communicators dp and tp.
JOB(inversion_half_named, 2) {
  cudaStream_t s = c.Stream();
  if (c.rank != 0) setenv("JOB_NAME_SUFFIX", "-here", 1);
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  c.AllReduce(Departs(c) ? tp : dp, s);
  c.AllReduce(Departs(c) ? dp : tp, s);
  c.Sync(s);
}

JOB(inversion_subset, 3) {
  // The second communicator holds only ranks 0 and 1: those two disagree, the others are victims.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  ncclComm_t pair = c.MakeComm("pair", {0, 1});
  c.Warm(world, s);
  c.Warm(pair, s);
  c.Begin(s);
  if (pair == nullptr) {
    c.AllReduce(world, s);
  } else if (c.rank == 1 && !c.twin) {
    c.AllReduce(pair, s);
    c.AllReduce(world, s);
  } else {
    c.AllReduce(world, s);
    c.AllReduce(pair, s);
  }
  c.Sync(s);
}

JOB(inversion_sync, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  c.AllReduce(Departs(c) ? tp : dp, Departs(c) ? s2 : s1);
  CUDA_OK(cudaDeviceSynchronize());
  c.AllReduce(Departs(c) ? dp : tp, Departs(c) ? s1 : s2);
  CUDA_OK(cudaDeviceSynchronize());
}

JOB(inversion_free, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  float* scratch = c.Buffer(1024);
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  c.AllReduce(Departs(c) ? tp : dp, Departs(c) ? s2 : s1);
  c.Step("free");
  CUDA_OK(cudaFree(scratch));
  c.AllReduce(Departs(c) ? dp : tp, Departs(c) ? s1 : s2);
  CUDA_OK(cudaDeviceSynchronize());
}

JOB(inversion_cold, 2) {
  // Two streams, so only the first use of each communicator makes the ranks wait, on the host.
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Begin(s1);
  c.AllReduce(Departs(c) ? tp : dp, Departs(c) ? s2 : s1);
  c.AllReduce(Departs(c) ? dp : tp, Departs(c) ? s1 : s2);
  c.Sync(s1);
  c.Sync(s2);
}

JOB(inversion_two_streams_warm, 2) {
  // Innocent as it stands, with and without --twin: independent streams do not care for host order.
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  c.AllReduce(Departs(c) ? tp : dp, Departs(c) ? s2 : s1);
  c.AllReduce(Departs(c) ? dp : tp, Departs(c) ? s1 : s2);
  c.Sync(s1);
  c.Sync(s2);
}

JOB(three_comm_cycle, 3) {
  cudaStream_t s = c.Stream();
  ncclComm_t ab = c.MakeComm("ab", {0, 1});
  ncclComm_t bc = c.MakeComm("bc", {1, 2});
  ncclComm_t ca = c.MakeComm("ca", {2, 0});
  c.Warm(ab, s);
  c.Warm(bc, s);
  c.Warm(ca, s);
  c.Begin(s);
  if (c.rank == 0) {
    c.AllReduce(ab, s);
    c.AllReduce(ca, s);
  } else if (c.rank == 1) {
    c.AllReduce(c.twin ? ab : bc, s);
    c.AllReduce(c.twin ? bc : ab, s);
  } else if (c.rank == 2) {
    c.AllReduce(c.twin ? bc : ca, s);
    c.AllReduce(c.twin ? ca : bc, s);
  }
  c.Sync(s);
}

JOB(event_cycle, 2) {
  // Both communicators have their own stream; events make each wait for the other, differently at
  // the two ranks.
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  cudaEvent_t e = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  c.Begin(s1);
  bool reverse = Departs(c);
  c.AllReduce(reverse ? tp : dp, reverse ? s2 : s1);
  CUDA_OK(cudaEventRecord(e, reverse ? s2 : s1));
  CUDA_OK(cudaStreamWaitEvent(reverse ? s1 : s2, e, 0));
  c.AllReduce(reverse ? dp : tp, reverse ? s1 : s2);
  c.Sync(s1);
  c.Sync(s2);
}

JOB(inversion_pageable_copy, 2) {
  // Between the two operations a result goes to ordinary memory "asynchronously": to pageable
  // memory that call waits for its stream.
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  float* result = c.Buffer(1024);
  std::vector<float> host(1024);
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  c.AllReduce(Departs(c) ? tp : dp, s);
  c.Step("copy");
  CUDA_OK(
      cudaMemcpyAsync(host.data(), result, host.size() * sizeof(float), cudaMemcpyDeviceToHost, s));
  c.AllReduce(Departs(c) ? dp : tp, s);
  c.Sync(s);
}
