// What goes wrong with peers: mismatches, aborts, dead and stopped processes. Each has its twin in
// which nothing does.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <thread>

#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"
#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

// An all-reduce of all of them.
grtOpDesc_t SumOf(const std::vector<float>& in, std::vector<float>* out, grtComm_t comm) {
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.in = in.data();
  d.out = out->data();
  d.count = in.size();
  d.comm = comm;
  return d;
}

enum class Wrong { kNothing, kCount, kType, kOperator, kKind };
class Mismatch : public ::testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Mismatch,
                         ::testing::Values(Wrong::kNothing, Wrong::kCount, Wrong::kType,
                                           Wrong::kOperator, Wrong::kKind));

TEST_P(Mismatch, EveryMemberIsToldBeforeAnyOutput) {
  constexpr int kRanks = 3;
  for (const size_t count : {5, 100000}) {
    World world(kRanks);
    OnRanks(kRanks, [&](int r) {
      const bool wrong = r == 1;
      std::vector<int32_t> in(count * kRanks, 1), out(count * kRanks, -7);
      grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
      d.in = in.data();
      d.out = out.data();
      d.count = count;
      d.type = grtInt32;
      d.comm = world[r].comm;
      if (wrong && GetParam() == Wrong::kCount) d.count = count - 1;
      if (wrong && GetParam() == Wrong::kType) d.type = grtUint32;
      if (wrong && GetParam() == Wrong::kOperator) d.op = grtMax;
      if (wrong && GetParam() == Wrong::kKind) d.kind = grtKindAllGather;
      grtOp_t op = nullptr;
      const bool fine = GetParam() == Wrong::kNothing;
      // Whoever comes after the others have found it is told by the call.
      const grtResult_t called = grtSubmit(&d, world[r].stream, &op);
      EXPECT_TRUE(called == grtSuccess || (!fine && called == grtMismatch)) << called;
      if (called == grtSuccess) {
        EXPECT_EQ(grtOpWait(op, kPatienceNs), fine ? grtSuccess : grtMismatch);
        EXPECT_EQ(grtOpFree(op), grtSuccess);
      }
      EXPECT_EQ(out[0], fine ? kRanks : -7);
      grtResult_t error = grtInternalError;
      EXPECT_EQ(grtCommGetAsyncError(world[r].comm, &error), grtSuccess);
      EXPECT_EQ(error, fine ? grtSuccess : grtMismatch);
      // The stream goes on, and later calls are refused.
      EXPECT_EQ(grtStreamSynchronize(world[r].stream, kPatienceNs), grtSuccess);
      EXPECT_EQ(
          grtAllReduce(in.data(), out.data(), 1, grtInt32, grtSum, world[r].comm, world[r].stream),
          fine ? grtSuccess : grtMismatch);
      EXPECT_EQ(grtStreamSynchronize(world[r].stream, kPatienceNs), grtSuccess);
    });
  }
}

TEST(Abort, EndsWhatWaitsAndLeavesAllElseUsable) {
  World world(3), other(3);
  std::atomic<int> called{0};
  OnRanks(3, [&](int r) {
    std::vector<float> in(10, 1), out(10);
    if (r != 2) {  // rank 2 never comes, and aborts
      const grtOpDesc_t d = SumOf(in, &out, world[r].comm);
      grtOp_t op = nullptr;
      EXPECT_EQ(grtSubmit(&d, world[r].stream, &op), grtSuccess);
      ++called;
      EXPECT_EQ(grtOpWait(op, kPatienceNs), grtAborted);
      EXPECT_EQ(grtOpFree(op), grtSuccess);
    }
    while (called < 2) std::this_thread::yield();
    EXPECT_EQ(grtCommAbort(world[r].comm), grtSuccess);
    world[r].comm = nullptr;
    // The same stream, another communicator.
    EXPECT_EQ(
        grtAllReduce(in.data(), out.data(), 10, grtFloat32, grtSum, other[r].comm, world[r].stream),
        grtSuccess);
    EXPECT_EQ(grtStreamSynchronize(world[r].stream, kPatienceNs), grtSuccess);
    EXPECT_EQ(out, std::vector<float>(10, 3));
  });
}

TEST(Deadline, OfAHostCallIsKept) {
  World world(2);
  std::vector<float> in(10, 1), out(10);
  const grtOpDesc_t d = SumOf(in, &out, world[0].comm);
  grtOp_t op = nullptr;
  ASSERT_EQ(grtSubmit(&d, world[0].stream, &op), grtSuccess);
  EXPECT_EQ(grtOpWait(op, 1'000'000), grtTimeout);
  EXPECT_EQ(grtCommDestroy(world[0].comm, 1'000'000), grtTimeout);
  // The other one comes after all.
  std::vector<float> late(10);
  EXPECT_EQ(
      grtAllReduce(in.data(), late.data(), 10, grtFloat32, grtSum, world[1].comm, world[1].stream),
      grtSuccess);
  EXPECT_EQ(grtOpWait(op, kPatienceNs), grtSuccess);
  EXPECT_EQ(grtOpFree(op), grtSuccess);
  EXPECT_EQ(grtStreamSynchronize(world[1].stream, kPatienceNs), grtSuccess);
}

// Ranks as processes. What they share beside the runtime's own memory.
struct Shared {
  grtUniqueId id;
  std::atomic<int> ready, results[8];
  std::atomic<uint64_t> waited_ns;
};

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    void* at =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    shared_ = new (at) Shared();
    ASSERT_EQ(grtGetUniqueId(&shared_->id), grtSuccess);
    // The names of memory that not all members have reached stay: under this one they are cleared
    // away.
    session_ = "faults" + std::to_string(getpid());
    setenv("GRT_SESSION", session_.c_str(), 1);
  }
  void TearDown() override {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    munmap(shared_, sizeof(Shared));
    unsetenv("GRT_SESSION");
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
      if (file.path().filename().string().starts_with("gordian-rt-" + session_))
        std::filesystem::remove(file.path());
    }
  }
  template <typename Body>
  void Start(int ranks, Body body) {
    for (int r = 0; r < ranks; ++r) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        grtComm_t comm = nullptr;
        cudaStream_t stream = nullptr;
        int result = grtCommInitRankConfig(&comm, ranks, shared_->id, r, nullptr);
        if (result == grtSuccess) result = grtStreamCreate(&stream);
        if (result == grtSuccess) result = body(r, comm, stream);
        shared_->results[r] = result;
        _exit(result);
      }
      pids_.push_back(pid);
    }
  }
  // The exit code of a rank; -1 when it was killed.
  int End(int rank) {
    int status = 0;
    waitpid(pids_[rank], &status, 0);
    pids_[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void Forget() { std::erase(pids_, 0); }

  Shared* shared_ = nullptr;
  std::string session_;
  std::vector<pid_t> pids_;
};

int AllReduceOnce(grtComm_t comm, cudaStream_t stream, int ranks, size_t count) {
  std::vector<float> in(count, 1), out(count);
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.in = in.data();
  d.out = out.data();
  d.count = count;
  d.comm = comm;
  grtOp_t op = nullptr;
  grtResult_t result = grtSubmit(&d, stream, &op);
  if (result != grtSuccess) return result;
  result = grtOpWait(op, kPatienceNs);
  if (result == grtSuccess && out != std::vector<float>(count, static_cast<float>(ranks)))
    return grtInternalError;
  return result;
}

TEST_F(Processes, GiveTheRightResults) {
  Start(5, [](int, grtComm_t comm, cudaStream_t stream) {
    for (const size_t count : {1, 1000, 300000}) {
      for (int i = 0; i < 5; ++i) {
        if (const int result = AllReduceOnce(comm, stream, 5, count)) return result;
      }
    }
    return 0;
  });
  for (int r = 0; r < 5; ++r) EXPECT_EQ(End(r), 0) << "rank " << r;
  Forget();
}

TEST_F(Processes, PeersLearnOfOneThatDies) {
  Start(3, [this](int r, grtComm_t comm, cudaStream_t stream) {
    if (const int result = AllReduceOnce(comm, stream, 3, 100)) return result;
    if (r == 2) {
      ++shared_->ready;
      for (;;) pause();
    }
    ++shared_->ready;
    return AllReduceOnce(comm, stream, 3, 100);
  });
  while (shared_->ready < 3) std::this_thread::yield();
  kill(pids_[2], SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_EQ(End(2), -1);
  EXPECT_EQ(End(0), grtPeerDead);
  EXPECT_EQ(End(1), grtPeerDead);
  // Not by their own deadlines.
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::nanoseconds(kPatienceNs));
  Forget();
}

// A rank that has done its part and ends is nobody's problem.
TEST_F(Processes, OneThatIsThroughMayEnd) {
  Start(3, [](int r, grtComm_t comm, cudaStream_t stream) {
    int32_t value = r == 0 ? 42 : 0;
    grtResult_t result = grtBroadcast(&value, &value, 1, grtInt32, 0, comm, stream);
    if (result == grtSuccess) result = grtStreamSynchronize(stream, kPatienceNs);
    if (result != grtSuccess) return static_cast<int>(result);
    return value == 42 ? 0 : 1;
  });
  for (int r = 0; r < 3; ++r) EXPECT_EQ(End(r), 0);
  Forget();
}

TEST_F(Processes, OneThatIsStoppedIsWaitedForUntilTheDeadline) {
  Start(2, [this](int r, grtComm_t comm, cudaStream_t stream) {
    if (r == 1) {
      ++shared_->ready;
      raise(SIGSTOP);
      return AllReduceOnce(comm, stream, 2, 10);
    }
    while (shared_->ready == 0) std::this_thread::yield();
    static std::vector<float> in(10, 1), out(10);  // the operation stays unfinished
    const grtOpDesc_t d = SumOf(in, &out, comm);
    grtOp_t op = nullptr;
    if (grtSubmit(&d, stream, &op) != grtSuccess) return 1;
    const grtResult_t waited = grtOpWait(op, 100'000'000);
    // Whom it waits for is told; nothing is done about it.
    grtStats_t stats = GRT_STATS_INITIALIZER;
    if (grtGetStats(comm, &stats) != grtSuccess || stats.stopped_ranks != 2) return 2;
    grtResult_t error = grtInternalError;
    if (grtCommGetAsyncError(comm, &error) != grtSuccess || error != grtSuccess) return 3;
    return static_cast<int>(waited);
  });
  EXPECT_EQ(End(0), grtTimeout);
  kill(pids_[1], SIGKILL);  // ends a stopped process as well
  EXPECT_EQ(End(1), -1);
  Forget();
}

// The twin: a rank that was stopped and goes on is no error, whoever noticed.
TEST_F(Processes, OneThatWasStoppedMayGoOn) {
  Start(2, [this](int r, grtComm_t comm, cudaStream_t stream) {
    if (r == 1) {
      ++shared_->ready;
      raise(SIGSTOP);
      return AllReduceOnce(comm, stream, 2, 10);
    }
    std::vector<float> in(10, 1), out(10);
    const grtOpDesc_t d = SumOf(in, &out, comm);
    grtOp_t op = nullptr;
    if (grtSubmit(&d, stream, &op) != grtSuccess) return 1;
    grtStats_t stats = GRT_STATS_INITIALIZER;
    while (stats.stopped_ranks == 0) {
      if (grtGetStats(comm, &stats) != grtSuccess || stats.stopped_ranks > 2) return 2;
    }
    ++shared_->ready;
    const grtResult_t waited = grtOpWait(op, kPatienceNs);
    if (grtGetStats(comm, &stats) != grtSuccess || stats.stopped_ranks != 0) return 3;
    return static_cast<int>(waited);
  });
  while (shared_->ready < 2) std::this_thread::yield();
  kill(pids_[1], SIGCONT);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(End(r), 0);
  Forget();
}

// The address space that the process may have from now on: `more` bytes beyond what it has.
void LimitMemory(size_t more) {
  size_t pages = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  ASSERT_NE(statm, nullptr);
  EXPECT_EQ(fscanf(statm, "%zu", &pages), 1);
  fclose(statm);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + more;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// A member that cannot map a communicator's memory, its ports' or its children's is told, and so
// are the others, who would wait for it.
class WithoutMemory : public Processes, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(OfACommunicatorAPortAPairAChild, WithoutMemory, ::testing::Range(0, 4));

TEST_P(WithoutMemory, AllAreTold) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs address space of its own";
#endif
  const int what = GetParam();
  const auto use = [what](int r, grtComm_t comm, cudaStream_t stream) {
    if (what == 0) return AllReduceOnce(comm, stream, 2, 10);
    if (what == 3) {
      grtComm_t child = nullptr;
      return static_cast<int>(grtCommSplit(comm, 0, r, &child, nullptr, kPatienceNs));
    }
    static std::vector<float> data(10, 1);
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.in = d.out = data.data();
    d.count = 10;
    d.comm = comm;
    if (what == 1) {
      if (const grtResult_t result = grtPortOpen(comm, 1, nullptr, &d.port))
        return static_cast<int>(result);
    } else {
      d.kind = r == 0 ? grtKindRecv : grtKindSend;
      d.root_or_peer = 1 - r;
    }
    grtOp_t op = nullptr;
    const grtResult_t result = grtSubmit(&d, stream, &op);
    return static_cast<int>(result != grtSuccess ? result : grtOpWait(op, kPatienceNs));
  };
  for (int r = 0; r < 2; ++r) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      // What is needed besides is there before: threads, a stream, a child's exchange.
      grtUniqueId warm = shared_->id;
      warm.internal[0] = static_cast<char>(warm.internal[0] + 1);
      grtComm_t first = nullptr, comm = nullptr;
      cudaStream_t stream = nullptr;
      int result = grtCommInitRankConfig(&first, 2, warm, r, nullptr);
      if (result == grtSuccess) result = grtStreamCreate(&stream);
      if (result == grtSuccess) result = AllReduceOnce(first, stream, 2, 10);
      if (result == grtSuccess && what != 0)
        result = grtCommInitRankConfig(&comm, 2, shared_->id, r, nullptr);
      if (result == grtSuccess && what == 3) {
        grtComm_t other = nullptr;
        result = grtCommSplit(comm, 0, r, &other, nullptr, kPatienceNs);
      }
      if (result != grtSuccess) _exit(100);
      if (r == 1) LimitMemory(256 << 10);
      if (what == 0) result = grtCommInitRankConfig(&comm, 2, shared_->id, r, nullptr);
      if (result == grtSuccess) result = use(r, comm, stream);
      _exit(result);
    }
    pids_.push_back(pid);
  }
  EXPECT_EQ(End(1), grtSystemError);
  EXPECT_EQ(End(0), what == 3 ? grtRemoteError : grtSystemError);
  Forget();
}

// Members that disagree about the whole: also who came first is told.
TEST_F(Processes, OfDifferentSizesAreTold) {
  for (int r = 0; r < 2; ++r) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      grtComm_t comm = nullptr;
      cudaStream_t stream = nullptr;
      while (shared_->ready < r) std::this_thread::yield();
      int result = grtCommInitRankConfig(&comm, r == 0 ? 4 : 2, shared_->id, r, nullptr);
      ++shared_->ready;
      if (result == grtSuccess) result = grtStreamCreate(&stream);
      if (result == grtSuccess) result = AllReduceOnce(comm, stream, 4, 100000);
      _exit(result);
    }
    pids_.push_back(pid);
  }
  EXPECT_EQ(End(1), grtInvalidUsage);
  EXPECT_EQ(End(0), grtInvalidUsage);
  Forget();
}

// Workers sleep until they are rung: a ring that is lost between processes is a hang.
TEST_F(Processes, InAnyOrder) {
  Start(4, [](int r, grtComm_t comm, cudaStream_t stream) {
    Engine::SetLongestSleep(kForever);
    grtPort_t ports[8];
    for (uint32_t p = 0; p < 8; ++p) {
      if (grtPortOpen(comm, p + 1, nullptr, &ports[p]) != grtSuccess) return 1;
    }
    std::mt19937 random(static_cast<uint32_t>(r));
    for (int round = 0; round < 20; ++round) {
      std::vector<int> order = {0, 1, 2, 3, 4, 5, 6, 7};
      std::shuffle(order.begin(), order.end(), random);
      std::vector<int32_t> in(3000, 1);
      std::vector<std::vector<int32_t>> out(8, std::vector<int32_t>(3000));
      for (const int p : order) {
        grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
        d.in = in.data();
        d.out = out[p].data();
        d.count = in.size();
        d.type = grtInt32;
        d.comm = comm;
        d.port = ports[p];
        if (grtSubmit(&d, stream, nullptr) != grtSuccess) return 2;
      }
      if (grtStreamSynchronize(stream, kPatienceNs) != grtSuccess) return 3;
      for (const auto& result : out) {
        if (result != std::vector<int32_t>(3000, 4)) return 4;
      }
    }
    return 0;
  });
  for (int r = 0; r < 4; ++r) EXPECT_EQ(End(r), 0);
  Forget();
}

// With nothing outstanding, no thread of the library wakes up.
TEST_F(Processes, IdleTakesNoProcessor) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer has a thread of its own that wakes up";
#endif
  Start(2, [this](int, grtComm_t comm, cudaStream_t stream) {
    std::vector<float> in(10, 1), out(10);
    grtOpDesc_t d = SumOf(in, &out, comm);
    d.order = grtOrderDetached;  // so that there is a resident worker
    grtOp_t op = nullptr;
    if (grtSubmit(&d, nullptr, &op) != grtSuccess || grtOpWait(op, kPatienceNs) != grtSuccess)
      return 1;
    if (AllReduceOnce(comm, stream, 2, 10) != 0) return 2;
    // What is still on its way ends: the workers' last round and sleep.
    rusage before{}, after{};
    long quiet = 0;
    for (int i = 0; i < 100 && quiet < 3; ++i) {
      getrusage(RUSAGE_SELF, &before);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      getrusage(RUSAGE_SELF, &after);
      // This thread's own sleep is one switch.
      quiet = after.ru_nvcsw - before.ru_nvcsw <= 1 ? quiet + 1 : 0;
    }
    return quiet >= 3 ? 0 : 3;
  });
  for (int r = 0; r < 2; ++r) EXPECT_EQ(End(r), 0);
  Forget();
}

}  // namespace
}  // namespace gordian::runtime::testing
