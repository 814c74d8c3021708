#include "collector/rings/ring_drainer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collector/fake_shim.h"

namespace gordian::collector {
namespace {

using testing_support::FakeShim;
using testing_support::TemporaryDir;

class RingDrainerTest : public testing::Test {
 protected:
  void Make(uint64_t slots, uint32_t threads) {
    shim_ = std::make_unique<FakeShim>(dir_.path(), getpid(), slots, threads);
    for (uint32_t i = 0; i < threads; ++i) {
      shim_->AddThread(i, static_cast<pid_t>(100 + i));
    }
    auto file = RingFile::Open(shim_->path());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    file_ = std::move(file).value();
    drainer_ = std::make_unique<RingDrainer>(file_.get());
  }
  uint64_t Drain(uint64_t most = 1'000'000) {
    return drainer_->Drain(most, [this](ThreadNumber thread, std::span<const ring::Record> got) {
      for (const ring::Record& record : got) {
        got_[thread.number()].push_back(record.payload.work.ordinal);
      }
    });
  }

  TemporaryDir dir_;
  std::unique_ptr<FakeShim> shim_;
  std::unique_ptr<RingFile> file_;
  std::unique_ptr<RingDrainer> drainer_;
  std::map<uint32_t, std::vector<uint64_t>> got_;  // ordinals by thread
};

TEST_F(RingDrainerTest, NothingLostAndInOrderWhileThreadsWrite) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kRecords = 50'000;
  Make(256, kThreads);
  std::atomic<uint32_t> done = 0;
  std::vector<std::thread> writers;
  for (uint32_t i = 0; i < kThreads; ++i) {
    writers.emplace_back([&, i] {
      for (uint64_t n = 1; n <= kRecords; ++n) {
        while (!shim_->Publish(i, FakeShim::Point(n))) {
          sched_yield();  // a test wants all of them; the shim would count a loss and go on
        }
      }
      ++done;
    });
  }
  while (done < kThreads) {
    if (Drain(1000) == 0) {
      sched_yield();
    }
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  Drain();
  ASSERT_EQ(got_.size(), kThreads);
  for (const auto& [thread, ordinals] : got_) {
    ASSERT_EQ(ordinals.size(), kRecords) << thread;
    for (uint64_t n = 0; n < kRecords; ++n) {
      ASSERT_EQ(ordinals[n], n + 1) << thread;
    }
  }
  EXPECT_EQ(drainer_->overrun(), 0u);
  EXPECT_EQ(drainer_->corrupt(), 0u);
  EXPECT_EQ(shim_->thread(0)->ring_tail, kRecords);
  EXPECT_EQ(drainer_->collected(0), kRecords);
}

TEST_F(RingDrainerTest, FullRingIsTheWritersLoss) {
  Make(64, 1);
  for (uint64_t n = 1; n <= 100; ++n) {
    EXPECT_EQ(shim_->Publish(0, FakeShim::Point(n)), n <= 64);
  }
  EXPECT_EQ(Drain(), 64u);
  EXPECT_EQ(drainer_->lost_by_threads(), 36u);
  EXPECT_EQ(drainer_->overrun(), 0u);
  EXPECT_TRUE(shim_->Publish(0, FakeShim::Point(101))) << "the tail makes room again";
}

TEST_F(RingDrainerTest, OverrunIsCounted) {
  Make(64, 1);
  for (uint64_t n = 1; n <= 200; ++n) {
    ASSERT_TRUE(shim_->Publish(0, FakeShim::Point(n), /*ignore_tail=*/true));
  }
  EXPECT_EQ(Drain(), 63u);
  EXPECT_EQ(drainer_->overrun(), 137u);
  ASSERT_EQ(got_[1].size(), 63u);
  EXPECT_EQ(got_[1].front(), 138u);
  EXPECT_EQ(got_[1].back(), 200u);
  EXPECT_EQ(drainer_->collected(0), 200u);
}

TEST_F(RingDrainerTest, OverrunWhileReadingNeverShowsTornRecords) {
  Make(64, 1);
  for (uint64_t n = 1; n <= 100; ++n) {  // a writer known for it: what a first time spoils, it may
    shim_->Publish(0, FakeShim::Point(n), /*ignore_tail=*/true);
  }
  uint64_t seen = Drain();
  got_.clear();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t n = 101; !stop; ++n) {
      ring::Record record = FakeShim::Point(n);
      record.payload.work.event = ~n;
      record.call_site = n;
      shim_->Publish(0, record, /*ignore_tail=*/true);
      if (n % 64 == 0) {
        sched_yield();
      }
    }
  });
  uint64_t torn = 0, backwards = 0, last = 0;
  // Until it has been overtaken many times, however the two threads are scheduled.
  for (int i = 0; i < 20'000 || (drainer_->overrun() < 100'000 && i < 50'000'000); ++i) {
    drainer_->Drain(1000, [&](ThreadNumber, std::span<const ring::Record> got) {
      for (const ring::Record& record : got) {
        ++seen;
        const uint64_t n = record.payload.work.ordinal;
        torn += record.payload.work.event != ~n || record.call_site != n ? 1 : 0;
        backwards += n <= last ? 1 : 0;
        last = n;
      }
    });
  }
  stop = true;
  writer.join();
  Drain();
  EXPECT_GT(seen, 0u);
  EXPECT_GT(drainer_->overrun(), 0u);
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(backwards, 0u);
  // Every record was either handed out or counted.
  EXPECT_EQ(seen + got_[1].size() + drainer_->overrun(), shim_->thread(0)->ring_head);
}

TEST_F(RingDrainerTest, SlotHandedToAnotherThread) {
  Make(64, 1);
  ASSERT_TRUE(shim_->Publish(0, FakeShim::Point(1)));
  EXPECT_FALSE(shim_->ReuseThread(0, 500)) << "something is unread";
  Drain();
  ASSERT_TRUE(shim_->ReuseThread(0, 500));
  ASSERT_TRUE(shim_->Publish(0, FakeShim::Point(2)));
  Drain();
  EXPECT_EQ(got_[MakeThreadNumber(0, 0).number()], std::vector<uint64_t>{1});
  EXPECT_EQ(got_[MakeThreadNumber(0, 1).number()], std::vector<uint64_t>{2});
}

TEST_F(RingDrainerTest, DamagedSlotsAreCountedAndLeftAlone) {
  Make(64, 3);
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(shim_->Publish(i, FakeShim::Point(1)));
  }
  Drain();
  shim_->thread(0)->ring_offset = shim_->bytes();  // outside
  shim_->thread(0)->ring_head = 2;
  shim_->thread(1)->ring_head = 0;  // goes back
  ASSERT_TRUE(shim_->Publish(2, FakeShim::Point(2)));
  EXPECT_EQ(Drain(), 1u);
  EXPECT_EQ(drainer_->corrupt(), 2u);
  EXPECT_TRUE(drainer_->ignored(0));
  EXPECT_TRUE(drainer_->ignored(1));
  EXPECT_FALSE(drainer_->ignored(2));
  EXPECT_EQ(Drain(), 0u);
  EXPECT_EQ(drainer_->corrupt(), 2u) << "counted once";
}

TEST_F(RingDrainerTest, OneBusyThreadDoesNotStarveOthers) {
  Make(1024, 2);
  for (uint64_t n = 1; n <= 1024; ++n) {
    ASSERT_TRUE(shim_->Publish(0, FakeShim::Point(n)));
  }
  ASSERT_TRUE(shim_->Publish(1, FakeShim::Point(1)));
  EXPECT_EQ(Drain(600), 600u);
  EXPECT_EQ(got_[2].size(), 1u);
}

}  // namespace
}  // namespace gordian::collector
