#include "collector/process/thread_sleep.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace gordian::collector {
namespace {

TEST(SystemCalls, AreParsed) {
  const auto call = ParseSystemCall("202 0x7f10 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd20 0x7f3344\n");
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->number, 202);
  EXPECT_EQ(call->arguments[0], 0x7f10u);
  EXPECT_EQ(call->arguments[1], 0x189u);
  EXPECT_EQ(call->arguments[5], 0xffffffffu);
  EXPECT_EQ(call->stack_pointer, 0x7ffd20u);
  for (const char* line :
       {"", "running\n", "-1 0x7ffd20 0x7f3344\n", "202 0x7f10\n",
        "202 7f10 0x189 0x0 0x0 0x0 0x0 0x7ffd20 0x7f3344", "x 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0"}) {
    EXPECT_FALSE(ParseSystemCall(line).has_value()) << line;
  }
}

// A thread of this process that sleeps in `body` until the test ends it.
class Sleeper {
 public:
  Sleeper(std::function<void()> body, std::function<void()> wake) : wake_(std::move(wake)) {
    std::promise<pid_t> tid;
    std::future<pid_t> known = tid.get_future();
    thread_ = std::thread([&tid, body = std::move(body)] {
      tid.set_value(static_cast<pid_t>(syscall(SYS_gettid)));
      body();
    });
    tid_ = known.get();
  }
  ~Sleeper() {
    wake_();
    thread_.join();
  }

  // Once it sleeps in a system call, and does so twice in a row.
  ThreadSleeps::Look Look() const {
    ThreadSleeps sleeps(getpid());
    for (int tries = 0; tries < 2000; ++tries) {
      const std::vector<TaskState> tasks = ReadTasks(getpid());
      sleeps.Begin(tasks);
      for (const TaskState& task : tasks) {
        if (task.tid != tid_ || task.stat.state != 'S') continue;
        const ThreadSleeps::Look look = sleeps.Of(task);
        const auto call = ReadSystemCall(getpid(), tid_);
        if (call && look.sleep != ThreadSleep::kUnknown && seen_ == task.context_switches) {
          return look;
        }
        seen_ = task.context_switches;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return {};
  }

 private:
  std::function<void()> wake_;
  std::thread thread_;
  pid_t tid_ = 0;
  mutable uint64_t seen_ = 0;
};

using Clock = std::chrono::steady_clock;

TEST(ThreadSleeps, OnlyAThreadEndsAnEndlessWait) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  const auto wake = [&] {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  };
  {
    const Sleeper waits(
        [&] {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return over; });
        },
        wake);
    EXPECT_EQ(waits.Look().sleep, ThreadSleep::kThread);
    EXPECT_FALSE(waits.Look().library);
    // It waits for the end of the other.
    std::promise<void> end;
    std::thread other([wait = end.get_future().share()] { wait.wait(); });
    const Sleeper joins([&] { other.join(); }, [&] { end.set_value(); });
    EXPECT_EQ(joins.Look().sleep, ThreadSleep::kThread);
  }
  std::mutex held;
  held.lock();
  {
    const Sleeper locks([&] { const std::lock_guard lock(held); }, [&] { held.unlock(); });
    EXPECT_EQ(locks.Look().sleep, ThreadSleep::kThread);
  }
}

TEST(ThreadSleeps, TimeAndTheOutsideEndOthers) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  {
    const Sleeper timed(
        [&] {
          std::unique_lock lock(mutex);
          changed.wait_until(lock, Clock::now() + std::chrono::hours(1), [&] { return over; });
        },
        [&] {
          const std::lock_guard lock(mutex);
          over = true;
          changed.notify_all();
        });
    EXPECT_EQ(timed.Look().sleep, ThreadSleep::kOutside);
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto write_one = [&] { ASSERT_EQ(write(ends[1], "x", 1), 1); };
  {
    const Sleeper reads(
        [&] {
          char byte;
          ASSERT_EQ(read(ends[0], &byte, 1), 1);
        },
        write_one);
    EXPECT_EQ(reads.Look().sleep, ThreadSleep::kOutside);
    EXPECT_FALSE(reads.Look().library);
  }
  {
    const Sleeper polls(
        [&] {
          pollfd wait = {ends[0], POLLIN, 0};
          poll(&wait, 1, -1);
        },
        write_one);
    EXPECT_EQ(polls.Look().sleep, ThreadSleep::kOutside);
  }
  close(ends[0]);
  close(ends[1]);
}

// Another process may post a semaphore in memory that is shared.
TEST(ThreadSleeps, AnotherProcessMayWakeASharedWait) {
  void* const memory =
      mmap(nullptr, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const semaphore = static_cast<sem_t*>(memory);
  ASSERT_EQ(sem_init(semaphore, /*pshared=*/1, 0), 0);
  {
    const Sleeper waits([&] { sem_wait(semaphore); }, [&] { sem_post(semaphore); });
    EXPECT_EQ(waits.Look().sleep, ThreadSleep::kOutside);
  }
  munmap(memory, sizeof(sem_t));
}

TEST(ThreadSleeps, TimerSignalsAreSeen) {
  EXPECT_FALSE(HandlesTimerSignals(getpid()));
  const auto before = signal(SIGALRM, [](int) {});
  EXPECT_TRUE(HandlesTimerSignals(getpid()));
  signal(SIGALRM, before);
}

// The stack's code decides whose thread it is.
TEST(ThreadSleeps, AThreadIsALibrarysIfOnlyLibrariesHaveCodeOnItsStack) {
  std::vector<uint64_t> stack(64, 0);
  const auto mapping = [](uint64_t start, const char* path) {
    return ExecutableMapping{start, start + 0x1000, 0, path};
  };
  const std::vector<ExecutableMapping> code = {
      mapping(0x10000, "/app/train"), mapping(0x20000, "/lib/libc.so.6"),
      mapping(0x30000, "/lib/libopen-pal.so.40"), mapping(0x40000, "")};
  // The words above end where this memory ends: a page of its own, with nothing behind it.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(munmap(static_cast<char*>(memory) + page, page), 0);
  auto* const words = static_cast<uint64_t*>(memory);
  const auto belongs = [&](uint64_t a, uint64_t b) {
    words[3] = a;
    words[9] = b;
    return BelongsToLibrary(getpid(), reinterpret_cast<uint64_t>(memory), code);
  };
  EXPECT_TRUE(belongs(0x20010, 0x30010));
  EXPECT_FALSE(belongs(0x20010, 0x20020)) << "any thread has the C library on its stack";
  EXPECT_FALSE(belongs(0x30010, 0x10ff0)) << "the program's code";
  EXPECT_FALSE(belongs(0x30010, 0x40000)) << "generated code";
  EXPECT_FALSE(belongs(0x30010, 0x30020) &&
               BelongsToLibrary(getpid(), reinterpret_cast<uint64_t>(memory), {}));
  munmap(memory, page);
}

}  // namespace
}  // namespace gordian::collector
