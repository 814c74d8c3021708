// Operations on CUDA's streams, by a stand-in for CUDA whose calls can fail: a thread runs host
// functions, and a wait for a value is noted.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "gordian/runtime_front.h"
#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

class StandIn {
 public:
  // Host functions run at once, or when Let is called.
  void Hold() { Set(true); }
  void Let() { Set(false); }
  void Launch(void (*fn)(void*), void* user) {
    const std::lock_guard<std::mutex> lock(mutex_);
    functions_.emplace_back(fn, user);
    changed_.notify_all();
  }
  void Drain() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return functions_.empty() && !running_; });
  }

  std::atomic<bool> wait_fails{false};
  // Of the last wait that was taken.
  std::atomic<const std::atomic<uint64_t>*> word{nullptr};
  std::atomic<uint64_t> least{0};

 private:
  void Set(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { Main(); });
      thread_.detach();
    }
  }
  void Main() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !held_ && !functions_.empty(); });
      const auto [fn, user] = functions_.front();
      functions_.pop_front();
      running_ = true;
      lock.unlock();
      fn(user);
      lock.lock();
      running_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<void (*)(void*), void*>> functions_;
  bool held_ = false, running_ = false;
  std::thread thread_;
};
StandIn& TheStandIn() {
  static StandIn* stand_in = new StandIn;  // its thread outlives main
  return *stand_in;
}

class CudaStreams : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const grtCudaFunctions_t functions = {
        sizeof(grtCudaFunctions_t),
        0,
        [](cudaStream_t, void (*fn)(void*), void* user) {
          TheStandIn().Launch(fn, user);
          return 0;
        },
        [](void** memory, size_t bytes, unsigned) {
          *memory = std::aligned_alloc(4096, bytes);
          return 0;
        },
        [](cudaStream_t, unsigned long long address, uint64_t value, unsigned) {
          if (TheStandIn().wait_fails) return 1;
          TheStandIn().least = value;
          TheStandIn().word = reinterpret_cast<const std::atomic<uint64_t>*>(address);
          return 0;
        },
        [](cudaStream_t, int* capturing) {
          *capturing = 0;
          return 0;
        },
        [](int* device) {
          *device = 0;
          return 0;
        },
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        nullptr};
    ASSERT_EQ(grtUseCudaStreams(&functions), grtSuccess);
    TheStandIn().Let();
  }
  grtComm_t Single() {
    grtUniqueId id;
    grtComm_t comm = nullptr;
    EXPECT_EQ(grtGetUniqueId(&id), grtSuccess);
    EXPECT_EQ(grtCommInitRankConfig(&comm, 1, id, 0, nullptr), grtSuccess);
    return comm;
  }
  const cudaStream_t stream_ = reinterpret_cast<cudaStream_t>(64);
  const std::vector<float> in_ = std::vector<float>(100, 3);
  std::vector<float> out_ = std::vector<float>(100);
};

TEST_F(CudaStreams, AnOperationOpensItsWait) {
  grtComm_t comm = Single();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(grtAllReduce(in_.data(), out_.data(), 100, grtFloat32, grtSum, comm, stream_),
              grtSuccess);
    const std::atomic<uint64_t>* word = TheStandIn().word;
    while (word->load() < TheStandIn().least) std::this_thread::yield();
  }
  EXPECT_EQ(out_, in_);
  EXPECT_EQ(grtCommDestroy(comm, kPatienceNs), grtSuccess);
}

// CUDA takes the host function and then not the wait: the call says so, the communicator has
// failed, handles can be waited for, and the host function, before or after, does no harm.
TEST_F(CudaStreams, AWaitThatIsNotTakenIsAnError) {
  for (const bool late : {false, true}) {
    grtComm_t comm = Single();
    if (late) TheStandIn().Hold();
    TheStandIn().wait_fails = true;
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.in = in_.data();
    d.out = out_.data();
    d.count = 100;
    d.comm = comm;
    grtOp_t op = nullptr;
    EXPECT_EQ(grtSubmit(&d, stream_, &op), grtUnhandledCudaError);
    TheStandIn().wait_fails = false;
    TheStandIn().Let();
    ASSERT_NE(op, nullptr);
    const grtResult_t waited = grtOpWait(op, kPatienceNs);
    // Published before it was refused, it may be through.
    EXPECT_TRUE(waited == grtUnhandledCudaError || (!late && waited == grtSuccess)) << waited;
    EXPECT_EQ(grtOpFree(op), grtSuccess);
    TheStandIn().Drain();
    grtResult_t error = grtSuccess;
    EXPECT_EQ(grtCommGetAsyncError(comm, &error), grtSuccess);
    EXPECT_EQ(error, grtUnhandledCudaError);
    EXPECT_EQ(grtCommDestroy(comm, kPatienceNs), grtSuccess);
  }
  // The stream is usable.
  grtComm_t comm = Single();
  ASSERT_EQ(grtAllReduce(in_.data(), out_.data(), 100, grtFloat32, grtSum, comm, stream_),
            grtSuccess);
  const std::atomic<uint64_t>* word = TheStandIn().word;
  while (word->load() < TheStandIn().least) std::this_thread::yield();
  EXPECT_EQ(grtCommDestroy(comm, kPatienceNs), grtSuccess);
}

}  // namespace
}  // namespace gordian::runtime::testing
