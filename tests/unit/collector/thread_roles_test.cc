#include "collector/process/thread_roles.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collector/process/process_memory.h"
#include "collector/process/thread_sleep.h"

namespace gordian::collector {
namespace {

std::mutex g_mutex;
std::condition_variable g_changed;
bool g_over = false;
std::atomic<pid_t> g_tid = 0;

// Between each thread's stack and its descriptor: no frame of the thread.
thread_local void* (*volatile g_function)(void*) = [](void* argument) { return argument; };

// With a time limit, so that only the thread's role can say that the outside does not matter.
void SleepWithLimit() {
  EXPECT_NE(g_function, nullptr);
  g_tid = static_cast<pid_t>(syscall(SYS_gettid));
  std::unique_lock lock(g_mutex);
  g_changed.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::hours(1),
                       [] { return g_over; });
}

using Function = void* (*)(void*);

void* SymbolOf(const std::string& file, const char* name) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  void* const symbol = dlsym(library, name);
  EXPECT_NE(symbol, nullptr) << name;
  return symbol;
}

// How a thread looks that begins in this function.
ThreadSleeps::Look LookAt(Function begin) {
  g_over = false;
  g_tid = 0;
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, nullptr, begin, reinterpret_cast<void*>(&SleepWithLimit)), 0);
  ThreadSleeps sleeps(getpid());
  ThreadSleeps::Look look;
  for (int tries = 0; tries < 2000 && look.sleep == ThreadSleep::kUnknown && !look.library;
       ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::vector<TaskState> tasks = ReadTasks(getpid());
    sleeps.Begin(tasks);
    for (const TaskState& task : tasks) {
      if (task.tid == g_tid && task.stat.state == 'S') look = sleeps.Of(task);
    }
  }
  {
    const std::lock_guard lock(g_mutex);
    g_over = true;
    g_changed.notify_all();
  }
  pthread_join(thread, nullptr);
  return look;
}

ThreadSleeps::Look LookAt(const std::string& file, const char* function) {
  return LookAt(reinterpret_cast<Function>(SymbolOf(file, function)));
}

const std::string kGloo = GORDIAN_GLOO_LOOKALIKE, kOther = GORDIAN_OTHER_LOOKALIKE,
                  kTorch = GORDIAN_TORCH_CUDA_LOOKALIKE;

// ThreadSanitizer keeps some 770 KiB of thread-local data between a thread's stack and its
// descriptor, more than ThreadRoles reads: every role is unknown there.
class ThreadRolesTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "under ThreadSanitizer the roles are unknown";
#endif
  }
};

TEST(ProcessMemory, KnowsAddressesBehindCalls) {
  const auto follows = [](std::vector<uint8_t> call) {
    std::vector<uint8_t> code(8, 0x90);
    code.insert(code.end(), call.begin(), call.end());
    return ProcessMemory(getpid()).FollowsCall(
        reinterpret_cast<uint64_t>(code.data() + code.size()));
  };
#if defined(__aarch64__)
  EXPECT_TRUE(follows({0x01, 0x02, 0x03, 0x94}));   // bl
  EXPECT_TRUE(follows({0xff, 0xff, 0xff, 0x97}));   // bl -4
  EXPECT_TRUE(follows({0x00, 0x02, 0x3f, 0xd6}));   // blr x16
  EXPECT_TRUE(follows({0x1f, 0x08, 0x3f, 0xd6}));   // blraaz x0
  EXPECT_TRUE(follows({0x01, 0x0c, 0x3f, 0xd7}));   // blrab x0, x1
  EXPECT_FALSE(follows({0x01, 0x02, 0x03, 0x14}));  // b
  EXPECT_FALSE(follows({0x00, 0x02, 0x1f, 0xd6}));  // br x16
  EXPECT_FALSE(follows({0xc0, 0x03, 0x5f, 0xd6}));  // ret
  EXPECT_FALSE(
      follows({0x00, 0x02, 0x3f, 0xd6, 0x1f, 0x20, 0x03, 0xd5}));  // one instruction further
#else
  EXPECT_TRUE(follows({0xe8, 1, 2, 3, 4}));              // call rel32
  EXPECT_TRUE(follows({0xff, 0xd0}));                    // call *%rax
  EXPECT_TRUE(follows({0xff, 0x10}));                    // call *(%rax)
  EXPECT_TRUE(follows({0xff, 0x50, 8}));                 // call *8(%rax)
  EXPECT_TRUE(follows({0xff, 0x14, 0xc3}));              // call *(%rbx,%rax,8)
  EXPECT_TRUE(follows({0xff, 0x54, 0x24, 8}));           // call *8(%rsp)
  EXPECT_TRUE(follows({0xff, 0x15, 1, 2, 3, 4}));        // call *f@GOTPCREL(%rip)
  EXPECT_TRUE(follows({0xff, 0x90, 1, 2, 3, 4}));        // call *0x04030201(%rax)
  EXPECT_TRUE(follows({0xff, 0x14, 0xc5, 1, 2, 3, 4}));  // call *0x04030201(,%rax,8)
  EXPECT_TRUE(follows({0xff, 0x94, 0x24, 1, 2, 3, 4}));  // call *0x04030201(%rsp)
  EXPECT_FALSE(follows({0xe9, 1, 2, 3, 4}));             // jmp
  EXPECT_FALSE(follows({0xff, 0xe0}));                   // jmp *%rax
  EXPECT_FALSE(follows({0xff, 0x50, 8, 0x90}));          // one instruction further
  EXPECT_FALSE(follows({0xc3}));
#endif
  EXPECT_FALSE(ProcessMemory(getpid()).FollowsCall(16));
}

TEST_F(ThreadRolesTest, GloosLoopServes) {
  EXPECT_TRUE(LookAt(kGloo, "_ZN4gloo9transport3tcp4Loop3runEv").library);
}

TEST_F(ThreadRolesTest, TheDaemonOfAStoreServes) {
  EXPECT_TRUE(LookAt(*static_cast<Function*>(SymbolOf(kTorch, "store_daemon"))).library);
}

TEST_F(ThreadRolesTest, GloosWorkersCarryOperationsOut) {
  const ThreadSleeps::Look look = LookAt(kGloo, "_ZN4c10d16ProcessGroupGloo7runLoopEi");
  EXPECT_EQ(look.sleep, ThreadSleep::kOperation);
  EXPECT_FALSE(look.library);
}

TEST_F(ThreadRolesTest, TheWatchdogOfNcclWatches) {
  const ThreadSleeps::Look look = LookAt(kTorch, "_ZN4c10d16ProcessGroupNCCL8Watchdog3runEv");
  EXPECT_EQ(look.sleep, ThreadSleep::kWatch);
  EXPECT_TRUE(look.library);
}

// The same sleep in a thread that may do anything next.
TEST_F(ThreadRolesTest, OthersHaveNone) {
  for (const auto& [file, function] :
       {std::pair(kGloo, "another_function"),
        std::pair(kOther, "_ZN4gloo9transport3tcp4Loop3runEv"),
        std::pair(kOther, "_ZN4c10d16ProcessGroupGloo7runLoopEi"),
        std::pair(kOther, "_ZN4c10d16ProcessGroupNCCL8Watchdog3runEv")}) {
    const ThreadSleeps::Look look = LookAt(file, function);
    EXPECT_EQ(look.sleep, ThreadSleep::kOutside) << file << " " << function;
    EXPECT_FALSE(look.library) << file << " " << function;
  }
}

}  // namespace
}  // namespace gordian::collector
