#include <cuda.h>

#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

TEST(Events, NeverRecordedIsComplete) {
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
}

TEST(Events, CompletesWithTheWorkBeforeItAndNotAfter) {
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr before = Hold(stream);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  const HeldOpPtr after = Hold(stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  Call wait([&] { return cudaEventSynchronize(event); });
  EXPECT_TRUE(wait.Blocks());
  before->Release();
  EXPECT_EQ(wait.Result(), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  after->Release();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST(Events, WaitTakesTheRecordOfTheMoment) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaStream_t waiting = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr a = Hold(first);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(waiting, event, 0), cudaSuccess);
  const HeldOpPtr b = Hold(second);
  ASSERT_EQ(cudaEventRecord(event, second), cudaSuccess);  // too late to matter for `waiting`
  const HeldOpPtr behind = Hold(waiting);
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(behind->Started());
  a->Release();
  EXPECT_TRUE(behind->WaitStarted());
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  b->Release();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  behind->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Events, WaitBeforeTheRecordWaitsForNothing) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  const HeldOpPtr held = Hold(first);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  held->Release();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Events, WaitAcrossDevices) {
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr held = Hold(cudaStream_t{nullptr});
  ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t other = NewStream();
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
  EXPECT_EQ(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
  held->Release();
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(Events, DestroyedWhilePending) {
  const cudaStream_t stream = NewStream();
  const cudaStream_t waiting = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr held = Hold(stream);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(waiting, event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamQuery(waiting), cudaErrorNotReady);
  held->Release();
  EXPECT_EQ(cudaStreamSynchronize(waiting), cudaSuccess);
}

TEST(Events, ElapsedTimeIsTheKernelsTime) {
  const TestKernel busy("_Z15gordian_busy_usm");
  const cudaStream_t stream = NewStream();
  const cudaEvent_t start = NewEvent(cudaEventDefault);
  const cudaEvent_t end = NewEvent(cudaEventDefault);
  uint64_t microseconds = 30'000;
  void* arguments[] = {&microseconds};
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaLaunchKernel(busy.function(), dim3(1), dim3(1), arguments, 0, stream),
              cudaSuccess);
  }
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  // Kernels that follow each other take exactly their time, whenever the emulator noticed their
  // ends; only the first one's start is a real moment.
  EXPECT_GE(milliseconds, 90.0F);
  EXPECT_LT(milliseconds, 110.0F);
}

TEST(Events, TimingErrors) {
  const cudaEvent_t untimed = NewEvent();
  const cudaEvent_t timed = NewEvent(cudaEventDefault);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, timed), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(timed, nullptr), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, timed, timed), cudaSuccess);
  EXPECT_EQ(milliseconds, 0.0F);
  EXPECT_EQ(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventCreateWithFlags(nullptr, 0), cudaErrorInvalidValue);
}

TEST(Events, HandlesAreTheDriversToo) {
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  const HeldOpPtr held = Hold(stream);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  held->Release();
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  CUcontext of_stream = nullptr;
  EXPECT_EQ(cuStreamGetCtx(stream, &of_stream), CUDA_SUCCESS);
  EXPECT_NE(context, nullptr);
  EXPECT_EQ(context, of_stream);
}

}  // namespace
}  // namespace gordian::emu
