// Memory and events that processes share. The peer is forked before this process uses CUDA, and is
// told over a socket what to do.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

constexpr size_t kSmall = 1000;
constexpr size_t kLarge = 1 << 20;

struct Message {
  cudaIpcMemHandle_t small;
  cudaIpcMemHandle_t large;
  cudaIpcEventHandle_t event;
};

template <typename T>
bool Send(int fd, const T& value) {
  return write(fd, &value, sizeof(value)) == static_cast<ssize_t>(sizeof(value));
}

template <typename T>
bool Receive(int fd, T* value) {
  return recv(fd, value, sizeof(*value), MSG_WAITALL) == static_cast<ssize_t>(sizeof(*value));
}

// Opens what it is sent, checks and changes the memory; its stream waits for the event.
int Peer(int fd) {
  Message message;
  if (!Receive(fd, &message)) return 1;
  char* small = nullptr;
  char* again = nullptr;
  char* large = nullptr;
  const auto open = [](char** pointer, const cudaIpcMemHandle_t& handle) {
    return cudaIpcOpenMemHandle(reinterpret_cast<void**>(pointer), handle,
                                cudaIpcMemLazyEnablePeerAccess);
  };
  if (open(&small, message.small) != cudaSuccess || open(&large, message.large) != cudaSuccess) {
    return 2;
  }
  if (open(&again, message.small) != cudaSuccess || again != small) return 3;
  char seen[2] = {};
  if (cudaMemcpy(&seen[0], small + kSmall - 1, 1, cudaMemcpyDefault) != cudaSuccess ||
      cudaMemcpy(&seen[1], large + kLarge - 1, 1, cudaMemcpyDefault) != cudaSuccess ||
      seen[0] != 11 || seen[1] != 22) {
    return 4;
  }
  cudaEvent_t event = nullptr;
  if (cudaIpcOpenEventHandle(&event, message.event) != cudaSuccess) return 5;
  if (cudaEventQuery(event) != cudaErrorNotReady) return 6;
  cudaStream_t stream = nullptr;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 7;
  if (cudaStreamWaitEvent(stream, event, 0) != cudaSuccess) return 8;
  if (cudaMemsetAsync(large, 33, kLarge, stream) != cudaSuccess) return 9;
  if (cudaStreamQuery(stream) != cudaErrorNotReady) return 10;
  char ready = 1;
  if (!Send(fd, ready)) return 11;
  if (cudaStreamSynchronize(stream) != cudaSuccess) return 12;
  if (cudaEventSynchronize(event) != cudaSuccess) return 13;
  if (cudaIpcCloseMemHandle(large) != cudaSuccess) return 14;
  // Opened twice, the other is still there after one close.
  if (cudaIpcCloseMemHandle(small) != cudaSuccess) return 15;
  if (cudaMemset(small, 44, 1) != cudaSuccess) return 16;
  if (cudaIpcCloseMemHandle(small) != cudaSuccess) return 17;
  if (cudaMemset(small, 44, 1) != cudaErrorInvalidValue) return 18;
  return 0;
}

TEST(Ipc, MemoryAndEventsAreShared) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    _exit(Peer(ends[1]));
  }
  close(ends[1]);
  char* small = nullptr;
  char* large = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&small), kSmall), cudaSuccess);
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&large), kLarge), cudaSuccess);
  ASSERT_EQ(cudaMemset(small, 11, kSmall), cudaSuccess);
  ASSERT_EQ(cudaMemset(large, 22, kLarge), cudaSuccess);
  const cudaEvent_t event = NewEvent(cudaEventDisableTiming | cudaEventInterprocess);
  const HeldOpPtr held = Hold(cudaStream_t{nullptr});
  ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  Message message;
  ASSERT_EQ(cudaIpcGetMemHandle(&message.small, small), cudaSuccess);
  ASSERT_EQ(cudaIpcGetMemHandle(&message.large, large), cudaSuccess);
  ASSERT_EQ(cudaIpcGetEventHandle(&message.event, event), cudaSuccess);
  ASSERT_TRUE(Send(ends[0], message));
  char ready = 0;
  ASSERT_TRUE(Receive(ends[0], &ready));
  EXPECT_EQ(large[0], 22);  // the peer's stream waits
  held->Release();
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(large[kLarge - 1], 33);
  EXPECT_EQ(small[0], 44);
  EXPECT_EQ(small[1], 11);
  // Handles of this process, or of one that is gone.
  void* own = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&own, message.small, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorDeviceUninitialized);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  close(ends[0]);
}

TEST(Ipc, OnlyDeviceMemoryAndInterprocessEventsHaveHandles) {
  cudaIpcMemHandle_t handle;
  cudaIpcEventHandle_t event_handle;
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, managed), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, &handle), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcGetEventHandle(&event_handle, NewEvent()), cudaErrorInvalidResourceHandle);
  cudaEvent_t timed = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&timed, cudaEventInterprocess), cudaErrorInvalidValue);
  memset(&handle, 0, sizeof(handle));
  EXPECT_EQ(cudaIpcOpenMemHandle(&managed, handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gordian::emu
