// What the host publishes for helpers: what must not be begun early, and how groups are kept
// together.
#include "runtime/cuda/list/help_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

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

// Several lists of a domain.
class HelpStreamsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kLists = kMostPasts + 2;
  using Before = HelpStream::Before;

  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    for (uint32_t i = 0; i < kLists; ++i) {
      shared_.push_back(std::make_unique<HelpShared>());
      lists_.push_back(std::make_unique<HelpStream>(shared_[i].get(), memory_.get(), i, &stop_,
                                                    &counts_, room_, kRoom));
      Publish(i, 100 + i, {});  // marked, since it is the list's first
      Begin(i, 0);
    }
  }
  void TearDown() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  HelpList Publish(uint32_t list, uint32_t key, const Touched& touched) {
    Work work{};
    work.order_key = key;
    work.channels = 2;
    HelpList help;
    EXPECT_TRUE(lists_[list]->Publish(work, touched, Before::kOperations, stream_, &help));
    lists_[list]->Launched();
    return help;
  }
  void Begin(uint32_t list, uint32_t id) { shared_[list]->begun = id + 1; }
  PointOfList PointOf(uint32_t list) {
    PointOfList point;
    EXPECT_TRUE(lists_[list]->Here(&point));
    return point;
  }
  const HelpEntry& EntryOf(uint32_t list, uint32_t id) const { return shared_[list]->entries[id]; }
  uint32_t TailOf(uint32_t list) const { return shared_[list]->tail; }
  static Touched Sends(uintptr_t from) { return {from, from + 100, 0, 0}; }
  static Touched Receives(uintptr_t to) { return {0, 0, to, to + 100}; }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<HelpMemory[]> memory_ = std::make_unique<HelpMemory[]>(kLists);
  std::vector<std::unique_ptr<HelpShared>> shared_;
  HelpCounts counts_{};
  uint32_t stop_ = 0;
  char room_[kRoom];
  std::vector<std::unique_ptr<HelpStream>> lists_;
};

TEST_F(HelpStreamsTest, AnEventBehindOtherWorkHasNoPoint) {
  PointOfList point;
  EXPECT_TRUE(lists_[0]->Here(&point));
  lists_[0]->Interrupt();
  EXPECT_FALSE(lists_[0]->Here(&point));
  Publish(0, 1, {});
  EXPECT_TRUE(lists_[0]->Here(&point));
}

TEST_F(HelpStreamsTest, WhatIsBehindAWaitIsAGuestOfWhatIsWaitedFor) {
  const HelpList a = Publish(0, 1, Receives(1000));
  lists_[1]->Awaited(PointOf(0));
  const HelpList later = Publish(0, 3, {});  // is not waited for
  const HelpList b = Publish(1, 2, Receives(2000));
  const HelpEntry& own = EntryOf(1, b.id);
  EXPECT_EQ(own.marked, 1u);
  ASSERT_EQ(own.needs, 1u);
  EXPECT_EQ(own.need[0].list, 0u);
  EXPECT_EQ(own.need[0].begun, 1u);
  ASSERT_EQ(TailOf(0), later.id + 2);
  const HelpEntry& guest = EntryOf(0, later.id + 1);
  EXPECT_EQ(guest.home, 1u);
  EXPECT_EQ(guest.number, b.id);
  EXPECT_EQ(guest.before, a.id + 1);
  EXPECT_EQ(guest.marked, 0u);
  EXPECT_EQ(guest.needs, 2u);  // of both lists
  EXPECT_EQ(Publish(0, 1, {}).gap, 1u);
}

TEST_F(HelpStreamsTest, WhatReadsAnOutputOfAnotherStreamIsMarked) {
  const HelpList a = Publish(0, 1, Receives(1000));
  lists_[1]->Awaited(PointOf(0));
  const HelpList b = Publish(1, 2, Sends(1050));
  EXPECT_EQ(EntryOf(1, b.id).marked, b.id + 1);
  EXPECT_EQ(EntryOf(1, b.id).needs, 0u);
  EXPECT_EQ(TailOf(0), a.id + 1);
  const HelpList next = Publish(1, 2, Sends(5000));  // begins behind that one
  EXPECT_EQ(EntryOf(1, next.id).needs, 0u);
}

TEST_F(HelpStreamsTest, WhatWritesOverAnotherStreamsOutputIsRenamed) {
  Publish(0, 1, Receives(1000));
  const PointOfList point = PointOf(0);
  Publish(0, 3, Receives(3000));
  lists_[1]->Awaited(point);
  EXPECT_NE(Publish(1, 2, Receives(1050)).renamed, nullptr);
  EXPECT_EQ(Publish(1, 2, Receives(3050)).renamed, nullptr);  // it is not behind that one
}

TEST_F(HelpStreamsTest, WhatIsDoneIsNoPast) {
  Publish(0, 1, Receives(1000));
  const PointOfList point = PointOf(0);
  const HelpList next = Publish(0, 1, {});
  EXPECT_FALSE(HelpStream::IsPast(point));
  lists_[1]->Awaited(point);
  Begin(0, next.id);
  EXPECT_TRUE(HelpStream::IsPast(point));
  const HelpList b = Publish(1, 2, Sends(1050));
  EXPECT_EQ(EntryOf(1, b.id).marked, 1u);
  EXPECT_EQ(EntryOf(1, b.id).needs, 0u);
  EXPECT_EQ(TailOf(0), next.id + 1);
}

TEST_F(HelpStreamsTest, AWaitReachesThroughAThirdStream) {
  const HelpList a = Publish(0, 1, Receives(1000));
  lists_[1]->Awaited(PointOf(0));
  const HelpList b = Publish(1, 2, Receives(2000));
  lists_[2]->Awaited(PointOf(1));
  const HelpList c = Publish(2, 3, Receives(3000));
  EXPECT_EQ(EntryOf(2, c.id).needs, 2u);
  EXPECT_EQ(TailOf(0), a.id + 3);  // b and c are its guests
  EXPECT_EQ(TailOf(1), b.id + 2);
  // And back: its own entries are no past.
  lists_[0]->Awaited(PointOf(2));
  const HelpList d = Publish(0, 1, Receives(4000));
  EXPECT_EQ(EntryOf(0, d.id).needs, 2u);
  EXPECT_EQ(EntryOf(1, TailOf(1) - 1).number, d.id);
  EXPECT_EQ(EntryOf(2, TailOf(2) - 1).number, d.id);
}

TEST_F(HelpStreamsTest, BehindTooManyStreamsAnOperationIsMarked) {
  for (uint32_t list = 1; list < kLists; ++list) Publish(list, list, {});
  for (uint32_t list = 1; list < kLists; ++list) {
    lists_[0]->Awaited(PointOf(list));
    if (list != kMostPasts) continue;
    const HelpList fits = Publish(0, 1, {});
    EXPECT_EQ(EntryOf(0, fits.id).needs, kMostPasts);
  }
  const HelpList marked = Publish(0, 1, {});
  EXPECT_EQ(EntryOf(0, marked.id).marked, marked.id + 1);
}

TEST_F(HelpStreamsTest, AMarkBeforeAWaitTellsThatOtherWorkIsDone) {
  HelpList mark;
  const HelpList a = Publish(0, 1, Receives(1000));
  lists_[1]->Interrupt();
  ASSERT_TRUE(lists_[1]->Mark(&mark));
  EXPECT_EQ(EntryOf(1, mark.id).turn, kNoTurn);
  EXPECT_FALSE(lists_[1]->Mark(&mark));  // it stands there
  lists_[1]->Awaited(PointOf(0));
  const HelpList b = Publish(1, 2, {});
  EXPECT_EQ(EntryOf(1, b.id).marked, mark.id + 1);
  EXPECT_EQ(EntryOf(1, b.id).needs, 1u);
  EXPECT_EQ(b.gap, 1u);
  EXPECT_EQ(EntryOf(0, a.id + 1).number, b.id);
  // Without other work it says only that the operations before it are done.
  ASSERT_TRUE(lists_[1]->Mark(&mark));
  EXPECT_EQ(EntryOf(1, mark.id).marked, EntryOf(1, b.id).marked);
}

TEST_F(HelpStreamsTest, ManyGuestsBetweenTwoKernelsAreTooMany) {
  Publish(0, 1, {});
  lists_[1]->Awaited(PointOf(0));
  for (uint32_t i = 0; i < kHelpGap; ++i) {
    const HelpList guest = Publish(1, 2, {});
    EXPECT_EQ(EntryOf(1, guest.id).needs, 1u);
  }
  const HelpList beyond = Publish(1, 2, {});
  EXPECT_EQ(EntryOf(1, beyond.id).marked, beyond.id + 1);
}

TEST_F(HelpStreamsTest, AStreamThatIsGoneLeavesNothingBehind) {
  const HelpList a = Publish(0, 1, {});
  lists_[1]->Awaited(PointOf(0));
  lists_[1]->Forget();
  PointOfList point;
  EXPECT_FALSE(lists_[1]->Here(&point));
  const HelpList b = Publish(1, 2, {});
  EXPECT_EQ(EntryOf(1, b.id).marked, b.id + 1);
  EXPECT_EQ(TailOf(0), a.id + 1);
}

}  // namespace
}  // namespace gordian::runtime::cuda
