// Operations that are handed over when their stream comes to them: what orders them, and what ends
// those that never are.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/runtime/cuda/host_worker.h"

namespace gordian::runtime::cuda {
namespace {

Job OnStreams(uint64_t seed) {
  Job job;
  job.ranks = seed % 3 == 0 ? 3 : 2;
  job.blocks = 1 + seed % 3;
  job.each = 6;
  job.streams = 3;
  return job;
}

TEST(QueueTest, OrderOfCallsWhateverTheStreams) {
  for (uint64_t seed = 1; seed <= Seeds(60); ++seed) {
    const Outcome o = RunJob(OnStreams(seed), seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
  }
}

// The twin: handed over in the order in which streams come to them, which ranks do not share.
TEST(QueueTest, OrderOfTheStreamsIsNoOrder) {
  uint32_t bad = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Job job = OnStreams(seed);
    job.as_they_come = true;
    const Outcome o = RunJob(job, seed);
    bad += !o.finished || o.wrong != 0;
  }
  EXPECT_GT(bad, 5u);
}

TEST(QueueTest, NoSubmissionIsLostBehindStreams) {
  uint32_t instances = 0;
  for (uint64_t seed = 1; seed <= Seeds(150); ++seed) {
    Job job;
    job.ranks = 1;
    job.ports = 3;
    job.each = 20;
    job.streams = 2;
    job.waits_for_each = true;
    job.timing.idle_ns = 0;
    job.timing.stuck_ns = INT64_MAX;
    job.timing.gaps = {INT64_MAX / 4, INT64_MAX / 4};
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    instances += o.instances;
  }
  EXPECT_GT(instances, Seeds(150) * 10);
}

// Streams that wait by a kernel that helps, beside the worker and without it.
TEST(QueueTest, WaitsThatHelp) {
  for (uint64_t seed = 1; seed <= Seeds(60); ++seed) {
    Job job = OnStreams(seed);
    job.helps = true;
    job.starts_nothing = seed % 2 == 0;
    job.priorities = 1 + seed % 3;
    const Outcome o = RunJob(job, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(o.instances == 0, job.starts_nothing) << "seed " << seed;
  }
}

// The twin: they do not help, and the worker cannot start.
TEST(QueueTest, WaitsThatDoNotHelpDoNotEnd) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Job job = OnStreams(seed);
    job.starts_nothing = true;
    EXPECT_FALSE(RunJob(job, seed).finished) << "seed " << seed;
  }
}

// More rounds of the list than it has places for, by who helps alone.
TEST(QueueTest, HelpersGoRoundTheList) {
  Job job;
  job.ports = 3;
  job.each = kDetachedEntries;
  job.only_all_reduce = true;
  job.waits_for_each = true;
  job.helps_each = true;
  job.starts_nothing = true;
  job.same_order = true;
  const Outcome o = RunJob(job, 1);
  EXPECT_TRUE(o.finished);
  EXPECT_EQ(o.wrong, 0u);
}

// Without a device: what is in the list, in its order.
class Table : public testing::Test {
 protected:
  uint32_t Add(uint64_t port, bool is_ready) {
    WorkerOperation operation;
    operation.work.channels = 1;
    operation.port = operation.key = port;
    uint32_t ticket = 0;
    const auto added = queue_.Add(operation, is_ready, &ticket, [] {});
    return added == WorkerQueue::Added::kTold || added == WorkerQueue::Added::kMustRing ? ticket
                                                                                        : 0;
  }
  std::vector<uint32_t> Published() const {
    std::vector<uint32_t> tickets;
    for (uint32_t i = 0; i < static_cast<uint32_t>(host_->published); ++i)
      tickets.push_back(host_->entries[i % kDetachedEntries].ticket);
    return tickets;
  }
  void Finish(uint32_t id) {  // as the device does
    const uint32_t ticket = host_->entries[id % kDetachedEntries].ticket;
    __atomic_store_n(&host_->ended[ticket % kTickets], ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&host_->done[id % kDetachedEntries], id + 1, __ATOMIC_RELEASE);
  }
  bool Ready(uint32_t ticket) {
    return queue_.Ready(ticket, [] {});
  }
  const std::unique_ptr<WorkerHost, decltype(&std::free)> host_ = Zeros<WorkerHost>();
  WorkerQueue queue_{host_.get(), {}};
};

TEST_F(Table, OneIsHeldBackForThoseBeforeIt) {
  const uint32_t a = Add(1, false), b = Add(1, false), c = Add(1, true), other = Add(2, true);
  EXPECT_EQ(Published(), std::vector<uint32_t>({other}));
  EXPECT_FALSE(Ready(b));
  EXPECT_EQ(Published(), std::vector<uint32_t>({other}));
  EXPECT_TRUE(Ready(a));
  EXPECT_EQ(Published(), std::vector<uint32_t>({other, a, b, c}));
  EXPECT_FALSE(queue_.HoldsBack());
}

TEST_F(Table, NotesAreThoseOfTheLine) {
  const uint32_t a = Add(1, false), b = Add(1, true), c = Add(1, false), other = Add(2, false);
  const auto first = std::make_shared<int>(), third = std::make_shared<int>(),
             others = std::make_shared<int>();
  queue_.Note(a, first);
  queue_.Note(c, third);
  queue_.Note(other, others);
  using Notes = std::vector<std::shared_ptr<void>>;
  EXPECT_EQ(queue_.NotesBefore(b), Notes({first}));
  EXPECT_EQ(queue_.NotesBefore(c), Notes({first, third}));
  Ready(a);
  EXPECT_EQ(queue_.NotesBefore(b), Notes());  // it is published
  EXPECT_EQ(queue_.NotesBefore(c), Notes({third}));
}

TEST_F(Table, CancelledOnesHoldNobodyBack) {
  const uint32_t a = Add(1, false), b = Add(1, true);
  EXPECT_FALSE(queue_.IsDone(a));
  queue_.Cancel(a);
  EXPECT_TRUE(queue_.IsDone(a));
  EXPECT_FALSE(Ready(a));
  EXPECT_TRUE(queue_.Flush([] {}));
  EXPECT_EQ(Published(), std::vector<uint32_t>({b}));
}

// Of a port that is gone: over, so that nobody waits, and never published.
TEST_F(Table, ForgottenOnesAreOver) {
  const uint32_t a = Add(1, false), b = Add(1, true), other = Add(2, false);
  queue_.Forget(1);
  EXPECT_TRUE(queue_.IsDone(a));
  EXPECT_TRUE(queue_.IsDone(b));
  EXPECT_FALSE(queue_.IsDone(other));
  EXPECT_FALSE(Ready(a));
  EXPECT_TRUE(Ready(other));
  EXPECT_EQ(Published(), std::vector<uint32_t>({other}));
}

TEST_F(Table, AllEndWhenAllIsOver) {
  const uint32_t published = Add(1, true), held = Add(2, false);
  Finish(0);
  const uint32_t later = Add(3, true);
  EXPECT_TRUE(queue_.IsDone(published));
  EXPECT_FALSE(queue_.IsDone(held));
  queue_.EndAll();
  EXPECT_TRUE(queue_.IsDone(held));
  EXPECT_TRUE(queue_.IsDone(later));
  EXPECT_FALSE(Ready(held));
}

// More than the list has room for wait; more than there are tickets for are refused; both go on
// when there is room.
TEST_F(Table, RoomIsBounded) {
  std::vector<uint32_t> tickets;
  for (uint32_t i = 0; i < kTickets; ++i) {
    tickets.push_back(Add(1, false));
    ASSERT_NE(tickets.back(), 0u);
  }
  EXPECT_EQ(Add(2, true), 0u);
  for (const uint32_t ticket : tickets) Ready(ticket);
  EXPECT_EQ(static_cast<uint32_t>(host_->published), kDetachedEntries);
  EXPECT_FALSE(queue_.Flush([] {}));
  for (uint32_t id = 0; id < 10; ++id) Finish(id);
  EXPECT_TRUE(queue_.Flush([] {}));
  EXPECT_EQ(static_cast<uint32_t>(host_->published), kDetachedEntries + 10);
  for (uint32_t i = 0; i < 10; ++i) ASSERT_NE(Add(2, false), 0u);
  EXPECT_EQ(Add(2, false), 0u);
  EXPECT_TRUE(queue_.IsDone(tickets[9]));
  EXPECT_FALSE(queue_.IsDone(tickets[10]));
}

}  // namespace
}  // namespace gordian::runtime::cuda
