#include <cstring>
#include <numeric>
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

std::vector<int> Numbers(size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

template <typename T>
T* DeviceArray(size_t count) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, count * sizeof(T)), cudaSuccess);
  return static_cast<T*>(pointer);
}

TEST(Memory, CopiesRoundTrip) {
  constexpr size_t kCount = 100'000;
  const std::vector<int> numbers = Numbers(kCount);
  std::vector<int> back(kCount);
  int* const a = DeviceArray<int>(kCount);
  int* const b = DeviceArray<int>(kCount);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 256, 0U);
  const size_t bytes = kCount * sizeof(int);
  ASSERT_EQ(cudaMemcpy(a, numbers.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(back.data(), b, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(back, numbers);
  ASSERT_EQ(cudaMemset(b, 0xff, 8), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(back.data(), b, 12, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[0], -1);
  EXPECT_EQ(back[1], -1);
  EXPECT_EQ(back[2], 3);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
}

TEST(Memory, AsynchronousCopiesKeepStreamOrder) {
  const cudaStream_t stream = NewStream();
  int* const device = DeviceArray<int>(4);
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), 16), cudaSuccess);
  memset(pinned, 0, 16);
  const HeldOpPtr held = Hold(stream);
  std::vector<int> source = {1, 2, 3, 4};
  ASSERT_EQ(cudaMemcpyAsync(device, source.data(), 16, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  source.assign(4, 99);  // pageable memory may be reused at once
  ASSERT_EQ(cudaMemcpyAsync(pinned, device, 16, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  std::this_thread::sleep_for(kNever);
  EXPECT_EQ(pinned[3], 0);
  held->Release();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(pinned[0], 1);
  EXPECT_EQ(pinned[3], 4);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST(Memory, WhichCopiesBlockTheHost) {
  const cudaStream_t stream = NewStream();
  int* const a = DeviceArray<int>(4);
  int* const b = DeviceArray<int>(4);
  int host[4] = {};
  const HeldOpPtr held = Hold(stream);
  // Work on the legacy stream comes after the blocking stream's; between devices nobody waits.
  EXPECT_EQ(cudaMemcpy(b, a, 16, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemset(b, 0, 16), cudaSuccess);
  Call to_host([&] { return cudaMemcpy(host, b, 16, cudaMemcpyDeviceToHost); });
  Call to_pageable([&, stream] {
    int own[4];
    return cudaMemcpyAsync(own, a, 16, cudaMemcpyDeviceToHost, stream);
  });
  // The driver's staging memory holds 2 MiB of pageable data.
  void* large = nullptr;
  ASSERT_EQ(cudaMalloc(&large, 4 << 20), cudaSuccess);
  std::vector<char> source(4 << 20, 'l');
  EXPECT_EQ(cudaMemcpyAsync(large, source.data(), 1 << 20, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  Call too_much([&, stream] {
    return cudaMemcpyAsync(large, source.data(), 4 << 20, cudaMemcpyHostToDevice, stream);
  });
  EXPECT_TRUE(too_much.Blocks());
  EXPECT_TRUE(to_host.Blocks());
  EXPECT_TRUE(to_pageable.Blocks());
  held->Release();
  EXPECT_EQ(too_much.Result(), cudaSuccess);
  EXPECT_EQ(cudaFree(large), cudaSuccess);
  EXPECT_EQ(to_host.Result(), cudaSuccess);
  EXPECT_EQ(to_pageable.Result(), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
}

TEST(Memory, RowsWithPitch) {
  char* device = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(reinterpret_cast<void**>(&device), &pitch, 3, 4), cudaSuccess);
  EXPECT_GE(pitch, 3U);
  const char source[] = "abcdefghijkl";
  ASSERT_EQ(cudaMemcpy2D(device, pitch, source, 3, 3, 4, cudaMemcpyHostToDevice), cudaSuccess);
  char back[13] = {};
  ASSERT_EQ(cudaMemcpy2D(back, 3, device, pitch, 3, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_STREQ(back, source);
  ASSERT_EQ(cudaMemset2D(device, pitch, 'z', 2, 2), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(back, 3, device, pitch, 3, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_STREQ(back, "zzczzfghijkl");
  EXPECT_EQ(cudaMemcpy2D(device, 1, source, 3, 3, 4, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST(Memory, BetweenDevices) {
  int* const here = DeviceArray<int>(2);
  ASSERT_EQ(cudaSetDevice(3), cudaSuccess);
  int* const there = DeviceArray<int>(2);
  const int source[2] = {5, 6};
  int back[2] = {};
  ASSERT_EQ(cudaMemcpy(here, source, 8, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeer(there, 3, here, 0, 8), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(back, there, 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back[1], 6);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, there + 1), cudaSuccess);
  EXPECT_EQ(attributes.device, 3);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(cudaMemcpyPeer(there, 3, here, 64, 8), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaFree(here), cudaSuccess);
}

TEST(Memory, FreeWaitsForRunningWorkAndAllocationDoesNot) {
  const cudaStream_t stream = NewStream(cudaStreamNonBlocking);
  int* const device = DeviceArray<int>(4);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  const HeldOpPtr held = Hold(stream);
  ASSERT_TRUE(held->WaitStarted());
  Call free_device([&] { return cudaFree(device); });
  Call free_pinned([&] { return cudaFreeHost(pinned); });
  EXPECT_TRUE(free_device.Blocks());
  EXPECT_TRUE(free_pinned.Blocks());
  // Everything else goes through.
  void* other = nullptr;
  void* registered = malloc(4096);
  EXPECT_EQ(cudaMalloc(&other, 1 << 20), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  void* host = nullptr;
  EXPECT_EQ(cudaHostAlloc(&host, 64, cudaHostAllocDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(registered, 4096, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(other, stream), cudaSuccess);
  held->Release();
  EXPECT_EQ(free_device.Result(), cudaSuccess);
  EXPECT_EQ(free_pinned.Result(), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(registered), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(other), cudaErrorInvalidValue);  // gone, in stream order
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
  free(registered);
}

TEST(Memory, StreamOrderedAllocation) {
  const cudaStream_t stream = NewStream();
  void* pointer = nullptr;
  ASSERT_EQ(cudaMallocAsync(&pointer, 1024, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(pointer, 7, 1024, stream), cudaSuccess);
  unsigned char last = 0;
  ASSERT_EQ(
      cudaMemcpyAsync(&last, static_cast<char*>(pointer) + 1023, 1, cudaMemcpyDeviceToHost, stream),
      cudaSuccess);
  EXPECT_EQ(last, 7);
  EXPECT_EQ(cudaFreeAsync(pointer, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(&last, stream), cudaErrorInvalidValue);
}

TEST(Memory, Errors) {
  int* const device = DeviceArray<int>(4);
  int host[8] = {};
  EXPECT_EQ(cudaMemcpy(device, host, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 4, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, host, 4, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemset(host, 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_LT(free_bytes, total_bytes);
  void* large = nullptr;
  EXPECT_EQ(cudaMalloc(&large, free_bytes + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(large, nullptr);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
}

TEST(Memory, KnowsWhatKernelsMayTouch) {
  int* const device = DeviceArray<int>(4);
  int stack = 0;
  int owner = -2;
  EXPECT_TRUE(TheEngine().IsDeviceAccessible(device, 16, &owner));
  EXPECT_EQ(owner, 0);
  EXPECT_FALSE(TheEngine().IsDeviceAccessible(device, 17, &owner));
  EXPECT_FALSE(TheEngine().IsDeviceAccessible(&stack, 4, &owner));
  std::vector<int> memory(1024);
  ASSERT_EQ(cudaHostRegister(memory.data(), 4096, 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(memory.data() + 8, 64, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_TRUE(TheEngine().IsDeviceAccessible(memory.data() + 1023, 4, &owner));
  EXPECT_EQ(owner, -1);
  void* mapped = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&mapped, memory.data(), 0), cudaSuccess);
  EXPECT_EQ(mapped, memory.data());
  EXPECT_EQ(cudaHostUnregister(memory.data() + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
  EXPECT_FALSE(TheEngine().IsDeviceAccessible(memory.data(), 4, &owner));
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &stack), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

}  // namespace
}  // namespace gordian::emu
