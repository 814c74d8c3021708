// What the host publishes for helpers: what must not be begun early, and how groups are kept
// together.
#include "runtime/cuda/list/help_stream.h"

#include <gtest/gtest.h>

#include <memory>

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kRoom = 4096;

class HelpStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    // Past what the list takes for "something else before it" at its begin.
    Publish(1, {}, Before::kOperations);
    shared_->begun = 1;
    ASSERT_TRUE(list_.IsDone(0, stream_));
  }
  void TearDown() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  using Before = HelpStream::Before;
  // In bytes of one address space of the test's own.
  static Touched Sends(uintptr_t from, uint64_t bytes) { return {from, from + bytes, 0, 0}; }
  static Touched Receives(uintptr_t to, uint64_t bytes) { return {0, 0, to, to + bytes}; }

  HelpList Publish(uint32_t key, const Touched& touched, Before before) {
    Work work{};
    work.order_key = key;
    work.channels = 2;
    HelpList help;
    EXPECT_TRUE(list_.Publish(work, touched, before, stream_, &help));
    return help;
  }
  // The number + 1 of the last one up to it that must not be begun early.
  uint32_t MarkOf(const HelpList& help) const { return shared_->entries[help.id].marked; }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<HelpStream::Shared> shared_ = std::make_unique<HelpStream::Shared>();
  std::unique_ptr<HelpMemory> memory_ = std::make_unique<HelpMemory>();
  HelpCounts counts_{};
  uint32_t stop_ = 0;
  char room_[kRoom];
  HelpStream list_{shared_.get(), memory_.get(), 0, &stop_, &counts_, room_, kRoom};
};

TEST_F(HelpStreamTest, WhatReadsAnUnfinishedOutputIsMarked) {
  const HelpList first = Publish(1, Receives(1000, 100), Before::kOperations);
  const HelpList apart = Publish(2, Sends(2000, 100), Before::kOperations);
  const HelpList reads = Publish(3, Sends(1050, 100), Before::kOperations);
  EXPECT_EQ(MarkOf(apart), MarkOf(first));
  EXPECT_EQ(MarkOf(reads), reads.id + 1);
}

TEST_F(HelpStreamTest, WhatWritesAnUnfinishedOutputIsRenamedWhileThereIsRoom) {
  const HelpList first = Publish(1, Receives(10000, 2000), Before::kOperations);
  const HelpList second = Publish(1, Receives(10000, 2000), Before::kOperations);
  EXPECT_EQ(first.renamed, nullptr);
  EXPECT_NE(second.renamed, nullptr);
  EXPECT_EQ(MarkOf(second), MarkOf(first));
  const HelpList third = Publish(1, Receives(10000, 3000), Before::kOperations);
  EXPECT_EQ(third.renamed, nullptr);
  EXPECT_EQ(MarkOf(third), third.id + 1);
}

// A receive that waited for its own group's send, which waits for another rank's receive, would be
// a deadlock of the list's making.
TEST_F(HelpStreamTest, AGroupThatMustWaitIsMarkedAtItsFirst) {
  Publish(1, Receives(10000, 3000), Before::kOperations);
  const std::vector<Touched> fits = {Sends(20000, 3000), Receives(10000, 2000)};
  const std::vector<Touched> too_large = {Sends(20000, 3000), Receives(10000, 5000)};
  const std::vector<Touched> reads = {Receives(30000, 10), Sends(10000, 10)};
  EXPECT_FALSE(list_.HoldsUp(fits, stream_));
  EXPECT_TRUE(list_.HoldsUp(too_large, stream_));
  EXPECT_TRUE(list_.HoldsUp(reads, stream_));
  const HelpList send = Publish(2, too_large[0], Before::kMore);
  const HelpList receive = Publish(1, too_large[1], Before::kGroup);
  EXPECT_EQ(MarkOf(send), send.id + 1);
  EXPECT_EQ(MarkOf(receive), send.id + 1);
}

// Only what a group does to others holds it up: its own operations begin together.
TEST_F(HelpStreamTest, WhatIsWithinAGroupDoesNotHoldItUp) {
  EXPECT_FALSE(list_.HoldsUp({Receives(10000, 5000), Receives(10000, 5000)}, stream_));
}

TEST_F(HelpStreamTest, OtherWorkThatComesAmidAGroupCountsForTheNext) {
  const HelpList send = Publish(2, Sends(20000, 10), Before::kOperations);
  list_.Interrupt();
  const HelpList receive = Publish(1, Receives(10000, 10), Before::kGroup);
  EXPECT_EQ(MarkOf(receive), MarkOf(send));
  const HelpList next = Publish(2, Sends(20000, 10), Before::kOperations);
  EXPECT_EQ(MarkOf(next), next.id + 1);
}

TEST_F(HelpStreamTest, ThoseOfOneKernelAreDoneTogether) {
  const HelpList send = Publish(2, Sends(20000, 10), Before::kOperations);
  const HelpList other = Publish(3, Sends(20000, 10), Before::kGroup);
  const HelpList receive = Publish(1, Receives(10000, 10), Before::kGroup);
  const HelpList kernel = list_.Join({send, other, receive});
  EXPECT_EQ(kernel.first, send.id);
  EXPECT_EQ(kernel.last, receive.id);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kernel.channels[i], 2);
  EXPECT_FALSE(list_.IsDone(receive.id, stream_));
  shared_->begun = send.id + 1;  // and the stream is idle
  EXPECT_TRUE(list_.IsDone(send.id, stream_));
  EXPECT_TRUE(list_.IsDone(other.id, stream_));
  EXPECT_TRUE(list_.IsDone(receive.id, stream_));
}

// Where another kernel stands behind them, its begin tells.
TEST_F(HelpStreamTest, ThoseOfOneKernelAreDoneWhenTheNextOneBegins) {
  const HelpList send = Publish(2, Sends(20000, 10), Before::kOperations);
  const HelpList receive = Publish(1, Receives(10000, 10), Before::kGroup);
  list_.Join({send, receive});
  const HelpList next = Publish(2, Sends(20000, 10), Before::kOperations);
  shared_->begun = send.id + 1;  // the stream would say that it is idle, which says nothing now
  EXPECT_FALSE(list_.IsDone(receive.id, stream_));
  shared_->begun = next.id + 1;
  EXPECT_TRUE(list_.IsDone(receive.id, stream_));
}

}  // namespace
}  // namespace gordian::runtime::cuda
