// Stream-ordered writes of, and waits for, values in memory; one hardware queue.
#include <cuda.h>

#include <cstdlib>
#include <thread>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {
namespace {

[[maybe_unused]] const bool kSettings = [] {
  setenv("GORDIAN_EMU_CONNECTIONS", "1", 1);
  return true;
}();

class Values : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = nullptr;
    ASSERT_EQ(cudaHostAlloc(&memory, 64, cudaHostAllocDefault), cudaSuccess);
    word_ = static_cast<volatile uint64_t*>(memory);
    *word_ = 0;
  }
  void TearDown() override { EXPECT_EQ(cudaFreeHost(const_cast<uint64_t*>(word_)), cudaSuccess); }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(word_); }
  void Store(uint64_t value) { __atomic_store_n(word_, value, __ATOMIC_RELEASE); }

  volatile uint64_t* word_ = nullptr;
};

TEST_F(Values, HostStoreEndsAWait) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cuStreamWaitValue32(stream, address(), 3, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  Call wait([stream] { return cudaStreamSynchronize(stream); });
  EXPECT_TRUE(wait.Blocks());
  Store(2);
  EXPECT_TRUE(wait.Blocks());
  Store(4);
  EXPECT_EQ(wait.Result(), cudaSuccess);
}

TEST_F(Values, EveryCondition) {
  const cudaStream_t stream = NewStream();
  const struct {
    unsigned condition;
    uint64_t value, no, yes;
  } rows[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, uint64_t{1} << 40, (uint64_t{1} << 40) - 1, uint64_t{1} << 40},
      {CU_STREAM_WAIT_VALUE_EQ, 7, 8, 7},
      {CU_STREAM_WAIT_VALUE_AND, 6, 9, 2},
      {CU_STREAM_WAIT_VALUE_NOR, 1, ~uint64_t{1}, 4},
  };
  for (const auto& row : rows) {
    Store(row.no);
    ASSERT_EQ(cuStreamWaitValue64(stream, address(), row.value, row.condition), CUDA_SUCCESS);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady) << row.condition;
    Store(row.yes);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  EXPECT_EQ(cuStreamWaitValue32(stream, address() + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
  uint64_t pageable = 0;
  EXPECT_EQ(cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(&pageable), 1, 0),
            CUDA_ERROR_INVALID_VALUE);
}

// Measured on an H200: a pending wait, or a write with a barrier, behind a running kernel keeps the
// queue from other streams; a write without one does not.
TEST_F(Values, QueueIsKeptByWaitsAndBarrieredWritesOnly) {
  for (const int kind : {0, 1, 2}) {
    const cudaStream_t first = NewStream();
    const cudaStream_t second = NewStream();
    Store(0);
    const HeldOpPtr running = Hold(first);
    ASSERT_TRUE(running->WaitStarted());
    if (kind == 0) {
      ASSERT_EQ(cuStreamWaitValue32(first, address(), 0, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    } else {
      const unsigned flags =
          kind == 1 ? CU_STREAM_WRITE_VALUE_DEFAULT : CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
      ASSERT_EQ(cuStreamWriteValue32(first, address(), 5, flags), CUDA_SUCCESS);
    }
    const HeldOpPtr other = Hold(second);
    if (kind == 2) {
      EXPECT_TRUE(other->WaitStarted());
    } else {
      std::this_thread::sleep_for(kNever);
      EXPECT_FALSE(other->Started()) << kind;
    }
    EXPECT_EQ(*word_, 0U);  // in stream order
    running->Release();
    EXPECT_TRUE(other->WaitStarted());
    other->Release();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(*word_, kind == 0 ? 0U : 5U);
  }
}

TEST_F(Values, BatchGatesBothWays) {
  const cudaStream_t stream = NewStream();
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operations[0].writeValue.address = address();
  operations[0].writeValue.value64 = 1;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operations[1].waitValue.address = address() + 8;
  operations[1].waitValue.value64 = 1;
  const_cast<uint64_t*>(word_)[1] = 0;
  ASSERT_EQ(cuStreamBatchMemOp(stream, 2, operations, 0), CUDA_SUCCESS);
  const HeldOpPtr gated = Hold(stream);
  EXPECT_EQ(__atomic_load_n(word_, __ATOMIC_ACQUIRE), 1U);
  std::this_thread::sleep_for(kNever);
  EXPECT_FALSE(gated->Started());
  __atomic_store_n(word_ + 1, uint64_t{1}, __ATOMIC_RELEASE);
  EXPECT_TRUE(gated->WaitStarted());
  gated->Release();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST_F(Values, ResetEndsAPendingWait) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cuStreamWaitValue32(stream, address(), 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

}  // namespace
}  // namespace gordian::emu
