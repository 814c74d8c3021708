// Two threads of a rank on one stream and two communicators. The jobs end: what the helper does
// before its all-reduce takes long at every rank. `gordian predict` finds what they narrowly missed.
#include <atomic>
#include <functional>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

// How long the helper reads its data, and the main thread computes: far enough apart that no run
// meets the other order, and so long that a round sees the helper before the main thread's call
// (every 500 ms, later on a busy machine): else the call may have come before the helper began.
constexpr double kRead = 2.8;
constexpr double kCompute = 1.5;

struct Pair {
  explicit Pair(job::Context& c)
      : stream(c.Stream()),
        dp(c.MakeComm("dp", c.All())),
        tp(c.MakeComm("tp", c.All())),
        of_dp(c.Buffer(1024)),
        of_tp(c.Buffer(1024)) {
    c.Warm(dp, stream);
    c.Warm(tp, stream);
    c.Begin(stream);
  }
  const cudaStream_t stream;
  const ncclComm_t dp, tp;
  float* const of_dp;
  float* const of_tp;
};

// A helper thread makes the one call once it has read, and the main thread the other once it has
// computed. In the twin the helper has ended before that; else it has not, however busy the machine
// is.
void Miss(job::Context& c, const Pair& pair, const std::function<void()>& in_helper,
          const std::function<void()>& in_main) {
  std::atomic<bool> main_called = c.twin;
  std::thread helper([&] {
    CUDA_OK(cudaSetDevice(c.rank));
    c.SleepInUserCode(kRead);
    in_helper();
    while (!main_called) c.SleepInUserCode(0.01);
  });
  if (c.twin) helper.join();
  c.SleepInUserCode(kCompute);
  in_main();
  main_called = true;
  if (!c.twin) helper.join();
  c.Sync(pair.stream);
}

}  // namespace

// Nothing orders the two all-reduces.
JOB(near_miss, 2) {
  const Pair pair(c);
  const auto tp = [&] {
    NCCL_OK(ncclAllReduce(pair.of_tp, pair.of_tp, 1024, ncclFloat, ncclSum, pair.tp, pair.stream));
  };
  const auto dp = [&] {
    NCCL_OK(ncclAllReduce(pair.of_dp, pair.of_dp, 1024, ncclFloat, ncclSum, pair.dp, pair.stream));
  };
  Miss(c, pair, tp, dp);
}

// A loader's thread broadcasts its batch, the main thread scatters its gradients. The root of a
// broadcast does not wait, so only one of the two orders of the ranks leads to a deadlock.
JOB(near_miss_loader, 2) {
  const Pair pair(c);
  float* const scattered = c.Buffer(1024);
  const auto load = [&] {
    NCCL_OK(ncclBroadcast(pair.of_tp, pair.of_tp, 1024, ncclFloat, 0, pair.tp, pair.stream));
  };
  const auto scatter = [&] {
    NCCL_OK(ncclReduceScatter(pair.of_dp, scattered, 1024 / c.nranks, ncclFloat, ncclSum, pair.dp,
                              pair.stream));
  };
  Miss(c, pair, load, scatter);
}

// A thread of a pipeline hands its stage's output on, the main thread reduces.
JOB(near_miss_pipeline, 2) {
  const Pair pair(c);
  const auto hand_on = [&] {
    if (c.rank == 0) {
      NCCL_OK(ncclSend(pair.of_tp, 1024, ncclFloat, 1, pair.tp, pair.stream));
    } else if (c.rank == 1) {
      NCCL_OK(ncclRecv(pair.of_tp, 1024, ncclFloat, 0, pair.tp, pair.stream));
    }
  };
  const auto reduce = [&] {
    NCCL_OK(ncclAllReduce(pair.of_dp, pair.of_dp, 1024, ncclFloat, ncclSum, pair.dp, pair.stream));
  };
  Miss(c, pair, hand_on, reduce);
}

// Both threads use a third communicator by turns, which NCCL allows only if something orders them.
JOB(near_miss_shared, 2) {
  const Pair pair(c);
  const ncclComm_t world = c.World();
  c.Warm(world, pair.stream);
  const auto reduce = [&](ncclComm_t comm, float* of) {
    NCCL_OK(ncclAllReduce(of, of, 1024, ncclFloat, ncclSum, comm, pair.stream));
  };
  std::thread helper([&] {
    CUDA_OK(cudaSetDevice(c.rank));
    c.SleepInUserCode(kRead);
    reduce(pair.tp, pair.of_tp);
    reduce(world, pair.of_tp);
  });
  c.SleepInUserCode(kCompute);
  reduce(pair.dp, pair.of_dp);
  helper.join();
  reduce(world, pair.of_dp);
  c.Sync(pair.stream);
}

// The helper waits for an event that the main thread records behind its all-reduce.
JOB(near_miss_handed_over, 2) {
  const Pair pair(c);
  cudaEvent_t reduced = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));
  const auto after = [&] {
    CUDA_OK(cudaEventSynchronize(reduced));
    NCCL_OK(ncclAllReduce(pair.of_tp, pair.of_tp, 1024, ncclFloat, ncclSum, pair.tp, pair.stream));
  };
  const auto before = [&] {
    NCCL_OK(ncclAllReduce(pair.of_dp, pair.of_dp, 1024, ncclFloat, ncclSum, pair.dp, pair.stream));
    CUDA_OK(cudaEventRecord(reduced, pair.stream));
  };
  Miss(c, pair, after, before);
}
