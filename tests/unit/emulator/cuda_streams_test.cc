#include <mutex>
#include <string>
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

extern "C" {
cudaError_t cudaEventRecord_ptsz(cudaEvent_t, cudaStream_t);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t);
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t, cudaHostFn_t, void*);
}

namespace gordian::emu {
namespace {

// Host functions write letters; the text shows the order in which the streams ran.
struct Log {
  std::mutex mutex;
  std::string text;
};
struct Letter {
  Log* log;
  char letter;
};

void Append(void* data) {
  const auto* letter = static_cast<Letter*>(data);
  std::lock_guard<std::mutex> lock(letter->log->mutex);
  letter->log->text += letter->letter;
}

TEST(Streams, RunInOrder) {
  const cudaStream_t stream = NewStream();
  Log log;
  std::vector<Letter> letters;
  for (char c = 'a'; c <= 'z'; ++c) letters.push_back({&log, c});
  const HeldOpPtr held = Hold(stream);
  for (Letter& letter : letters) {
    ASSERT_EQ(cudaLaunchHostFunc(stream, Append, &letter), cudaSuccess);
  }
  ASSERT_TRUE(held->WaitStarted());
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(log.text, "");
  held->Release();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(log.text, "abcdefghijklmnopqrstuvwxyz");
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(Streams, DifferentStreamsDoNotWaitForEachOther) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const HeldOpPtr a = Hold(first);
  const HeldOpPtr b = Hold(second);
  ASSERT_TRUE(a->WaitStarted());
  ASSERT_TRUE(b->WaitStarted());
  b->Release();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first), cudaErrorNotReady);
  a->Release();
  EXPECT_EQ(cudaStreamSynchronize(first), cudaSuccess);
}

TEST(Streams, LegacyStreamWaitsForBlockingStreamsAndNotForOthers) {
  const cudaStream_t blocking = NewStream();
  const cudaStream_t non_blocking = NewStream(cudaStreamNonBlocking);
  const HeldOpPtr apart = Hold(non_blocking);
  const HeldOpPtr before = Hold(blocking);
  const HeldOpPtr legacy = Hold(cudaStream_t{nullptr});
  ASSERT_TRUE(apart->WaitStarted());
  ASSERT_TRUE(before->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(legacy->Started());
  before->Release();
  EXPECT_TRUE(legacy->WaitStarted());
  EXPECT_EQ(cudaStreamQuery(non_blocking), cudaErrorNotReady);
  legacy->Release();
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);
  apart->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Streams, BlockingStreamsWaitForTheLegacyStreamAndOthersDoNot) {
  const cudaStream_t blocking = NewStream();
  const cudaStream_t non_blocking = NewStream(cudaStreamNonBlocking);
  const HeldOpPtr legacy = Hold(cudaStream_t{nullptr});
  const HeldOpPtr behind = Hold(blocking);
  const HeldOpPtr apart = Hold(non_blocking);
  EXPECT_TRUE(apart->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(behind->Started());
  legacy->Release();
  EXPECT_TRUE(behind->WaitStarted());
  behind->Release();
  apart->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Streams, RecordOnTheLegacyStreamHoldsBlockingStreamsBack) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr before = Hold(first);
  ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  const HeldOpPtr behind = Hold(second);
  ASSERT_TRUE(before->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(behind->Started());
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  before->Release();
  EXPECT_TRUE(behind->WaitStarted());
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  behind->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// Measured: a blocking stream that has no work of its own is idle, whatever the legacy stream does.
TEST(Streams, IdleBlockingStreamIsNotHeldByTheLegacyStream) {
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr legacy = Hold(cudaStream_t{nullptr});
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  const HeldOpPtr own = Hold(stream);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  legacy->Release();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  own->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// The other way round its synchronisation covers the blocking streams' work.
TEST(Streams, LegacySynchronisationCoversBlockingStreams) {
  cudaGetLastError();
  const cudaStream_t stream = NewStream();
  const HeldOpPtr held = Hold(stream);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // "not ready" is no error
  Call wait([] { return cudaStreamSynchronize(nullptr); });
  EXPECT_TRUE(wait.Blocks());
  held->Release();
  EXPECT_EQ(wait.Result(), cudaSuccess);
}

TEST(Streams, EveryThreadHasItsOwnDefaultStream) {
  const HeldOpPtr mine = Hold(cudaStreamPerThread);
  ASSERT_TRUE(mine->WaitStarted());
  EXPECT_EQ(cudaStreamQuery_ptsz(nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  Call other([] { return cudaStreamSynchronize_ptsz(nullptr); });
  EXPECT_EQ(other.Result(), cudaSuccess);
  // It is a blocking stream: the legacy stream comes after it.
  const HeldOpPtr legacy = Hold(cudaStreamLegacy);
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(legacy->Started());
  mine->Release();
  EXPECT_TRUE(legacy->WaitStarted());
  legacy->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Streams, WorkOfAThreadThatEndedStillCompletes) {
  HeldOpPtr held;
  std::thread([&] { held = Hold(cudaStreamPerThread); }).join();
  Call wait([] { return cudaDeviceSynchronize(); });
  EXPECT_TRUE(wait.Blocks());
  held->Release();
  EXPECT_EQ(wait.Result(), cudaSuccess);
}

TEST(Streams, DestroyedStreamFinishesItsWork) {
  const cudaStream_t stream = NewStream();
  Log log;
  Letter letter{&log, 'x'};
  const HeldOpPtr held = Hold(stream);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Append, &letter), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  // The legacy stream still comes after it.
  Call wait([] { return cudaStreamSynchronize(nullptr); });
  EXPECT_TRUE(wait.Blocks());
  held->Release();
  EXPECT_EQ(wait.Result(), cudaSuccess);
  EXPECT_EQ(log.text, "x");
}

// Measured: a device's host functions run one after the other.
TEST(Streams, HostFunctionThatBlocksKeepsOtherHostFunctionsBackAndNothingElse) {
  const cudaStream_t stuck = NewStream();
  const cudaStream_t calling = NewStream();
  const cudaStream_t running = NewStream();
  std::promise<void> let_go;
  auto gate = let_go.get_future();
  ASSERT_EQ(cudaLaunchHostFunc(
                stuck, [](void* data) { static_cast<std::future<void>*>(data)->wait(); }, &gate),
            cudaSuccess);
  Log log;
  Letter letter{&log, 'f'};
  ASSERT_EQ(cudaLaunchHostFunc(calling, Append, &letter), cudaSuccess);
  const HeldOpPtr op = Hold(running);
  EXPECT_TRUE(op->WaitStarted());
  op->Release();
  EXPECT_EQ(cudaStreamSynchronize(running), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  Letter other_device{&log, 'o'};
  ASSERT_EQ(cudaLaunchHostFunc(nullptr, Append, &other_device), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  std::this_thread::sleep_for(kNever);
  EXPECT_EQ(cudaStreamQuery(calling), cudaErrorNotReady);
  EXPECT_EQ(log.text, "o");
  let_go.set_value();
  EXPECT_EQ(cudaStreamSynchronize(calling), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stuck), cudaSuccess);
  EXPECT_EQ(log.text, "of");
}

TEST(Streams, CallbackGetsItsStream) {
  const cudaStream_t stream = NewStream();
  static cudaStream_t seen;
  ASSERT_EQ(cudaStreamAddCallback(
                stream,
                [](cudaStream_t got, cudaError_t status, void*) {
                  if (status == cudaSuccess) seen = got;
                },
                nullptr, 0),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(seen, stream);
}

TEST(Streams, DevicesAreIndependent) {
  const HeldOpPtr held = Hold(cudaStream_t{nullptr});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  held->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Streams, FusedOperationWaitsForAllItsStreamsAndHoldsThem) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const HeldOpPtr before = Hold(second);
  const HeldOpPtr fused = Hold(std::vector<cudaStream_t>{first, second});
  const HeldOpPtr behind = Hold(first);
  ASSERT_TRUE(before->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(fused->Started());
  before->Release();
  ASSERT_TRUE(fused->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(behind->Started());
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  fused->Release();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_TRUE(behind->WaitStarted());
  behind->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Streams, FusedOperationOnTheLegacyStreamToo) {
  const cudaStream_t stream = NewStream();
  const HeldOpPtr fused = Hold(std::vector<cudaStream_t>{nullptr, stream});
  ASSERT_TRUE(fused->WaitStarted());
  fused->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Streams, OperationComesAfterTheOneItNames) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const HeldOpPtr a = Hold(first);
  const HeldOpPtr b = Hold(std::vector<cudaStream_t>{second}, 1, a);
  ASSERT_TRUE(a->WaitStarted());
  EXPECT_FALSE(TheEngine().IsDone(a.get()));
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(b->Started());
  Call wait([&] {
    TheEngine().WaitDone({a, b});
    return cudaSuccess;
  });
  a->Release();
  EXPECT_TRUE(b->WaitStarted());
  EXPECT_TRUE(TheEngine().IsDone(a.get()));
  EXPECT_TRUE(wait.Blocks());
  b->Release();
  EXPECT_EQ(wait.Result(), cudaSuccess);
}

// Threads with streams of their own, events between them, the legacy stream in the midst: every
// host function sees the one before it on its stream, and everything ends.
TEST(Streams, ManyThreadsAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 400;
  struct Lane {
    cudaStream_t stream = NewStream();
    cudaEvent_t event = NewEvent();
    std::atomic<int> next{0};
    std::atomic<int> disorder{0};
  };
  struct Step {
    Lane* lane;
    int number;
  };
  std::vector<Lane> lanes(kThreads);
  std::vector<std::vector<Step>> steps(kThreads);
  const TestKernel kernel("_Z4workv");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kRounds; ++i) steps[t].push_back({&lanes[t], i});
    threads.emplace_back([&, t] {
      Lane& own = lanes[t];
      for (int i = 0; i < kRounds; ++i) {
        cudaLaunchKernel(kernel.function(), dim3(1 + i % 200), dim3(32), nullptr, 0, own.stream);
        cudaStreamWaitEvent(own.stream, lanes[(t + i) % kThreads].event, 0);
        cudaLaunchHostFunc(
            own.stream,
            [](void* data) {
              const auto* step = static_cast<Step*>(data);
              if (step->lane->next++ != step->number) ++step->lane->disorder;
            },
            &steps[t][i]);
        cudaEventRecord(own.event, own.stream);
        if (i % 50 == t) cudaLaunchKernel(kernel.function(), dim3(1), dim3(1), nullptr, 0, nullptr);
        if (i % 40 == t) cudaEventSynchronize(own.event);
        if (i % 90 == t) cudaDeviceSynchronize();
        if (i % 70 == t) {
          void* memory = nullptr;
          cudaMallocAsync(&memory, 4096, own.stream);
          cudaMemsetAsync(memory, i, 4096, own.stream);
          cudaFreeAsync(memory, own.stream);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (const Lane& lane : lanes) {
    EXPECT_EQ(lane.next, kRounds);
    EXPECT_EQ(lane.disorder, 0);
    EXPECT_EQ(cudaEventQuery(lane.event), cudaSuccess);
  }
}

TEST(Streams, AttributesAndErrors) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -3), cudaSuccess);
  unsigned flags = 0;
  int priority = 0;
  int device = -1;
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(flags, cudaStreamNonBlocking);
  EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
  EXPECT_EQ(priority, -3);
  EXPECT_EQ(cudaStreamGetDevice(stream, &device), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 77), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&stream)),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLaunchHostFunc(nullptr, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace gordian::emu
