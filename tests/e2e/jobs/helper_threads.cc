// The hang is that of two ranks that use two communicators in opposite orders, beside threads that go
// on calling CUDA, or behind a flag that a host function sets. The twin keeps one order.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

bool Departs(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }

// `beside` runs again and again on a thread of its own until the main thread is through.
void InvertBeside(job::Context& c, const std::function<void()>& beside) {
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t s = c.Stream();
  c.Warm(dp, s);
  c.Warm(tp, s);
  std::atomic<bool> over = false;
  std::thread helper([&] {
    CUDA_OK(cudaSetDevice(c.rank));
    while (!over) {
      beside();
      usleep(2000);
    }
  });
  c.Begin(s);
  c.AllReduce(Departs(c) ? tp : dp, s);
  c.Sync(s);
  c.AllReduce(Departs(c) ? dp : tp, s);
  c.Sync(s);
  over = true;
  helper.join();
}

// The main thread goes on when a host function behind its first all-reduce says so.
void InvertBehindFlag(job::Context& c, const std::function<void()>& set,
                      const std::function<void()>& wait) {
  static std::function<void()> then;
  then = set;
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t s = c.Stream();
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  c.AllReduce(Departs(c) ? tp : dp, s);
  CUDA_OK(cudaLaunchHostFunc(
      s, [](void*) { then(); }, nullptr));
  c.Step("waits for the flag");
  wait();
  c.AllReduce(Departs(c) ? dp : tp, s);
  c.Sync(s);
}

}  // namespace

JOB(inversion_beside_poller, 2) {
  // As a watchdog of the program's own does: asks whether an event of other work is done.
  cudaEvent_t event = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CUDA_OK(cudaEventRecord(event, c.Stream()));
  InvertBeside(c, [&] {
    if (cudaEventQuery(event) == cudaErrorNotReady) usleep(1);
  });
}

JOB(inversion_beside_async_errors, 2) {
  const ncclComm_t watched = c.MakeComm("watched", c.All());
  InvertBeside(c, [&] {
    ncclResult_t state = ncclSuccess;
    NCCL_OK(ncclCommGetAsyncError(watched, &state));
  });
}

JOB(inversion_beside_watchdog, 2) {
  // As PyTorch's does: asks the communicators for errors, and queries the last event. Its thread begins
  // in the function of PyTorch's name, in a library that is named so.
  void* const library = dlopen(GORDIAN_TORCH_CUDA_LOOKALIKE, RTLD_NOW | RTLD_LOCAL);
  void* const run =
      library == nullptr ? nullptr : dlsym(library, "_ZN4c10d16ProcessGroupNCCL8Watchdog3runEv");
  if (run == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::_Exit(7);
  }
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t s = c.Stream();
  c.Warm(dp, s);
  c.Warm(tp, s);
  static std::atomic<bool> over = false;
  static cudaEvent_t event = nullptr;
  static ncclComm_t watched = dp;
  static int device = c.rank;
  CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const auto watch = +[] {
    static std::mutex mutex;
    static std::condition_variable never;
    CUDA_OK(cudaSetDevice(device));
    while (!over) {
      ncclResult_t state = ncclSuccess;
      NCCL_OK(ncclCommGetAsyncError(watched, &state));
      (void)cudaEventQuery(event);
      std::unique_lock lock(mutex);
      never.wait_for(lock, std::chrono::milliseconds(100));
    }
  };
  pthread_t watchdog;
  if (pthread_create(&watchdog, nullptr, reinterpret_cast<void* (*)(void*)>(run),
                     reinterpret_cast<void*>(watch)) != 0) {
    std::_Exit(7);
  }
  c.Begin(s);
  c.AllReduce(Departs(c) ? tp : dp, s);
  CUDA_OK(cudaEventRecord(event, s));
  c.Sync(s);
  c.AllReduce(Departs(c) ? dp : tp, s);
  c.Sync(s);
  over = true;
  pthread_join(watchdog, nullptr);
}

JOB(inversion_beside_copier, 2) {
  // As a loader of data does: copies to the device on a stream of its own.
  const cudaStream_t s = c.Stream();
  float* on_device = c.Buffer(1024);
  float* pinned = nullptr;
  CUDA_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4096));
  InvertBeside(c, [&] {
    CUDA_OK(cudaMemcpyAsync(on_device, pinned, 4096, cudaMemcpyHostToDevice, s));
    CUDA_OK(cudaStreamSynchronize(s));
  });
}

JOB(inversion_behind_flag, 2) {
  static std::mutex mutex;
  static std::condition_variable changed;
  static bool ready = false;
  InvertBehindFlag(
      c,
      [] {
        const std::lock_guard lock(mutex);
        ready = true;
        changed.notify_all();
      },
      [] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [] { return ready; });
      });
}

JOB(inversion_behind_polled_flag, 2) {
  static std::atomic<bool> ready = false;
  InvertBehindFlag(
      c, [] { ready = true; },
      [] {
        while (!ready) usleep(1000);
      });
}

JOB(inversion_behind_spun_flag, 2) {
  static std::atomic<bool> ready = false;
  InvertBehindFlag(
      c, [] { ready = true; },
      [] {
        while (!ready) std::this_thread::yield();
      });
}
