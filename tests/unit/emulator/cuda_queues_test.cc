// Hardware queues and SMs: one queue and four SMs per device.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

// The engine reads its settings at its first use, which comes later.
[[maybe_unused]] const bool kSettings = [] {
  setenv("GORDIAN_EMU_CONNECTIONS", "1", 1);
  setenv("GORDIAN_EMU_SMS", "4", 1);
  return true;
}();

TEST(Queues, LaunchedKernelsShareTheDevice) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const HeldOpPtr a = Hold(first);
  const HeldOpPtr b = Hold(second);
  EXPECT_TRUE(a->WaitStarted());
  EXPECT_TRUE(b->WaitStarted());
  a->Release();
  b->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Queues, KernelBehindItsStreamBlocksTheQueueForOthers) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaStream_t third = NewStream();
  const cudaStream_t fourth = NewStream();
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  const HeldOpPtr running = Hold(first);
  const HeldOpPtr behind = Hold(first);  // at the head of the only queue, cannot start
  const HeldOpPtr other = Hold(second);
  ASSERT_TRUE(running->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(other->Started());
  // Event records and waits do not pass through the queue, nor do copies with the host; host
  // functions and fills do.
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  const cudaStream_t copying = NewStream();
  EXPECT_EQ(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, copying), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(memory, pinned, 64, cudaMemcpyHostToDevice, copying), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(copying), cudaSuccess);
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventRecord(event, third), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(third, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(third), cudaSuccess);
  EXPECT_EQ(cudaLaunchHostFunc(
                third, [](void*) {}, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 64, fourth), cudaSuccess);
  std::this_thread::sleep_for(kNever);
  EXPECT_EQ(cudaStreamQuery(third), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(fourth), cudaErrorNotReady);
  running->Release();
  EXPECT_TRUE(behind->WaitStarted());
  EXPECT_TRUE(other->WaitStarted());
  behind->Release();
  other->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Queues, KernelBehindAnEventBlocksTheQueueToo) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaStream_t third = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr running = Hold(first);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  const HeldOpPtr waiting = Hold(second);
  const HeldOpPtr other = Hold(third);
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(other->Started());
  running->Release();
  EXPECT_TRUE(other->WaitStarted());
  waiting->Release();
  other->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Queues, HostFunctionAndFillBehindTheirStreamBlockTheQueue) {
  for (const bool fill : {false, true}) {
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    const HeldOpPtr running = Hold(first);
    if (fill) {
      ASSERT_EQ(cudaMemsetAsync(memory, 0, 64, first), cudaSuccess);
    } else {
      ASSERT_EQ(cudaLaunchHostFunc(
                    first, [](void*) {}, nullptr),
                cudaSuccess);
    }
    const HeldOpPtr other = Hold(second);
    ASSERT_TRUE(running->WaitStarted());
    std::this_thread::sleep_for(kNever);
    EXPECT_FALSE(other->Started());
    running->Release();
    EXPECT_TRUE(other->WaitStarted());
    other->Release();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
}

TEST(Queues, EventWaitBehindItsStreamDoesNotBlockTheQueue) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaStream_t third = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr running = Hold(first);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  const HeldOpPtr other = Hold(third);
  EXPECT_TRUE(other->WaitStarted());
  running->Release();
  other->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Queues, CopyWithTheHostBehindItsStreamDoesNotBlockTheQueue) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  void* memory = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  const HeldOpPtr running = Hold(first);
  ASSERT_EQ(cudaMemcpyAsync(pinned, memory, 64, cudaMemcpyDeviceToHost, first), cudaSuccess);
  const HeldOpPtr other = Hold(second);
  EXPECT_TRUE(other->WaitStarted());
  running->Release();
  other->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

// A kernel leaves the queue when it starts; a graph keeps its place until it has ended.
TEST(Queues, GraphHoldsItsQueueUntilItsEnd) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  std::atomic<bool> go{false};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                first,
                [](void* flag) {
                  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
                },
                &go),
            cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, first), cudaSuccess);
  const HeldOpPtr other = Hold(second);
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(other->Started());
  go = true;
  EXPECT_TRUE(other->WaitStarted());
  other->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(Queues, EachDeviceHasItsOwn) {
  const cudaStream_t here = NewStream();
  const HeldOpPtr running = Hold(here);
  const HeldOpPtr behind = Hold(here);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const HeldOpPtr there = Hold(cudaStream_t{nullptr});
  EXPECT_TRUE(there->WaitStarted());
  there->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  running->Release();
  behind->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Sms, KernelWaitsForSmsOfOthers) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const HeldOpPtr a = Hold(first, 3);
  const HeldOpPtr b = Hold(second, 2);
  ASSERT_TRUE(a->WaitStarted());
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(b->Started());
  a->Release();
  EXPECT_TRUE(b->WaitStarted());
  b->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Sms, OperationLargerThanTheDeviceTakesAllOfIt) {
  const cudaStream_t stream = NewStream();
  const HeldOpPtr op = Hold(stream, 1000);
  EXPECT_TRUE(op->WaitStarted());
  op->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Sms, UserKernelRunsOnWhatIsLeft) {
  const TestKernel kernel("_Z4workv");
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaStream_t third = NewStream();
  const HeldOpPtr most = Hold(first, 3);
  ASSERT_EQ(cudaLaunchKernel(kernel.function(), dim3(100), dim3(256), nullptr, 0, second),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  const HeldOpPtr rest = Hold(third, 1);
  ASSERT_TRUE(rest->WaitStarted());
  ASSERT_EQ(cudaLaunchKernel(kernel.function(), dim3(100), dim3(256), nullptr, 0, second),
            cudaSuccess);
  std::this_thread::sleep_for(kNever);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  rest->Release();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  most->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Sms, ResetFreesTheDevice) {
  const cudaStream_t stream = NewStream();
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  const HeldOpPtr resident = Hold(stream, 4);
  const HeldOpPtr queued = Hold(stream, 4);
  ASSERT_TRUE(resident->WaitStarted());
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_TRUE(resident->Cancelled());
  EXPECT_FALSE(queued->Started());
  EXPECT_TRUE(TheEngine().IsDone(queued.get()));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  const HeldOpPtr next = Hold(cudaStream_t{nullptr}, 4);
  EXPECT_TRUE(next->WaitStarted());
  next->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace gordian::emu
