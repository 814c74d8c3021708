// Calls that make and end communicators: who ends in the middle of one, who makes one too many, and
// who goes on while NCCL makes it.
#include "analyzer/model/verdict/check_catalogue.h"
#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model::testing {
namespace {

// Both have called it; one is killed in the middle, by another thread of its own say, and the other
// stays in.
TEST(Jobs, EndedInTheMiddleOfInit) {
  for (const bool ends : {true, false}) {
    JobModel model;
    for (ProcessId id : {1u, 2u}) {
      ProcessInfo info;
      info.process = id;
      model.OnProcessStarted(info);
      CallRecord init;
      init.process = id;
      init.thread = 1;
      init.kind = RecordKind::kBegin;
      init.call = Call::kCommInit;
      init.order = 1;
      const int rank = static_cast<int>(id) - 1;
      init.payload =
          ring::CommInitPayload{.comm = 1, .nranks = 2, .rank = rank, .device = rank, .uid = 5};
      model.OnRecord(init);
    }
    if (ends) model.OnProcessEnded(2, ExitKind::kCode, 8, 1'000'000);
    for (uint64_t number = 1; number <= 30; ++number) {
      Round round;
      round.round = number;
      round.begin_ns = number * 100'000'000;
      round.end_ns = round.begin_ns + 1000;
      for (ProcessId id : {1u, 2u}) {
        if (ends && id == 2) continue;
        ProcessState& state = round.processes.emplace_back();
        state.process = id;
        state.answered = true;
        ThreadState& thread = state.threads.emplace_back();
        thread.thread = 1;
        thread.tid = id;
        thread.call = Call::kCommInit;
        thread.call_id = 1;
        thread.call_order = 1;
        thread.entered = 1;
        thread.gpu_thread = true;
        thread.os_state = OsState::kSleeping;
      }
      model.OnRound(round);
    }
    const Verdict verdict = model.Current();
    if (ends) {
      ExpectVerdict(verdict,
                    {VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"});
    } else {
      EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy)
          << verdict.main.summary;  // all are there
    }
  }
}

// ncclCommGrow of {0, 1} by rank 2. Rank 0 knows the communicator by its id (5), as rank 2 does,
// and tells of the other name (6), by which rank 1 knows it. Whoever comes first, they wait for
// each other, and for nobody when all are there.
TEST(Jobs, MembersOfAGrownCommunicatorMeetUnderTwoNames) {
  constexpr int kRanks = 3;
  const std::vector<std::vector<int>> arrivals = {{1, 2, 0}, {0, 1, 2}, {2, 0, 1}, {2, 1, 0}};
  for (int missing = -1; missing < kRanks; ++missing) {
    for (const std::vector<int>& arrival : arrivals) {
      JobModel model;
      for (int rank = 0; rank < kRanks; ++rank) {
        ProcessInfo info;
        info.process = static_cast<ProcessId>(rank + 1);
        info.env_rank = rank;
        info.env_world_size = kRanks;
        model.OnProcessStarted(info);
      }
      const auto record = [](int rank, RecordKind kind, uint64_t order, CommUid uid) {
        CallRecord r;
        r.process = static_cast<ProcessId>(rank + 1);
        r.thread = 1;
        r.kind = kind;
        r.call = Call::kCommGrow;
        r.order = order;
        r.payload = ring::CommInitPayload{
            .comm = 2, .nranks = kRanks, .rank = rank, .device = rank, .uid = uid};
        return r;
      };
      for (const int rank : arrival) {
        if (rank == missing) continue;
        model.OnRecord(record(rank, RecordKind::kBegin, 1, rank == 1 ? 6 : 5));
        if (rank == 0) model.OnRecord(record(rank, RecordKind::kPoint, 2, 6));
      }
      if (missing >= 0) {  // it has called NCCL, and sleeps elsewhere
        CallRecord other = record(missing, RecordKind::kBegin, 1, 0);
        other.call = Call::kCommOther;
        model.OnRecord(other);
      }
      for (uint64_t number = 1; number <= 60; ++number) {
        Round round;
        round.round = number;
        round.begin_ns = number * 100'000'000;
        round.end_ns = round.begin_ns + 1000;
        for (int rank = 0; rank < kRanks; ++rank) {
          ProcessState& state = round.processes.emplace_back();
          state.process = static_cast<ProcessId>(rank + 1);
          state.answered = true;
          ThreadState& thread = state.threads.emplace_back();
          thread.thread = 1;
          thread.tid = static_cast<uint32_t>(rank + 1);
          thread.call = rank == missing ? Call::kOther : Call::kCommGrow;
          thread.call_id = rank == missing ? 0 : 1;
          thread.call_order = 1;
          thread.entered = 1;
          thread.left = rank == missing ? 1 : 0;
          thread.gpu_thread = true;
          thread.os_state = OsState::kSleeping;
        }
        model.OnRound(round);
      }
      const Verdict verdict = model.Current();
      if (missing < 0) {
        EXPECT_TRUE(AccusesNone(verdict)) << verdict.main.summary;
        continue;
      }
      // Without rank 0 nobody says that the two names mean one communicator; that they do not,
      // neither.
      EXPECT_EQ(verdict.main.verdict, VerdictKind::kInitHang)
          << missing << ": " << verdict.main.summary;
      EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{missing}) << verdict.main.summary;
    }
  }
}

// Who alone splits once more is the odd one, not those who go on to the next operation.
TEST(Jobs, OneSplitTooMany) {
  std::vector<SimComm> comms = Comms(1, 4);
  for (int split : {0, 1}) {
    SimComm child;
    child.members = {0, 1, 2, 3};
    child.parent = 0;
    child.split = split;
    comms.push_back(child);
  }
  const Program usual = {Init(0), AllReduce(0), Split(1), AllReduce(1), StreamSync()};
  const Program more = {Init(0), AllReduce(0), Split(1), Split(2), AllReduce(1), StreamSync()};
  ExpectHang(comms, {usual, more, usual, usual},
             {VerdictKind::kInitHang, Confidence::kConfirmed, {1}, "communicator-init-missing"});
  ExpectHealthy(comms, {more, more, more, more});
}

TEST(Jobs, AllAreInTheCallAndItDoesNotComeBack) {
  const Program usual = {Init(0), AllReduce(0), StreamSync()};
  const auto stuck = [](SimJob* job) { job->never_made = 0; };
  ExpectHang(Comms(1, 3), {usual, usual, usual},
             {VerdictKind::kInitHang, Confidence::kSuspected, {}, "communicator-init-stuck"}, 61,
             false, stuck);
  // A start may take long.
  SimJob job(Comms(1, 3), {usual, usual, usual});
  stuck(&job);
  JobModel model;
  job.Run();
  job.Feed(&model);
  job.Rounds(&model, 50, 0.5);
  EXPECT_EQ(model.Current().main.verdict, VerdictKind::kInitHang);
  EXPECT_TRUE(AccusesNone(model.Current())) << model.Current().main.summary;
  // Of two the one that is not made is named.
  const Program two = Inits(2) + Program{AllReduce(1), StreamSync()};
  SimJob second(Comms(2, 2), {two, two});
  second.never_made = 1;
  JobModel later;
  second.Run();
  second.Feed(&later);
  second.Rounds(&later, 61, 0.5);
  EXPECT_EQ(later.Current().main.summary,
            "Every member has called CommInitRank of B, and it does not come back; ranks 0 and 1 "
            "wait in it.");
}

// Rank 1 destroys while rank 0, which has finalized, waits for it elsewhere. Destroying waits for
// the other's end of the connections, which finalizing closes: measured on H100s.
TEST(Jobs, AFinalizedMemberHoldsUpNoDestroy) {
  const Program finalizes =
      Inits(2) + Program{AllReduce(0), StreamSync(), Finalize(0), AllReduce(1), StreamSync()};
  const Program destroys =
      Inits(2) + Program{AllReduce(0), StreamSync(), Destroy(0), AllReduce(1), StreamSync()};
  SimJob job(Comms(2, 2), {finalizes, destroys});
  job.slow_destroy_ns = 3'000'000'000;
  JobModel model;
  job.Run();
  for (int i = 0; i < 14; ++i) {
    job.Rounds(&model, 0.2, 0.1);
    EXPECT_TRUE(AccusesNone(model.Current())) << model.Current().main.summary;
  }
  EXPECT_FALSE(job.Unfinished().empty());
  job.Advance(1'000'000'000);
  job.Run();
  EXPECT_TRUE(job.Unfinished().empty());
  // With no more than its place in the order of calls to tell them apart, this is a circle.
  const Program other =
      Inits(2) + Program{AllReduce(0), StreamSync(), AllReduce(1), StreamSync(), Destroy(0)};
  ExpectHang(Comms(2, 2), {other, destroys},
             {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "communicator-call-order"},
             8);
}

// Finalizing waits for the rank's own work, and for no other rank.
TEST(Jobs, FinalizingWaitsForTheRanksWork) {
  const auto program = [](int first) {
    return Inits(2) +
           Program{AllReduce(first), Finalize(first), AllReduce(1 - first, 2), Finalize(1 - first)};
  };
  ExpectHang(Comms(2, 2), {program(0), program(1)}, Deadlock({0, 1}, "host-wait-cycle"));
  ExpectHealthy(Comms(2, 2), {program(0), program(0)});
  const Program opposite =
      Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync(), Finalize(1), Finalize(0)};
  ExpectHealthy(Comms(2, 2), {opposite, Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync(),
                                                           Finalize(0), Finalize(1)}});
}

std::vector<SimComm> NonBlocking(int count, int ranks) {
  std::vector<SimComm> comms = Comms(count, ranks);
  for (SimComm& comm : comms) comm.blocking = false;
  return comms;
}

// Not the thread waits but the communicator, and whoever asks whether it is ready.
TEST(Jobs, NonBlockingInitWithoutARank) {
  const Program comes = {Init(0), PollComm(0), AllReduce(0), StreamSync()};
  ExpectHang(NonBlocking(1, 3), {comes, comes, {Sleep()}},
             {VerdictKind::kInitHang, Confidence::kSuspected, {2}, "communicator-init-missing"}, 7);
  ExpectHealthy(NonBlocking(1, 3), {comes, comes, comes});
  // Who does not ask waits for nothing.
  const Program busy = {Init(0), Spin()};
  SimJob job(NonBlocking(1, 3), {busy, busy, {Spin()}});
  JobModel model;
  job.Run();
  job.Rounds(&model, 20, 0.5);
  EXPECT_TRUE(AccusesNone(model.Current())) << model.Current().main.summary;
}

// Rank 2 waits in an all-reduce for ranks that wait for rank 3: it is no culprit, nor are they.
TEST(Jobs, WhoWaitsBehindANonBlockingInit) {
  std::vector<SimComm> comms = NonBlocking(2, 4);
  comms[0].blocking = true;
  comms[1].members = {0, 1, 3};
  const Program asks = {Init(0), Init(1), PollComm(1), AllReduce(0), StreamSync()};
  const Program behind = {Init(0), AllReduce(0), StreamSync()};
  ExpectHang(comms, {asks, asks, behind, {Init(0), Sleep()}},
             {VerdictKind::kInitHang, Confidence::kSuspected, {3}, "communicator-init-missing"}, 7);
  ExpectHealthy(comms, {asks, asks, behind, asks});
}

TEST(Jobs, NonBlockingInitsInOppositeOrder) {
  const auto program = [](int first) {
    return Program{Init(first),         PollComm(first), Init(1 - first),
                   PollComm(1 - first), AllReduce(0),    AllReduce(1),
                   PollComm(0),         PollComm(1),     StreamSync()};
  };
  ExpectHang(NonBlocking(2, 2), {program(0), program(1)},
             {VerdictKind::kInitHang, Confidence::kSuspected, {0, 1}, "communicator-init-order"},
             7);
  ExpectHealthy(NonBlocking(2, 2), {program(0), program(0)});
}

// What NCCL has not launched yet a synchronise does not cover: nothing of it is a proof.
TEST(Jobs, AnOperationOfANonBlockingCommunicatorProvesNothing) {
  const auto program = [](int first) {
    return Program{Init(0),      PollComm(0),          Init(1),     PollComm(1), AllReduce(first),
                   StreamSync(), AllReduce(1 - first), StreamSync()};
  };
  ExpectHang(NonBlocking(2, 2), {program(0), program(1)},
             {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "host-wait-cycle"}, 7);
  ExpectHealthy(NonBlocking(2, 2), {program(0), program(0)});
}

// They connect at their first use, which is what those who ask wait for.
TEST(Jobs, NonBlockingFirstUsesInOppositeOrder) {
  const auto program = [](int first) {
    return Program{Init(0),
                   PollComm(0),
                   Init(1),
                   PollComm(1),
                   AllReduce(first, 1 + first),
                   PollComm(first),
                   AllReduce(1 - first, 2 - first),
                   PollComm(1 - first)};
  };
  ExpectHang(NonBlocking(2, 2), {program(0), program(1)},
             {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, "first-use-order-cycle"}, 7,
             /*cold=*/true);
  ExpectHealthy(NonBlocking(2, 2), {program(0), program(0)}, /*cold=*/true);
}

TEST(Jobs, NonBlockingFinalizeBehindARankThatDoesNotCome) {
  const Program usual = {Init(0),      PollComm(0), AllReduce(0), PollComm(0),
                         AllReduce(0), PollComm(0), Finalize(0),  PollComm(0)};
  const Program absent = {Init(0), PollComm(0), AllReduce(0), PollComm(0), Sleep()};
  ExpectHang(NonBlocking(1, 3), {usual, usual, absent},
             {VerdictKind::kHostBlocked, Confidence::kSuspected, {2}, "host-blocked"}, 7);
  ExpectHealthy(NonBlocking(1, 3), {usual, usual, usual});
}

// A child goes on with the rank of a process that has called: any of them may be the member that is
// missing.
TEST(Jobs, AProcessOfTheSameRankMayMakeTheCommunicator) {
  const std::vector<SimComm> comms = Comms(2, 2);
  const Program first = {Init(0), Init(1)}, second = {Init(1), Init(0)};
  for (const bool beside : {false, true}) {
    SimJob job(comms, {first, second});
    job.env = {{0, {0, 2}}, {1, {1, 2}}};
    JobModel model;
    job.Run();
    job.Feed(&model);
    if (beside) {
      ProcessInfo info;
      info.process = 0x7000;
      info.env_rank = 1;
      info.env_world_size = 2;
      model.OnProcessStarted(info);
    }
    for (int i = 0; i < 10; ++i) {
      job.Advance(100'000'000);
      Round round = job.MakeRound();
      if (beside) {
        ProcessState& state = round.processes.emplace_back();
        state.process = 0x7000;
        state.answered = true;
        ThreadState& thread = state.threads.emplace_back();
        thread.tid = 0x7000;
        thread.os_state = OsState::kSleeping;
        thread.sleep = ThreadSleep::kOutside;
      }
      model.OnRound(std::move(round));
    }
    EXPECT_EQ(model.Current().main.confidence == Confidence::kConfirmed &&
                  SaysTrouble(model.Current().main.verdict),
              !beside)
        << model.Current().main.summary;
  }
}

TEST(Evidence, WithoutCount) {
  EXPECT_EQ(WithoutCount("12 records of rank 0"), "records of rank 0");
  EXPECT_EQ(WithoutCount("1 record of rank 0"), "records of rank 0");
  EXPECT_EQ(WithoutCount("1 of 8 ranks"), "of 8 ranks");
  EXPECT_EQ(WithoutCount("records of rank 0 were lost"), "records of rank 0 were lost");
  EXPECT_EQ(WithoutCount("8"), "8");
}

// More communicators than the shim has room for: that is what is missing, not records.
TEST(Jobs, CommunicatorsWithoutRoomAreNotLostRecords) {
  const auto program = [](int first) {
    return Inits(2) + Program{AllReduce(first), StreamSync(), AllReduce(1 - first), StreamSync()};
  };
  SimJob job(Comms(2, 2), {program(0), program(1)});
  JobModel model;
  job.Run();
  job.Feed(&model);
  for (int i = 0; i < 80; ++i) {
    job.Advance(100'000'000);
    Round round = job.MakeRound();
    round.processes.front().lost_comms = 7;
    model.OnRound(std::move(round));
  }
  const Finding finding = model.Current().main;
  EXPECT_NE(finding.confidence, Confidence::kConfirmed);
  EXPECT_EQ(finding.evidence.records_lost, 0u);
  std::string all = finding.summary;
  int lines = 0;
  for (const std::string& text : finding.evidence.not_visible) {
    all += "; " + text;
    lines += text.find("communicators of rank 0") != std::string::npos;
  }
  EXPECT_EQ(lines, 1) << all;
  EXPECT_EQ(all.find("records of rank 0"), std::string::npos) << all;
  EXPECT_NE(all.find("7 communicators of rank 0 found no room in gordian's table"),
            std::string::npos)
      << all;
}

}  // namespace
}  // namespace gordian::model::testing
