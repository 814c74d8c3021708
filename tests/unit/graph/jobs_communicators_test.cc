// Calls that make communicators: who ends in the middle of one, and who makes one too many.
#include "tests/unit/graph/jobs_harness.h"

namespace gordian::graph::testing {
namespace {

// Both have called it; one is killed in the middle, by another thread of its own say, and the other stays in.
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
      init.comm = 1;
      init.uid = 5;
      init.nranks = 2;
      init.rank = static_cast<int>(id) - 1;
      init.device = init.rank;
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
      ExpectVerdict(verdict, {VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"});
    } else {
      EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;  // all are there
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

}  // namespace
}  // namespace gordian::graph::testing
