// Two communicators in opposite orders, each rank's main thread waiting: a circle, unless a thread
// of rank 0 that has called nothing yet makes the call that rank 1 waits for. It does in the twin,
// late. In the hanging program it never does, and only where nothing but a thread of its process
// could wake it is that proven.
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLate = std::chrono::milliseconds(1500);
constexpr auto kNever = std::chrono::hours(1);

// `until`: what rank 0's second thread sleeps in before it calls. `before`: what the main thread
// does before it waits.
void CallLate(
    job::Context& c, const std::function<void()>& until,
    const std::function<void()>& before = [] {}) {
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t one = c.Stream(), other = c.Stream();
  c.Warm(dp, one);
  c.Warm(tp, other);
  c.Begin(one);
  if (c.rank == 0) {
    std::thread late([&] {
      until();
      CUDA_OK(cudaSetDevice(0));
      c.AllReduce(tp, other);
    });
    before();
    c.AllReduce(dp, one);
    c.Sync(one);
    late.join();
    c.Sync(other);
  } else {
    c.AllReduce(tp, other);
    c.Sync(other);
    c.AllReduce(dp, one);
    c.Sync(one);
  }
}

sem_t g_signal;

}  // namespace

JOB(late_call_sleeps, 2) {
  CallLate(c, [&] {
    if (c.twin) {
      std::this_thread::sleep_for(kLate);
    } else {
      std::this_thread::sleep_for(kNever);
    }
  });
}

JOB(late_call_reads, 2) {
  // What it reads comes from outside, as from a loader of data.
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) std::_Exit(7);
  const pid_t writer = c.rank == 0 && c.twin ? fork() : -1;
  if (writer == 0) {
    std::this_thread::sleep_for(kLate + std::chrono::milliseconds(500));
    std::_Exit(write(ends[1], "x", 1) == 1 ? 0 : 7);
  }
  CallLate(c, [&] {
    char byte = 0;
    if (read(ends[0], &byte, 1) != 1) std::_Exit(7);
  });
}

JOB(late_call_waits, 2) {
  // A wait for a condition that time ends.
  std::mutex mutex;
  std::condition_variable never;
  CallLate(c, [&] {
    std::unique_lock lock(mutex);
    if (c.twin) {
      never.wait_until(lock, Clock::now() + kLate);
    } else {
      never.wait_until(lock, Clock::now() + kNever);
    }
  });
}

JOB(late_call_alarm, 2) {
  // A timer's signal wakes it.
  sem_init(&g_signal, 0, 0);
  signal(SIGALRM, [](int) { sem_post(&g_signal); });
  if (c.rank == 0 && c.twin) {
    itimerval timer = {};
    timer.it_value.tv_sec = 2;
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  CallLate(c, [&] {
    while (sem_wait(&g_signal) != 0) {
    }
  });
}

JOB(late_call_host_function, 2) {
  // A host function of the program wakes it; in the hanging program it does not return.
  static std::mutex mutex;
  static std::condition_variable changed;
  static bool called;
  const cudaStream_t host = c.Stream();
  CallLate(
      c,
      [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [] { return called; });
      },
      [&] {
        const auto function = [](void* late) {
          std::this_thread::sleep_for(late != nullptr ? Clock::duration(kLate)
                                                      : Clock::duration(kNever));
          const std::lock_guard lock(mutex);
          called = true;
          changed.notify_all();
        };
        CUDA_OK(cudaLaunchHostFunc(host, function, c.twin ? &called : nullptr));
      });
}

JOB(late_call_polls, 2) {
  // No second thread: rank 0 polls its all-reduce for a while and then goes on all the same.
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t one = c.Stream(), other = c.Stream();
  c.Warm(dp, one);
  c.Warm(tp, other);
  c.Begin(one);
  if (c.rank == 0) {
    c.AllReduce(dp, one);
    cudaEvent_t event = nullptr;
    CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA_OK(cudaEventRecord(event, one));
    const auto deadline =
        Clock::now() + (c.twin ? Clock::duration(kLate) : Clock::duration(kNever));
    while (cudaEventQuery(event) == cudaErrorNotReady && Clock::now() < deadline) {
    }
    c.AllReduce(tp, other);
  } else {
    c.AllReduce(tp, other);
    c.Sync(other);
    c.AllReduce(dp, one);
  }
  c.Sync(one);
  c.Sync(other);
}

JOB(late_call_thread, 2) {
  // Only the main thread could wake it, and is in the circle; the twin does so before.
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  const auto wake = [&] {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  };
  CallLate(
      c,
      [&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over; });
      },
      [&] {
        if (c.twin) wake();
      });
}

JOB(main_thread_joins, 2) {
  // The main thread has called CUDA, and joins the one that is in the circle.
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t stream = c.Stream();
  c.Warm(dp, stream);
  c.Warm(tp, stream);
  c.Begin(stream);
  const bool departs = !c.twin && c.rank == c.nranks - 1;
  std::thread([&] {
    CUDA_OK(cudaSetDevice(c.rank));
    c.AllReduce(departs ? tp : dp, stream);
    c.Sync(stream);
    c.AllReduce(departs ? dp : tp, stream);
    c.Sync(stream);
  }).join();
}
