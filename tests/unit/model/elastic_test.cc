// Ranks that come back: torchrun --max-restarts starts all of them anew, with the same ranks.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/job_model.h"

namespace gordian::model {
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
  void MakeComm(ProcessId id, CommUid uid, int rank, int nranks = 2, uint32_t comm = 1) {
    BeginComm(id, uid, rank, nranks, comm);
    HaveComm(id, rank, nranks, comm);
  }
  void BeginComm(ProcessId id, CommUid uid, int rank, int nranks = 2, uint32_t comm = 1,
                 uint8_t flags = 0) {
    CallRecord record = Make(id, RecordKind::kBegin, Call::kCommInit);
    record.flags = flags;
    record.payload = ring::CommInitPayload{
        .comm = comm, .nranks = nranks, .rank = rank, .device = rank, .uid = uid};
    model.OnRecord(record);
    living_[id].in_init = record.order;
    living_[id].since_ns = record.time_ns;
  }
  void HaveComm(ProcessId id, int rank, int nranks = 2, uint32_t comm = 1) {
    CallRecord record = Make(id, RecordKind::kEnd, Call::kCommInit);
    record.payload = ring::EndPayload{.comm = comm, .nranks = nranks, .rank = rank, .device = -1};
    model.OnRecord(record);
    living_[id].in_init = 0;
  }
  // A call that is none of NCCL.
  void Work(ProcessId id) { model.OnRecord(Make(id, RecordKind::kBegin, Call::kOther)); }
  // Launched; done only when `Finish` says so.
  void AllReduce(ProcessId id, uint32_t comm = 1, uint64_t count = 1024) {
    CallRecord record = Make(id, RecordKind::kBegin, Call::kAllReduce);
    record.payload = ring::OperationPayload{
        .comm = comm, .stream = 1, .count = count, .sequence = living_[id].calls[comm]++};
    model.OnRecord(record);
    record = Make(id, RecordKind::kEnd, Call::kAllReduce);
    record.payload = ring::EndPayload{.stream = 1, .ordinal = ++living_[id].enqueued};
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
        if (busy) thread.cpu_ticks = number_;
        if (at.in_init != 0) {
          thread.call = Call::kCommInit;
          thread.call_id = 1;
          thread.call_order = at.in_init;
          thread.since_ns = at.since_ns;
        }
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
  bool busy = false;  // its threads use processors

 private:
  struct At {
    uint64_t order = 0, enqueued = 0, done = 0;
    uint64_t in_init = 0,
             since_ns = 0;  // the call that makes a communicator: its order; 0: in none
    std::map<uint32_t, uint64_t> calls;  // by communicator
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

// Both ranks wait in calls of two communicators, each in the other order, until gordian ends them.
void Deadlock(Job* job) {
  for (ProcessId id : {1u, 2u}) {
    job->Start(id, static_cast<int>(id) - 1);
    job->MakeComm(id, 77, static_cast<int>(id) - 1);
    job->MakeComm(id, 79, static_cast<int>(id) - 1, 2, /*comm=*/2);
  }
  for (ProcessId id : {1u, 2u}) {
    job->AllReduce(id, /*comm=*/id);
    job->AllReduce(id, /*comm=*/3 - id);
  }
  job->Rounds(5);
}

TEST(Elastic, WhatGordianEndedIsNoExitedRank) {
  Job job;
  Deadlock(&job);
  ASSERT_EQ(job.Main().verdict, VerdictKind::kDeadlock) << job.Main().summary;
  job.End(1, ExitKind::kGordian, 9);
  job.Rounds(5);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kDeadlock) << job.Main().summary;
  EXPECT_TRUE(job.model.Current().findings.empty());
}

TEST(Elastic, ADeadlockIsHistoryOnceItsRanksAreGoneAndComeBack) {
  Job job;
  Deadlock(&job);
  for (ProcessId id : {1u, 2u}) job.End(id, ExitKind::kGordian, 9);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kDeadlock) << "nobody has come back";
  ComeBack(&job, 3, 0);
  ComeBack(&job, 4, 1);
  for (ProcessId id : {3u, 4u}) job.Finish(id);
  job.Rounds(3);
  const Verdict verdict = job.model.Current();
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_EQ(verdict.restarts.times, 1);
  EXPECT_EQ(verdict.restarts.because, "gordian ended the ranks for its verdict");
}

// The other rank of the deadlock was not told, and still waits.
TEST(Elastic, ADeadlockStandsWhileOneOfItsRanksWaits) {
  Job job;
  Deadlock(&job);
  job.End(2, ExitKind::kGordian, 9);
  ComeBack(&job, 4, 1);
  job.Rounds(5);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kDeadlock) << job.Main().summary;
}

TEST(Elastic, AMismatchOfAnEarlierStartIsHistory) {
  Job job;
  for (ProcessId id : {1u, 2u}) {
    job.Start(id, static_cast<int>(id) - 1);
    job.MakeComm(id, 77, static_cast<int>(id) - 1);
    job.AllReduce(id, /*comm=*/1, /*count=*/id);
  }
  job.Rounds(3);
  ASSERT_EQ(job.Main().verdict, VerdictKind::kMismatch) << job.Main().summary;
  for (ProcessId id : {1u, 2u}) job.End(id, ExitKind::kGordian, 9);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kMismatch) << "nobody has come back";
  ComeBack(&job, 3, 0);
  ComeBack(&job, 4, 1);
  for (ProcessId id : {3u, 4u}) job.Finish(id);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kHealthy) << job.Main().summary;
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

// The second incarnation's exit is no history, though the first one's is and nobody is left to
// wait.
TEST(Elastic, TheLastIncarnationsExitStays) {
  Job job;
  LoseRankOne(&job);
  job.End(1, ExitKind::kSignal, 15);
  ComeBack(&job, 3, 0);
  ComeBack(&job, 4, 1);
  for (ProcessId id : {3u, 4u}) job.Finish(id);
  job.Rounds(3);
  ASSERT_EQ(job.Main().verdict, VerdictKind::kHealthy);
  job.AllReduce(3);
  job.End(4, ExitKind::kCode, 3);
  job.Rounds(5);
  ASSERT_EQ(job.Main().verdict, VerdictKind::kRankExited);
  job.End(3, ExitKind::kSignal, 15);  // the launcher gives up
  job.Rounds(3);
  job.model.OnJobEnded(ExitKind::kCode, 1, job.now, false);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kRankExited) << job.Main().summary;
}

// A process with the rank's variables ends badly while rank 0 waits for that rank, which comes late:
// after the last round, for all that gordian sees.
TEST(Elastic, AnotherCameInItsPlaceAfterTheLastRound) {
  for (const bool came : {true, false}) {
    SCOPED_TRACE(came);
    Job job;
    for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
    job.Work(2);
    job.BeginComm(1, 77, 0, 2, 1, kHost);
    job.End(2, ExitKind::kCode, 1);
    job.Rounds(60);
    ASSERT_TRUE(SaysTrouble(job.Main().verdict)) << job.Main().summary;
    ASSERT_EQ(job.Main().confidence, Confidence::kSuspected) << job.Main().summary;
    ASSERT_EQ(job.Main().culprit_ranks, std::vector<int>{1}) << job.Main().summary;
    if (came) {
      job.Start(3, 1);
      job.BeginComm(3, 77, 1, 2, 1, kHost);
      for (ProcessId id : {1u, 3u}) job.HaveComm(id, id == 1 ? 0 : 1);
      job.End(3, ExitKind::kCode, 0);
    }
    job.End(1, ExitKind::kCode, 0);
    job.model.OnJobEnded(ExitKind::kCode, 0, job.now, false);
    EXPECT_EQ(SaysTrouble(job.Main().verdict), !came) << job.Main().summary;
  }
}

TEST(Elastic, TellsWhoCameBackAndWhy) {
  Job job;
  LoseRankOne(&job);
  EXPECT_EQ(job.model.Current().restarts.times, 0);
  job.End(1, ExitKind::kSignal, 15);
  ComeBack(&job, 3, 0);
  ComeBack(&job, 4, 1);
  job.Rounds(1);
  const Restarts restarts = job.model.Current().restarts;
  EXPECT_EQ(restarts.times, 1);
  EXPECT_EQ(restarts.ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(restarts.because, "rank 1 was killed by signal 9");
  for (const RankSnapshot& rank : job.model.Snapshot().ranks) EXPECT_EQ(rank.incarnation, 2);
  EXPECT_EQ(job.model.Snapshot().ranks.size(), 2u);
}

// Processes are numbered by node: the one that comes back elsewhere may have a lower number, and
// the same pid as on the other node.
TEST(Elastic, ARankMayComeBackOnAnotherNode) {
  Job job;
  job.Start(11, 0);
  job.Start(12, 1);
  job.MakeComm(11, 77, 0);
  job.MakeComm(12, 77, 1);
  job.AllReduce(11);
  job.End(12, ExitKind::kSignal, 9);
  job.Rounds(5);
  ASSERT_EQ(job.Main().verdict, VerdictKind::kRankExited);
  job.End(11, ExitKind::kSignal, 15);
  ComeBack(&job, 3, 1);
  ComeBack(&job, 4, 0);
  for (ProcessId id : {3u, 4u}) job.Finish(id);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kHealthy) << job.Main().summary;
}

// The launcher goes on with one rank less: the lost one is not missed, nor counted.
TEST(Elastic, AJobMayComeBackSmaller) {
  Job job;
  for (ProcessId id : {1u, 2u, 3u}) job.Start(id, static_cast<int>(id) - 1, 3);
  for (ProcessId id : {1u, 2u, 3u}) job.MakeComm(id, 77, static_cast<int>(id) - 1, 3);
  job.AllReduce(1);
  job.End(3, ExitKind::kSignal, 9);
  job.Rounds(5);
  ASSERT_EQ(job.Main().verdict, VerdictKind::kRankExited);
  for (ProcessId id : {1u, 2u}) job.End(id, ExitKind::kSignal, 15);
  ComeBack(&job, 4, 0);
  ComeBack(&job, 5, 1);
  for (ProcessId id : {4u, 5u}) job.Finish(id);
  job.Rounds(3);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kHealthy) << job.Main().summary;
  EXPECT_EQ(job.Main().evidence.ranks_expected, 2);
  EXPECT_EQ(job.Main().evidence.ranks_seen, 2);
}

// Between the old process' end and the new one's first NCCL call both have the rank; the new one
// has used the GPU already. Names stay those of RANK: the communicator counts from the other end.
TEST(Elastic, TheRankKeepsItsNameWhileItComesBack) {
  Job job;
  for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
  for (ProcessId id : {1u, 2u}) job.MakeComm(id, 77, 2 - static_cast<int>(id));
  job.AllReduce(1);
  job.End(2, ExitKind::kSignal, 9);
  job.Start(3, 1);
  job.Work(3);
  job.Rounds(5);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kRankExited);
  EXPECT_EQ(job.Main().culprit_ranks, std::vector<int>{1});
  EXPECT_EQ(job.Main().evidence.ranks_seen, 2);
}

// Two jobs under one gordian, one after the other: the second is no restart of the first.
TEST(SeveralJobs, OneAfterAnotherIsNoRestart) {
  Job job;
  for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
  for (ProcessId id : {1u, 2u}) job.MakeComm(id, 77, static_cast<int>(id) - 1);
  for (ProcessId id : {1u, 2u}) job.End(id, ExitKind::kCode, 0);
  job.now += 3'000 * kMs;
  ComeBack(&job, 3, 0);
  job.Start(4, 1);
  job.MakeComm(4, 78, 1);
  job.End(4, ExitKind::kCode, 3);
  job.Rounds(5);
  const Verdict verdict = job.model.Current();
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kRankExited) << verdict.main.summary;
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{1});
  EXPECT_EQ(verdict.restarts.times, 0);
  EXPECT_TRUE(verdict.main.summary.ends_with(
      "It is the job of pids 1003, 1004; gordian has seen another one."))
      << verdict.main.summary;
  for (const RankSnapshot& rank : job.model.Snapshot().ranks) EXPECT_EQ(rank.incarnation, 1);
}

TEST(SeveralJobs, SideBySideRanksKeepTheirNumbers) {
  Job job;
  for (ProcessId id : {1u, 2u, 3u, 4u}) job.Start(id, static_cast<int>(id - 1) % 2);
  for (ProcessId id : {1u, 2u}) job.MakeComm(id, 77, static_cast<int>(id) - 1);
  for (ProcessId id : {3u, 4u}) job.MakeComm(id, 78, static_cast<int>(id) - 3);
  job.AllReduce(3);
  job.End(4, ExitKind::kSignal, 9);
  job.Rounds(5);
  const Finding main = job.Main();
  EXPECT_EQ(main.verdict, VerdictKind::kRankExited) << main.summary;
  EXPECT_EQ(main.culprit_ranks, std::vector<int>{1});
  EXPECT_EQ(main.victim_ranks, std::vector<int>{0});
  ASSERT_EQ(main.culprit_processes.size(), 1u);
  EXPECT_EQ(main.culprit_processes.front().pid, 1004u);
  EXPECT_TRUE(
      main.summary.ends_with("It is the job of pids 1003, 1004; gordian has seen another one."))
      << main.summary;
}

// One job says nothing of jobs.
TEST(SeveralJobs, OneIsNotNamed) {
  Job job;
  LoseRankOne(&job);
  EXPECT_EQ(job.Main().summary.find("job of"), std::string::npos) << job.Main().summary;
}

// Rank 0 is out of the call that makes the communicator, which takes both: rank 1 made it as well.
TEST(UnseenRanks, AMemberWhoseCallsAreOutOfSightIsNotSeen) {
  Job job;
  for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
  job.MakeComm(1, 77, 0);
  job.Rounds(2);
  const Evidence evidence = job.Main().evidence;
  EXPECT_EQ(evidence.ranks_seen, 1);
  EXPECT_EQ(evidence.ranks_expected, 2);
  ASSERT_FALSE(evidence.not_visible.empty());
  EXPECT_NE(evidence.not_visible.back().find("NCCL calls of rank 1 (pid 1002)"), std::string::npos)
      << evidence.not_visible.back();
}

// A launcher takes its time to start the ranks.
TEST(StandsStill, FromWhenARankIsThereOn) {
  Job job;
  job.Rounds(70);
  for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
  job.Rounds(30);
  EXPECT_NE(job.Main().check, "no-progress") << job.Main().summary;
  job.Rounds(40);
  EXPECT_EQ(job.Main().check, "no-progress") << job.Main().summary;
}

TEST(StandsStill, BeforeTheFirstCallOfNcclToo) {
  Job job;
  for (ProcessId id : {1u, 2u}) job.Start(id, static_cast<int>(id) - 1);
  job.Rounds(30);
  EXPECT_EQ(job.Main().verdict, VerdictKind::kHealthy) << job.Main().summary;
  job.Rounds(40);
  EXPECT_EQ(job.Main().check, "no-progress") << job.Main().summary;
  EXPECT_EQ(job.Main().summary,
            "No rank has called NCCL yet, or done anything else for more than 5 s: ranks 0 and 1: "
            "each runs its own code and sleeps outside of NCCL and CUDA.");
  job.busy = true;  // it may load a model
  job.Rounds(60);
  EXPECT_EQ(job.Main().check, "no-nccl-calls") << job.Main().summary;
}

}  // namespace
}  // namespace gordian::model
