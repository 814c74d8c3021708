// W20 to W23: what torch.distributed carries out on the host, without NCCL.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/verdict/job_model.h"

namespace gordian::model {
namespace {

constexpr uint64_t kTenth = 100'000'000;
constexpr CommId kWorld = 1, kA = 2, kB = 3;
constexpr uint64_t kKey = 0x1234;

// One process a rank, with one thread that calls and others as the test says.
class Job {
 public:
  explicit Job(int ranks) : ranks_(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      model_.OnProcessStarted({.process = Id(rank),
                               .pid = 1000u + static_cast<uint32_t>(rank),
                               .env_rank = rank,
                               .env_world_size = ranks});
    }
    for (const CommId comm : {kWorld, kA, kB}) Make(comm);
  }

  // A communicator of all ranks, on their GPUs or in host memory.
  void Make(CommId comm, bool on_gpus = false) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const int rank = static_cast<int>(r), size = static_cast<int>(ranks_.size());
      CallRecord begin =
          Record(rank, RecordKind::kBegin, model::Call::kCommInit, on_gpus ? 0 : kHost);
      begin.payload = ring::CommInitPayload{.comm = comm,
                                            .nranks = size,
                                            .rank = rank,
                                            .device = on_gpus ? rank : -1,
                                            .uid = 100 + comm,
                                            .parent = 0,
                                            .color = 0};
      model_.OnRecord(begin);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      CallRecord end = Record(static_cast<int>(r), RecordKind::kEnd, model::Call::kCommInit, 0);
      end.payload = ring::EndPayload{.result = 0,
                                     .stream = 0,
                                     .ordinal = 0,
                                     .comm = comm,
                                     .nranks = static_cast<int>(ranks_.size()),
                                     .rank = static_cast<int>(r),
                                     .device = -1};
      model_.OnRecord(end);
    }
  }
  void Call(int rank, CommId comm, model::Call call, uint64_t sequence, int root_or_peer = -1,
            uint64_t count = 4, uint16_t group = 0) {
    CallRecord record = Record(rank, RecordKind::kPoint, call, kHost);
    record.payload = ring::OperationPayload{.comm = comm,
                                            .stream = 0,
                                            .count = count,
                                            .sequence = sequence,
                                            .root_or_peer = root_or_peer,
                                            .datatype = 7,
                                            .reduce_op = 255,
                                            .group = group};
    model_.OnRecord(record);
  }
  // `part`: 0 collective, 1 send, 2 receive.
  void Wait(int rank, CommId comm, uint64_t sequence, uint32_t part = 0, uint64_t peer = 0) {
    Enter(rank, {.kind = WaitKind::kOperation,
                 .stream = comm,
                 .device = -1,
                 .part = part,
                 .event = peer,
                 .ordinal = sequence});
  }
  void WaitForKey(int rank) {
    Enter(rank, {.kind = WaitKind::kStore,
                 .stream = 0,
                 .device = -1,
                 .part = 0,
                 .event = kKey,
                 .ordinal = 0});
  }
  void SetKey(int rank) {
    CallRecord record = Record(rank, RecordKind::kPoint, model::Call::kHostWait, 0);
    record.payload = ring::HostWaitPayload{.kind = WaitKind::kStore,
                                           .stream = 0,
                                           .device = -1,
                                           .part = 0,
                                           .event = kKey,
                                           .ordinal = 0};
    model_.OnRecord(record);
  }
  void Waited(int rank) {
    CallRecord record = Record(rank, RecordKind::kEnd, model::Call::kHostWait, 0);
    record.payload = ring::EndPayload{.result = 0};
    model_.OnRecord(record);
    ranks_[static_cast<size_t>(rank)].in_call = 0;
  }
  void Do(int rank, CommId comm, model::Call call, uint64_t sequence, int root_or_peer = -1) {
    Call(rank, comm, call, sequence, root_or_peer);
    const uint32_t part = call == model::Call::kSend ? 1 : call == model::Call::kRecv ? 2 : 0;
    Wait(rank, comm, sequence, part, part == 0 ? 0 : static_cast<uint64_t>(root_or_peer));
  }
  // Another thread of the rank, which sleeps so.
  void AddThread(int rank, ThreadSleep sleep, ThreadId ring = 0) {
    ThreadState thread;
    thread.thread = ring;
    thread.tid = ++next_tid_;
    thread.os_state = OsState::kSleeping;
    thread.sleep = sleep;
    ranks_[static_cast<size_t>(rank)].others.push_back(thread);
  }
  void Sleep(int rank) { ranks_[static_cast<size_t>(rank)].sleeps = true; }

  const Verdict& Rounds(int count = 3) {
    for (int i = 0; i < count; ++i) {
      now_ += kTenth;
      Round round;
      round.round = ++round_;
      round.begin_ns = now_;
      round.end_ns = now_ + 1000;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        ProcessState& state = round.processes.emplace_back();
        state.process = Id(static_cast<int>(rank));
        state.answered = true;
        ThreadState& caller = state.threads.emplace_back();
        caller.thread = 1;
        caller.tid = 1000u + static_cast<uint32_t>(rank);
        caller.published = caller.collected = ranks_[rank].records;
        caller.gpu_thread = true;
        caller.os_state = OsState::kSleeping;
        caller.sleep = ThreadSleep::kThread;
        caller.cpu_ticks = 5;
        if (ranks_[rank].in_call != 0) {
          caller.call_id = 1;
          caller.call = model::Call::kHostWait;
          caller.call_order = ranks_[rank].in_call;
          caller.since_ns = ranks_[rank].since_ns;
        } else if (!ranks_[rank].sleeps) {
          caller.os_state = OsState::kRunning;
        }
        for (const ThreadState& other : ranks_[rank].others) state.threads.push_back(other);
      }
      model_.OnRound(round);
    }
    verdict_ = model_.Current();
    return verdict_;
  }

 private:
  struct Rank {
    uint64_t order = 0, records = 0, in_call = 0, since_ns = 0;
    std::vector<ThreadState> others;
    bool sleeps = false;
  };
  static ProcessId Id(int rank) { return static_cast<ProcessId>(rank + 1); }

  void Enter(int rank, const ring::HostWaitPayload& wait) {
    CallRecord record = Record(rank, RecordKind::kBegin, model::Call::kHostWait, 0);
    record.payload = wait;
    model_.OnRecord(record);
    ranks_[static_cast<size_t>(rank)].in_call = record.order;
    ranks_[static_cast<size_t>(rank)].since_ns = record.time_ns;
  }
  CallRecord Record(int rank, RecordKind kind, model::Call call, uint8_t flags) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    CallRecord record;
    record.process = Id(rank);
    record.thread = 1;
    record.kind = kind;
    record.call = call;
    record.call_id = 1;
    record.flags = flags;
    record.call_site = 0x50;
    record.order = ++own.order;
    record.time_ns = ++now_;
    ++own.records;
    return record;
  }

  std::vector<Rank> ranks_;
  JobModel model_;
  Verdict verdict_;
  uint64_t now_ = 1'000'000'000, round_ = 0;
  uint32_t next_tid_ = 5000;
};

using Ranks = std::vector<int>;

bool Proven(const Verdict& verdict) {
  return verdict.main.verdict == VerdictKind::kDeadlock &&
         verdict.main.confidence == Confidence::kConfirmed;
}
bool Silent(const Verdict& verdict) { return verdict.main.verdict == VerdictKind::kHealthy; }

TEST(HostOperations, TwoGroupsInOppositeOrder) {
  Job job(2);
  job.Do(0, kA, Call::kAllReduce, 0);
  job.Do(1, kB, Call::kAllReduce, 0);
  const Verdict& verdict = job.Rounds();
  EXPECT_TRUE(Proven(verdict)) << verdict.main.summary;
  EXPECT_EQ(verdict.main.culprit_ranks, (Ranks{0, 1}));
  EXPECT_NE(verdict.main.summary.find("rank 0 is in all_reduce #0 on group {0,1}"),
            std::string::npos)
      << verdict.main.summary;
  EXPECT_EQ(verdict.main.advice.find("stream"), std::string::npos) << verdict.main.advice;

  Job twin(2);
  twin.Do(0, kA, Call::kAllReduce, 0);
  twin.Do(1, kA, Call::kAllReduce, 0);
  EXPECT_TRUE(Silent(twin.Rounds()));
}

TEST(HostOperations, AGroupBesideOneOfGpusIsNoFurtherRank) {
  Job job(2);
  job.Make(9, true);
  EXPECT_EQ(job.Rounds().main.evidence.ranks_seen, 2);
  EXPECT_EQ(job.Rounds().main.evidence.ranks_expected, 2);
}

TEST(HostOperations, OneThatNoThreadWaitsForHoldsNothingUp) {
  Job job(2);
  job.Call(0, kA, Call::kAllReduce, 0);
  job.Do(0, kB, Call::kAllReduce, 0);
  job.Call(1, kB, Call::kAllReduce, 0);
  job.Do(1, kA, Call::kAllReduce, 0);
  EXPECT_TRUE(Silent(job.Rounds()));
}

TEST(HostOperations, ASendWaitsForItsReceive) {
  Job job(2);
  job.Do(0, kA, Call::kSend, 0, 1);
  job.Do(1, kA, Call::kSend, 0, 0);
  EXPECT_TRUE(Proven(job.Rounds()));

  Job twin(2);
  twin.Do(0, kA, Call::kSend, 0, 1);
  twin.Do(1, kA, Call::kRecv, 0, 0);
  EXPECT_TRUE(Silent(twin.Rounds()));
}

// 0 hands on to 1 and 2, 1 to 3: rank 0 is done without rank 3, and rank 1 is not.
TEST(HostOperations, ABroadcastGoesDownATree) {
  for (const int last : {1, 0}) {
    Job job(4);
    for (int rank = 0; rank < 3; ++rank) job.Call(rank, kA, Call::kBroadcast, 0, 0);
    job.Wait(last, kA, 0);
    job.Do(3, kB, Call::kRecv, 0, last);  // before it comes to the broadcast
    EXPECT_EQ(Proven(job.Rounds()), last == 1) << job.Rounds().main.summary;
  }
}

TEST(HostOperations, AGatherNeedsTheRootAndTheRootNeedsAll) {
  for (const bool root_waits : {true, false}) {
    Job job(3);
    job.Call(0, kA, Call::kGather, 0, 0);
    job.Call(1, kA, Call::kGather, 0, 0);
    job.Wait(root_waits ? 0 : 1, kA, 0);
    job.Do(2, kB, Call::kRecv, 0, root_waits ? 0 : 1);
    EXPECT_EQ(Proven(job.Rounds()), root_waits);
  }
}

TEST(HostOperations, OfUnknownSizesProvesNothing) {
  Job job(2);
  job.Call(0, kA, Call::kAllToAll, 0, -1, /*count=*/0);
  job.Wait(0, kA, 0);
  job.Do(1, kB, Call::kAllReduce, 0);
  EXPECT_FALSE(Proven(job.Rounds()));
}

TEST(HostOperations, OfUnequalSizesWithEveryMemberWaitsForAll) {
  for (const uint16_t with_all : {ring::kWithAll, uint16_t{0}}) {
    Job job(2);
    job.Call(0, kA, Call::kAllToAll, 0, -1, /*count=*/0, with_all);
    job.Wait(0, kA, 0);
    job.Do(1, kB, Call::kAllReduce, 0);
    EXPECT_EQ(Proven(job.Rounds()), with_all != 0);
  }
}

// Which of the sends the first receive has met, only rank 1 knows.
TEST(HostOperations, AReceiveFromAnySourceLeavesTransfersUnproven) {
  for (const bool any : {true, false}) {
    Job job(2);
    if (any) job.Call(1, kA, Call::kRecv, 0, -1);
    job.Do(0, kA, Call::kSend, 0, 1);
    job.Do(1, kA, Call::kSend, 0, 0);
    EXPECT_EQ(Proven(job.Rounds()), !any);
  }
}

TEST(HostOperations, ABarrierAndAKeyInACircle) {
  Job job(2);
  job.WaitForKey(0);
  job.Do(1, kWorld, Call::kBarrier, 0);  // and sets the key after it
  EXPECT_TRUE(Proven(job.Rounds())) << job.Rounds().main.summary;

  Job twin(2);
  twin.SetKey(1);
  twin.WaitForKey(0);
  twin.Do(1, kWorld, Call::kBarrier, 0);
  EXPECT_TRUE(Silent(twin.Rounds()));
}

// The same circle beside another thread of rank 0.
TEST(HostOperations, ThreadsOfGlooCallOnlyAfterAnOperation) {
  const auto with = [](const std::vector<ThreadSleep>& threads, bool other_operation) {
    Job job(2);
    if (other_operation) {  // which can end
      job.Call(0, kWorld, Call::kAllReduce, 0);
      job.Call(1, kWorld, Call::kAllReduce, 0);
    }
    job.Do(0, kA, Call::kAllReduce, 0);
    job.Do(1, kB, Call::kAllReduce, 0);
    for (const ThreadSleep sleep : threads) job.AddThread(0, sleep);
    return Proven(job.Rounds());
  };
  EXPECT_TRUE(with({ThreadSleep::kOperation}, false));
  EXPECT_TRUE(with({ThreadSleep::kThread}, false));
  EXPECT_FALSE(with({ThreadSleep::kOutside}, false));
  EXPECT_FALSE(with({ThreadSleep::kOperation, ThreadSleep::kOperation}, false))
      << "one of them carries out what gordian does not know of";
  EXPECT_FALSE(with({ThreadSleep::kOperation, ThreadSleep::kOperation}, true))
      << "when the other operation ends, its thread may call";
}

}  // namespace
}  // namespace gordian::model
