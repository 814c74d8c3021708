// The order between captured operations and others, over the emulated CUDA: an operation is a
// function of the host, which notes that it ran. What is in front of it is held back, so that
// whatever does not wait for it runs first.
#include "runtime/cuda/domain/graph_order.h"

#include <cuda.h>
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace gordian::runtime::cuda {
namespace {

class GraphOrderTest : public ::testing::Test {
 protected:
  struct Operation {
    GraphOrderTest* test;
    std::string name;
  };

  void SetUp() override {
    for (cudaStream_t* s : {&one_, &two_, &three_}) {
      ASSERT_EQ(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), cudaSuccess);
    }
    ASSERT_EQ(order_.Begin(), cudaSuccess);
    ASSERT_EQ(order_.Begun(), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (cudaStream_t s : {one_, two_, three_}) EXPECT_EQ(cudaStreamDestroy(s), cudaSuccess);
    for (uint32_t* word : words_) EXPECT_EQ(cudaFreeHost(word), cudaSuccess);
  }

  // What is enqueued on the stream from now on waits for Release(of what this returns).
  uint32_t* Hold(cudaStream_t stream) {
    void* word = nullptr;
    EXPECT_EQ(cudaHostAlloc(&word, sizeof(uint32_t), cudaHostAllocMapped), cudaSuccess);
    words_.push_back(static_cast<uint32_t*>(word));
    *words_.back() = 0;
    EXPECT_EQ(cuStreamWaitValue32(reinterpret_cast<CUstream>(stream),
                                  reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_EQ),
              CUDA_SUCCESS);
    return words_.back();
  }
  // What does not wait, but should, has time to run first.
  static void Release(uint32_t* word) {
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  }

  void Run(cudaStream_t stream, const std::string& name) {
    operations_.push_back({this, name});
    const auto note = [](void* argument) {
      const auto& op = *static_cast<Operation*>(argument);
      const std::lock_guard<std::mutex> lock(op.test->mutex_);
      op.test->notes_ += op.name;
      op.test->noted_.notify_all();
    };
    ASSERT_EQ(cudaLaunchHostFunc(stream, note, &operations_.back()), cudaSuccess);
  }
  // As the domain calls an operation that is not captured.
  void Call(cudaStream_t stream, const std::string& name) {
    const GraphOrder::Waits waits = order_.Before(stream);
    for (const cudaEvent_t event : {waits.replayed, waits.called}) {
      if (event == nullptr) continue;
      ASSERT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
    }
    Run(stream, name);
    ASSERT_EQ(order_.Called({stream}), cudaSuccess);
  }
  void Capture(cudaStream_t stream, const std::string& name, GraphOrder* order) {
    cuda::Capture capture;
    ASSERT_EQ(CaptureOf(stream, &capture), cudaSuccess);
    ASSERT_EQ(order->BeforeCaptured(stream, capture), cudaSuccess);
    Run(stream, name);
    ASSERT_EQ(CaptureOf(stream, &capture), cudaSuccess);
    ASSERT_EQ(capture.tips.size(), 1u);
    ASSERT_EQ(order->Captured(capture, {{stream, capture.tips[0]}}), cudaSuccess);
  }
  void Begin(cudaStream_t stream) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  cudaGraphExec_t End(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return exec;
  }
  // A graph of these operations, one after the other.
  cudaGraphExec_t GraphOf(const std::string& names) {
    Begin(one_);
    for (const char name : names) Capture(one_, std::string(1, name), &order_);
    return End(one_);
  }
  void Launch(cudaGraphExec_t graph, cudaStream_t stream) {
    ASSERT_EQ(cudaGraphLaunch(graph, stream), cudaSuccess);
  }

  // Until it has run; false: it has not, for very long.
  bool Await(const std::string& name) {
    std::unique_lock<std::mutex> lock(mutex_);
    return noted_.wait_for(lock, std::chrono::seconds(20),
                           [&] { return notes_.find(name) != std::string::npos; });
  }
  std::string Notes() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::lock_guard<std::mutex> lock(mutex_);
    return notes_;
  }

  cudaStream_t one_ = nullptr, two_ = nullptr, three_ = nullptr;
  GraphOrder order_;
  std::deque<Operation> operations_;
  std::vector<uint32_t*> words_;
  std::mutex mutex_;
  std::condition_variable noted_;
  std::string notes_;
};

TEST_F(GraphOrderTest, ACallWaitsForALaunchOnAnotherStream) {
  const cudaGraphExec_t graph = GraphOf("g");
  uint32_t* held = Hold(one_);
  Launch(graph, one_);
  EXPECT_FALSE(order_.IsReplayed());
  Call(two_, "c");
  Release(held);
  EXPECT_EQ(Notes(), "gc");
  EXPECT_TRUE(order_.IsReplayed());
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(GraphOrderTest, ALaunchWaitsForACallOnAnotherStream) {
  const cudaGraphExec_t graph = GraphOf("g");
  uint32_t* held = Hold(two_);
  Call(two_, "c");
  Launch(graph, one_);
  Release(held);
  EXPECT_EQ(Notes(), "cg");
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// The twin: nothing else orders them.
TEST_F(GraphOrderTest, WithoutItNothingWaits) {
  Begin(one_);
  Run(one_, "g");
  const cudaGraphExec_t graph = End(one_);
  uint32_t* held = Hold(one_);
  Launch(graph, one_);
  Run(two_, "c");
  EXPECT_TRUE(Await("c"));
  Release(held);
  EXPECT_EQ(Notes(), "cg");
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(GraphOrderTest, LaunchesOfTwoGraphsAndCallsOnThreeStreams) {
  const cudaGraphExec_t graphs[2] = {GraphOf("ab"), GraphOf("xy")};
  const cudaStream_t streams[] = {one_, two_, three_};
  std::vector<uint32_t*> held;
  for (const cudaStream_t stream : streams) held.push_back(Hold(stream));
  std::string wanted;
  for (int i = 0; i < 30; ++i) {
    const cudaStream_t stream = streams[(i * 7 + i / 3) % 3];
    if (i % 5 < 2) {
      Launch(graphs[i % 2], stream);
      wanted += i % 2 == 0 ? "ab" : "xy";
    } else {
      Call(stream, "c");
      wanted += "c";
    }
  }
  for (size_t i = held.size(); i-- > 0;) Release(held[i]);
  EXPECT_EQ(Notes(), wanted);
  for (cudaGraphExec_t graph : graphs) EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// Streams of one capture that nothing of the program's orders: with the order, and without.
TEST_F(GraphOrderTest, StreamsOfOneCapture) {
  for (const bool ordered : {true, false}) {
    notes_.clear();
    cudaEvent_t fork = nullptr, join = nullptr, late = nullptr;
    for (cudaEvent_t* e : {&fork, &join, &late}) {
      ASSERT_EQ(cudaEventCreateWithFlags(e, cudaEventDisableTiming), cudaSuccess);
    }
    const auto operation = [&](cudaStream_t stream, const std::string& name) {
      if (ordered) {
        Capture(stream, name, &order_);
      } else {
        Run(stream, name);
      }
    };
    Begin(one_);
    ASSERT_EQ(cudaEventRecord(fork, one_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(two_, fork, 0), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(one_, late, cudaEventWaitExternal), cudaSuccess);
    operation(one_, "a");
    operation(two_, "b");
    operation(one_, "c");
    ASSERT_EQ(cudaEventRecord(join, two_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(one_, join, 0), cudaSuccess);
    const cudaGraphExec_t graph = End(one_);
    uint32_t* held = Hold(three_);
    ASSERT_EQ(cudaEventRecord(late, three_), cudaSuccess);
    Launch(graph, one_);
    EXPECT_TRUE(ordered || Await("b"));
    Release(held);
    EXPECT_EQ(Notes(), ordered ? "abc" : "bac");
    EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
    for (cudaEvent_t e : {fork, join, late}) EXPECT_EQ(cudaEventDestroy(e), cudaSuccess);
  }
}

// Calls of one group on two streams are side by side; what comes next is behind both.
TEST_F(GraphOrderTest, CallsSideBySide) {
  const cudaGraphExec_t graph = GraphOf("g");
  EXPECT_FALSE(order_.Before(one_).any());
  uint32_t* held = Hold(one_);
  Run(one_, "a");
  Run(two_, "b");
  ASSERT_EQ(order_.Called({one_, two_}), cudaSuccess);
  EXPECT_TRUE(order_.Before(one_).any());
  EXPECT_TRUE(order_.Before(two_).any());
  Launch(graph, three_);
  EXPECT_TRUE(Await("b"));
  Release(held);
  EXPECT_EQ(Notes(), "bag");
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

// On one stream a call is behind the last one by itself: nothing to wait for, so it may still be
// begun early.
TEST_F(GraphOrderTest, OneStreamNeedsNoWait) {
  uint32_t* held = Hold(one_);
  Call(one_, "a");
  EXPECT_FALSE(order_.Before(one_).any());
  EXPECT_TRUE(order_.Before(two_).any());
  order_.Forget(one_);  // its handle may come again
  EXPECT_TRUE(order_.Before(one_).any());
  Release(held);
  EXPECT_EQ(Notes(), "a");
  EXPECT_FALSE(order_.Before(one_).any());
  EXPECT_FALSE(order_.Before(two_).any());
}

// What its maker put on its stream at first stands for all that was called before.
TEST_F(GraphOrderTest, WaitsForWhatWasCalledBefore) {
  GraphOrder late;
  ASSERT_EQ(late.Begin(), cudaSuccess);
  uint32_t* held = Hold(late.own_stream());
  Run(late.own_stream(), "before ");
  ASSERT_EQ(late.Begun(), cudaSuccess);
  EXPECT_TRUE(late.Before(one_).any());
  Begin(one_);
  Capture(one_, "g", &late);
  const cudaGraphExec_t graph = End(one_);
  Launch(graph, two_);
  Release(held);
  EXPECT_EQ(Notes(), "before g");
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace gordian::runtime::cuda
