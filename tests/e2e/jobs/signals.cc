// RMA: puts and signals, and waits for signals (NCCL 2.29 and later).

#include "tests/e2e/jobs/job.h"

namespace {

// As nccl.h of 2.30 declares them, which need not be installed.
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

// Two ranks with a window each.
struct Pair {
  ncclComm_t comm;
  cudaStream_t stream;
  int peer;
  float* source;  // for kPuts puts
  int puts;
  float* window;
  ncclWindow_t handle;
};
constexpr size_t kFloats = 1024;
constexpr size_t kPuts = 8;

float* Register(ncclComm_t comm, size_t floats, ncclWindow_t* handle) {
  void* memory = nullptr;
  NCCL_OK(ncclMemAlloc(&memory, floats * sizeof(float)));
  CUDA_OK(cudaMemset(memory, 0, floats * sizeof(float)));
  NCCL_OK(ncclCommWindowRegister(comm, memory, floats * sizeof(float), handle,
                                 NCCL_WIN_COLL_SYMMETRIC));
  return static_cast<float*>(memory);
}

Pair MakePair(job::Context& c) {
  Pair p = {};
  p.stream = c.Stream();
  p.comm = c.MakeComm("pair", {0, 1});
  c.Warm(p.comm, p.stream);
  p.peer = 1 - c.rank;
  ncclWindow_t handle = nullptr;
  p.source = Register(p.comm, kPuts * kFloats, &handle);
  p.window = Register(p.comm, kFloats, &p.handle);
  return p;
}

// From a window, which NCCL asks for, and from bytes of their own: the put may read them long after
// the call.
void Put(Pair& p, float value, size_t at = 0) {
  const std::vector<float> values(kFloats - at, value);
  float* const source = p.source + kFloats * p.puts++;
  CUDA_OK(cudaMemcpy(source, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  NCCL_OK(job::Newer<PutSignal>("ncclPutSignal")(source, values.size(), ncclFloat, p.peer, p.handle,
                                                 at * sizeof(float), 0, 0, 0, p.comm, p.stream));
}

void Wait(const Pair& p, int count) {
  WaitSignalDesc one = {count, p.peer, 0, 0};
  NCCL_OK(job::Newer<WaitSignal>("ncclWaitSignal")(1, &one, p.comm, p.stream));
}

// What the peer has put is there.
void Expect(const Pair& p, float value, size_t at = 0) {
  float seen = 0;
  CUDA_OK(cudaMemcpy(&seen, p.window + at, sizeof(float), cudaMemcpyDeviceToHost));
  if (seen != value) {
    std::fprintf(stderr, "the window holds %g, not %g\n", seen, value);
    std::_Exit(7);
  }
}

}  // namespace

JOB(signals_crossed, 2) {
  // Each waits for the other's bytes before it puts its own.
  Pair p = MakePair(c);
  c.Begin(p.stream);
  const float mine = 1.0f + static_cast<float>(c.rank), theirs = 1.0f + static_cast<float>(p.peer);
  const bool first = c.twin && c.rank == 0;
  c.Step("put and wait");
  if (first) Put(p, mine);
  Wait(p, 1);
  if (!first) Put(p, mine);
  c.Sync(p.stream);
  Expect(p, theirs);
  c.AllReduce(p.comm, p.stream);
  c.Sync(p.stream);
  NCCL_OK(ncclCommWindowDeregister(p.comm, p.handle));
}

JOB(signal_missing, 2) {
  // Rank 0 waits for three signals, rank 1 sends two.
  Pair p = MakePair(c);
  c.Begin(p.stream);
  c.Step("signals");
  if (c.rank == 0) {
    Wait(p, 3);
  } else {
    Put(p, 5);
    Put(p, 6, kFloats / 2);
    if (c.twin) NCCL_OK(job::Newer<Signal>("ncclSignal")(p.peer, 0, 0, 0, p.comm, p.stream));
  }
  c.AllReduce(p.comm, p.stream);
  c.Sync(p.stream);
  if (c.rank == 0) {
    Expect(p, 5);
    Expect(p, 6, kFloats / 2);
  }
}

JOB(signal_missing_later, 2) {
  // The same after rounds that went well: only a wait that uses up its signals explains it.
  Pair p = MakePair(c);
  for (int i = 0; i < 5; ++i) {
    Put(p, static_cast<float>(i));
    Wait(p, 1);
    c.Sync(p.stream);
    Expect(p, static_cast<float>(i));
    c.AllReduce(p.comm, p.stream);  // nobody puts the next before this one was looked at
    c.Sync(p.stream);
  }
  c.Begin(p.stream);
  c.Step("the last round");
  if (c.twin || c.rank == 0) Put(p, 9);
  Wait(p, 1);
  c.AllReduce(p.comm, p.stream);
  c.Sync(p.stream);
  Expect(p, 9);
}

JOB(signal_in_group, 2) {
  // Both signal in a group that stands behind their waits.
  Pair p = MakePair(c);
  c.Begin(p.stream);
  c.Step("group");
  const bool first = c.twin && c.rank == 0;
  if (!first) Wait(p, 1);
  NCCL_OK(ncclGroupStart());
  Put(p, 3);
  NCCL_OK(job::Newer<Signal>("ncclSignal")(p.peer, 0, 0, 0, p.comm, p.stream));
  NCCL_OK(ncclGroupEnd());
  if (first) Wait(p, 1);
  c.Sync(p.stream);
  Expect(p, 3);
}
