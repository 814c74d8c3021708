// Calls that make communicators: who ends in the middle of one, and who makes one too many.
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

}  // namespace
}  // namespace gordian::model::testing
