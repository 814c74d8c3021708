// Memory pools: reuse in stream order, thresholds, attributes.
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

cudaMemPool_t NewPool(size_t max_bytes = 0) {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, {0}};
  props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  props.maxSize = max_bytes;
  cudaMemPool_t pool = nullptr;
  EXPECT_EQ(cudaMemPoolCreate(&pool, &props), cudaSuccess);
  return pool;
}

uint64_t Attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, attribute, &value), cudaSuccess);
  return value;
}

constexpr size_t kBytes = 1 << 20;

TEST(Pools, OwnStreamHasFreedMemoryAgainOthersOnlyAfterItsWork) {
  const cudaMemPool_t pool = NewPool();
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  void* a = nullptr;
  void* b = nullptr;
  void* c = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&a, kBytes, pool, first), cudaSuccess);
  const HeldOpPtr held = Hold(first);
  ASSERT_EQ(cudaFreeAsync(a, first), cudaSuccess);
  ASSERT_EQ(cudaMallocFromPoolAsync(&b, kBytes, pool, second), cudaSuccess);
  EXPECT_NE(b, a);
  ASSERT_EQ(cudaMallocFromPoolAsync(&c, kBytes, pool, first), cudaSuccess);
  EXPECT_EQ(c, a);
  ASSERT_EQ(cudaFreeAsync(c, first), cudaSuccess);
  held->Release();
  ASSERT_TRUE(held->WaitStarted());
  uint64_t keep = UINT64_MAX;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  // Its work is done: now the other stream may have it.
  ASSERT_EQ(cudaMallocFromPoolAsync(&c, kBytes, pool, second), cudaSuccess);
  EXPECT_EQ(c, a);
  EXPECT_EQ(cudaFreeAsync(b, second), cudaSuccess);
  EXPECT_EQ(cudaFree(c), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST(Pools, SynchronisationGivesBackWhatExceedsTheThreshold) {
  const cudaMemPool_t pool = NewPool();
  const cudaStream_t stream = NewStream();
  void* memory = nullptr;
  for (const uint64_t threshold : {uint64_t{0}, uint64_t{kBytes}}) {
    uint64_t value = threshold;
    ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value), cudaSuccess);
    ASSERT_EQ(cudaMallocFromPoolAsync(&memory, kBytes, pool, stream), cudaSuccess);
    EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemCurrent), kBytes);
    ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
    EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemCurrent), 0U);
    EXPECT_EQ(Attribute(pool, cudaMemPoolAttrReservedMemCurrent), kBytes);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(Attribute(pool, cudaMemPoolAttrReservedMemCurrent), threshold);
  }
  ASSERT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrReservedMemCurrent), 0U);
  EXPECT_EQ(Attribute(pool, cudaMemPoolAttrUsedMemHigh), kBytes);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST(Pools, WithNothingLeftAnAllocationWaitsInItsStream) {
  const cudaMemPool_t pool = NewPool(kBytes);
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&a, kBytes, pool, first), cudaSuccess);
  EXPECT_EQ(cudaMallocFromPoolAsync(&b, kBytes, pool, second), cudaErrorMemoryAllocation);
  const HeldOpPtr held = Hold(first);
  ASSERT_EQ(cudaFreeAsync(a, first), cudaSuccess);
  ASSERT_EQ(cudaMallocFromPoolAsync(&b, kBytes, pool, second), cudaSuccess);
  EXPECT_EQ(b, a);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  held->Release();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(b, second), cudaSuccess);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST(Pools, DefaultPoolCurrentPoolAndAccess) {
  cudaMemPool_t standard = nullptr;
  cudaMemPool_t current = nullptr;
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&standard, 0), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetMemPool(&current, 0), cudaSuccess);
  EXPECT_EQ(current, standard);
  EXPECT_EQ(cudaMemPoolDestroy(standard), cudaErrorInvalidValue);
  const cudaMemPool_t pool = NewPool();
  ASSERT_EQ(cudaDeviceSetMemPool(0, pool), cudaSuccess);
  EXPECT_EQ(cudaDeviceSetMemPool(1, pool), cudaErrorInvalidValue);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, 100, nullptr), cudaSuccess);
  EXPECT_GT(Attribute(pool, cudaMemPoolAttrUsedMemCurrent), 0U);
  cudaMemLocation peer{cudaMemLocationTypeDevice, {1}};
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtReadWrite;
  ASSERT_EQ(cudaMemPoolGetAccess(&flags, pool, &peer), cudaSuccess);
  EXPECT_EQ(flags, cudaMemAccessFlagsProtNone);
  const cudaMemAccessDesc access{peer, cudaMemAccessFlagsProtReadWrite};
  ASSERT_EQ(cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
  ASSERT_EQ(cudaMemPoolGetAccess(&flags, pool, &peer), cudaSuccess);
  EXPECT_EQ(flags, cudaMemAccessFlagsProtReadWrite);
  // Destroyed, a pool lives until its last memory is freed, and is the device's no more.
  ASSERT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetMemPool(&current, 0), cudaSuccess);
  EXPECT_EQ(current, standard);
  EXPECT_EQ(cudaMemset(memory, 1, 100), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 1, 100), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gordian::emu
