// Ranks that come back: torchrun --max-restarts starts all of them anew, with the same ranks.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "analyzer/graph/job_model.h"

namespace gordian::graph {
namespace {

constexpr uint64_t kMs = 1'000'000;

class Job {
 public:
  void Start(ProcessId id, int rank, int world = 2) {
    ProcessInfo info;
    info.process = id;
    info.pid = 1000 + id;
    info.env_rank = rank;
    info.env_world_size = world;
    model.OnProcessStarted(info);
    living_[id] = {};
  }
  void MakeComm(ProcessId id, CommUid uid, int rank, int nranks = 2) {
    CallRecord record = Make(id, RecordKind::kBegin, Call::kCommInit);
    record.comm = 1;
    record.uid = uid;
    record.rank = rank;
    record.nranks = nranks;
    record.device = rank;
    model.OnRecord(record);
    record = Make(id, RecordKind::kEnd, Call::kCommInit);
    record.comm = 1;
    record.rank = rank;
    record.nranks = nranks;
    model.OnRecord(record);
  }
  // Launched; done only when `Finish` says so.
  void AllReduce(ProcessId id) {
    CallRecord record = Make(id, RecordKind::kBegin, Call::kAllReduce);
    record.comm = record.stream = 1;
    record.count = 1024;
    record.sequence = living_[id].enqueued;
    model.OnRecord(record);
    record = Make(id, RecordKind::kEnd, Call::kAllReduce);
    record.stream = 1;
    record.ordinal = ++living_[id].enqueued;
    model.OnRecord(record);
  }
  void Finish(ProcessId id) { living_[id].done = living_[id].enqueued; }
  void End(ProcessId id, ExitKind kind, int value) {
    living_.erase(id);
    model.OnProcessEnded(id, kind, value, now += kMs);
  }
  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      Round round;
      round.round = ++number_;
      round.begin_ns = now += 100 * kMs;
      round.end_ns = now += kMs;
      for (const auto& [id, at] : living_) {
        ProcessState state;
        state.process = id;
        state.answered = true;
        ThreadState thread;
        thread.thread = 1;
        thread.tid = 1000 + id;
        thread.gpu_thread = true;
        thread.os_state = OsState::kSleeping;
        state.threads.push_back(thread);
        state.streams.push_back({1, at.enqueued, at.done + 1, at.done});
        round.processes.push_back(state);
      }
      model.OnRound(round);
    }
  }
  Finding Main() const { return model.Current().main; }

  JobModel model;
  uint64_t now = 1'000 * kMs;

 private:
  struct At {
    uint64_t order = 0, enqueued = 0, done = 0;
  };
  CallRecord Make(ProcessId id, RecordKind kind, Call call) {
    CallRecord record;
    record.process = id;
    record.thread = 1;
    record.kind = kind;
    record.call = call;
    record.call_id = 1;
    record.order = ++living_[id].order;
    record.time_ns = now += kMs;
    return record;
  }
  std::map<ProcessId, At> living_;
  uint64_t number_ = 0;
};

// Two ranks; the second is killed while the first waits for it.
void LoseRankOne(Job* job) {
  for (ProcessId id : {1u, 2u}) job->Start(id, static_cast<int>(id) - 1);
  for (ProcessId id : {1u, 2u}) job->MakeComm(id, 77, static_cast<int>(id) - 1);
  job->AllReduce(1);
  job->End(2, ExitKind::kSignal, 9);
  job->Rounds(5);
}

void ComeBack(Job* job, ProcessId id, int rank) {
  job->Start(id, rank);
  job->MakeComm(id, 78, rank);
  job->AllReduce(id);
}

TEST(Elastic, AnExitedRankThatOthersWaitForIsAFinding) {
  Job job;
  LoseRankOne(&job);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kRankExited);
  EXPECT_EQ(job.Main().confidence, Confidence::kConfirmed);
  EXPECT_EQ(job.Main().culprit_ranks, std::vector<int>{1});
}

TEST(Elastic, OnceAllHaveComeBackItIsHistory) {
  Job job;
  LoseRankOne(&job);
  job.End(1, ExitKind::kSignal, 15);
  ComeBack(&job, 3, 0);
  ComeBack(&job, 4, 1);
  for (ProcessId id : {3u, 4u}) job.Finish(id);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kHealthy) << job.Main().summary;
  EXPECT_EQ(job.Main().evidence.ranks_seen, 2);
  EXPECT_EQ(job.Main().evidence.ranks_expected, 2);
}

TEST(Elastic, WhoStillWaitsKeepsTheFinding) {
  Job job;
  LoseRankOne(&job);
  ComeBack(&job, 3, 1);  // but rank 0 was not told, and waits on the old communicator
  job.Finish(3);
  job.Rounds(5);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kRankExited) << job.Main().summary;
}

TEST(Elastic, AWorkerWithItsRanksEnvironmentIsNoSuccessor) {
  Job job;
  for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
  for (ProcessId id : {1u, 2u}) job.MakeComm(id, 77, static_cast<int>(id) - 1);
  job.Start(3, 1);  // makes no NCCL call
  job.AllReduce(1);
  job.End(2, ExitKind::kSignal, 9);
  job.Rounds(5);
  job.End(1, ExitKind::kSignal, 15);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kRankExited) << job.Main().summary;
}

TEST(Elastic, ALaterIncarnationCanExitToo) {
  Job job;
  LoseRankOne(&job);
  job.End(1, ExitKind::kSignal, 15);
  ComeBack(&job, 3, 0);
  job.Start(4, 1);
  job.MakeComm(4, 78, 1);
  job.End(4, ExitKind::kSignal, 9);
  job.Rounds(5);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kRankExited) << job.Main().summary;
  EXPECT_EQ(job.Main().culprit_ranks, std::vector<int>{1});
}

}  // namespace
}  // namespace gordian::graph
