// W16: ncclWaitSignal, and who sends what it waits for.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

constexpr char kCircle[] = "signal-order-cycle";
constexpr double kLong = 6;  // until a suspicion

Want Suspected(std::vector<int> culprits, VerdictKind verdict, const char* check) {
  return {verdict, Confidence::kSuspected, std::move(culprits), check};
}

bool Assumes(const Finding& finding, const std::string& text) {
  return std::any_of(finding.evidence.assumes.begin(), finding.evidence.assumes.end(),
                     [&](const std::string& one) { return one.find(text) != std::string::npos; });
}

Verdict After(SimJob* job, double seconds = 0.7) {
  JobModel model;
  job->Run();
  job->Rounds(&model, seconds);
  return model.Current();
}

TEST(SignalWaits, BothWaitBeforeTheySignal) {
  const auto program = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), Signal(0, peer), StreamSync()};
  };
  ExpectHang(Comms(1, 2), {program(1), program(0)},
             Suspected({0, 1}, VerdictKind::kDeadlock, kCircle), kLong);
  const Program first = Inits(1) + Program{Signal(0, 1), WaitSignal(0, 1), StreamSync()};
  ExpectHealthy(Comms(1, 2), {first, program(0)});
}

// Without a circle of streams: the host of each sits in front of its signal.
TEST(SignalWaits, BothHostsWaitBeforeTheySignal) {
  const auto program = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), StreamSync(), Signal(0, peer, 2), StreamSync(2)};
  };
  ExpectHang(Comms(1, 2), {program(1), program(0)},
             Suspected({0, 1}, VerdictKind::kDeadlock, kCircle), kLong);
}

TEST(SignalWaits, ASignalBehindACollectiveThatTheWaitHoldsUp) {
  const Program waits = Inits(1) + Program{WaitSignal(0, 1), AllReduce(0), StreamSync()};
  const Program signals = Inits(1) + Program{AllReduce(0), Signal(0, 0), StreamSync()};
  ExpectHang(Comms(1, 2), {waits, signals}, Suspected({0, 1}, VerdictKind::kDeadlock, kCircle),
             kLong);
  // On a stream of its own it passes.
  ExpectHealthy(Comms(1, 2),
                {waits, Inits(1) + Program{AllReduce(0), Signal(0, 0, 2), StreamSync()}});
}

TEST(SignalWaits, CountsDecide) {
  const auto signals = [](int count) {
    Program p = Inits(1);
    for (int i = 0; i < count; ++i) p.push_back(Signal(0, 0));
    return p + Program{AllReduce(0), StreamSync()};
  };
  const Program waits = Inits(1) + Program{WaitSignal(0, 1, 1, 3), AllReduce(0), StreamSync()};
  ExpectHang(Comms(1, 2), {waits, signals(2)}, Suspected({0, 1}, VerdictKind::kDeadlock, kCircle),
             kLong);
  ExpectHealthy(Comms(1, 2), {waits, signals(3)});
  // Signals that stand there before anybody waits count.
  ExpectHealthy(Comms(1, 2), {waits, signals(5)});
}

// nccl.h reads as if a wait used up what it waited for; nobody has measured it.
TEST(SignalWaits, ThatAWaitUsesUpItsSignalsIsAssumed) {
  const Program waits =
      Inits(1) + Program{WaitSignal(0, 1), WaitSignal(0, 1), AllReduce(0), StreamSync()};
  const Program signals = Inits(1) + Program{Signal(0, 0), AllReduce(0), StreamSync()};
  ExpectHang(Comms(1, 2), {waits, signals}, Suspected({0, 1}, VerdictKind::kDeadlock, kCircle),
             kLong);
  SimJob job(Comms(1, 2), {waits, signals});
  EXPECT_TRUE(Assumes(After(&job, 20).main, "uses up the signals"));
  ExpectHealthy(Comms(1, 2), {waits, Inits(1) + Program{Signal(0, 0), Signal(0, 0), AllReduce(0),
                                                        StreamSync()}});
}

// Rank 1's host waits for what stands on two streams, one of which can move by that assumption.
TEST(SignalWaits, OfTwoCirclesTheOneWithFewerAssumptionsIsTold) {
  const Program waits = Inits(1) + Program{WaitSignal(0, 1), AllReduce(0), StreamSync()};
  const Program signals = Inits(1) + Program{WaitSignal(0, 2, 1), WaitSignal(0, 2, 1),
                                             AllReduce(0, 2), Signal(0, 0, 2), DeviceSync()};
  const Program third = Inits(1) + Program{Signal(0, 1), AllReduce(0), Signal(0, 1), StreamSync()};
  ExpectHang(Comms(1, 3), {waits, signals, third},
             Suspected({0, 1}, VerdictKind::kDeadlock, kCircle), kLong);
  SimJob job(Comms(1, 3), {waits, signals, third});
  const Finding finding = After(&job, kLong).main;
  EXPECT_FALSE(Assumes(finding, "uses up the signals"));
  EXPECT_EQ(finding.victim_ranks, std::vector<int>{2});
  ExpectHealthy(Comms(1, 3),
                {Inits(1) + Program{AllReduce(0), WaitSignal(0, 1), StreamSync()}, signals, third});
}

TEST(SignalWaits, NameWhatTheyAssume) {
  const auto program = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), Signal(0, peer), StreamSync()};
  };
  SimJob job(Comms(1, 2), {program(1), program(0)});
  const Finding finding = After(&job, kLong).main;
  EXPECT_EQ(finding.confidence, Confidence::kSuspected);
  EXPECT_TRUE(Assumes(finding, "no kernel sends rank 0 the signals that it waits for"));
  ASSERT_FALSE(finding.operations.empty());
  EXPECT_EQ(finding.operations.front().op, "WaitSignal");
  EXPECT_NE(finding.summary.find("WaitSignal from 1 on A"), std::string::npos) << finding.summary;
  EXPECT_NE(finding.summary.find("signal #1 to 1 on A"), std::string::npos) << finding.summary;
}

// The peer sleeps in code of its own, and may send it yet.
TEST(SignalWaits, APeerThatRunsIsNoDeadlock) {
  const Program waits = Inits(1) + Program{WaitSignal(0, 1), StreamSync()};
  SimJob job(Comms(1, 2), {waits, Inits(1) + Program{Sleep()}});
  const Finding finding = After(&job, 20).main;
  EXPECT_EQ(finding.confidence, Confidence::kSuspected);
  EXPECT_EQ(finding.check, "host-blocked") << finding.summary;
  EXPECT_EQ(finding.culprit_ranks, std::vector<int>{1});
}

TEST(SignalWaits, APeerThatHasEndedIsNamed) {
  const Program waits = Inits(1) + Program{WaitSignal(0, 1), StreamSync()};
  ExpectHang(Comms(1, 2), {waits, Inits(1) + Program{Exit(0)}},
             {VerdictKind::kRankExited, Confidence::kConfirmed, {1}, "rank-exited"}, 3);
}

// On several streams any of them may be the one that comes.
TEST(SignalWaits, ASignalOnAnotherStreamMayDo) {
  const Program waits = Inits(2) + Program{WaitSignal(0, 1), AllReduce(0), StreamSync()};
  const Program signals =
      Inits(2) + Program{AllReduce(0), Signal(0, 0), Signal(0, 0, 2), StreamSync()};
  ExpectHealthy(Comms(2, 2), {waits, signals});
}

// Two waits on streams that nothing orders: either may take the one signal.
TEST(SignalWaits, WhichOfTwoWaitsTakesASignalIsNotKnown) {
  const Program waits = Inits(1) + Program{AllReduce(0, 1), WaitSignal(0, 1, 1),
                                           WaitSignal(0, 1, 2), StreamSync(2), StreamSync(1)};
  const Program signals =
      Inits(1) + Program{Signal(0, 0, 2), StreamSync(2), AllReduce(0), Signal(0, 0), StreamSync()};
  ExpectHealthy(Comms(1, 2), {waits, signals});
}

// Records that are lost may be those of signals.
TEST(SignalWaits, LostRecordsProveNothing) {
  const auto program = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), Signal(0, peer), StreamSync()};
  };
  SimJob job(Comms(1, 2), {program(1), program(0)});
  JobModel model;
  job.Run();
  job.Feed(&model);
  for (int i = 0; i < 100; ++i) {
    Round round = job.MakeRound();
    for (ProcessState& state : round.processes) state.lost_records = 1;
    model.OnRound(round);
    job.Advance(100'000'000);
  }
  EXPECT_NE(model.Current().main.verdict, VerdictKind::kDeadlock) << model.Current().main.summary;
}

// Of kernels and events alone: every signal is there. A suspicion all the same.
TEST(SignalWaits, LostKernelsLeaveSignalsCounted) {
  const auto program = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), Signal(0, peer), StreamSync()};
  };
  SimJob job(Comms(1, 2), {program(1), program(0)});
  JobModel model;
  job.Run();
  job.Feed(&model);
  for (int i = 0; i < 100; ++i) {
    Round round = job.MakeRound();
    job.TellState(&round, {{1, 3}, {2, 3}});
    for (ProcessState& state : round.processes) {
      auto block = std::make_shared<StateBlock>(*state.block);
      block->only_work_lost = true;
      state.block = block;
    }
    model.OnRound(round);
    job.Advance(100'000'000);
  }
  const Finding finding = model.Current().main;
  EXPECT_EQ(finding.check, kCircle) << finding.summary;
  EXPECT_EQ(finding.confidence, Confidence::kSuspected);
}

// Records as they come from groups and captures, which SimJob does not make for signals.
class SignalRecords : public ::testing::Test {
 protected:
  CallRecord Make(ProcessId process, RecordKind kind, Call call) {
    CallRecord r;
    r.process = process;
    r.thread = 1;
    r.kind = kind;
    r.call = call;
    r.call_id = 7;
    r.order = ++order_[process];
    r.time_ns = now_ += 1000;
    r.call_site = 0x1000 + r.order;
    return r;
  }
  void Comm(ProcessId process) {
    ProcessInfo info;
    info.process = process;
    info.pid = 100 + process;
    model_.OnProcessStarted(info);
    CallRecord r = Make(process, RecordKind::kBegin, Call::kCommInit);
    r.payload = ring::CommInitPayload{
        .comm = 1, .nranks = 2, .rank = static_cast<int>(process) - 1, .uid = 5};
    model_.OnRecord(r);
    CallRecord end = Make(process, RecordKind::kEnd, Call::kCommInit);
    end.payload = ring::EndPayload{
        .comm = 1, .nranks = 2, .rank = static_cast<int>(process) - 1, .device = -1};
    model_.OnRecord(end);
  }
  CallRecord Signal(ProcessId process, RecordKind kind, Call call, uint8_t flags = 0) {
    CallRecord r = Make(process, kind, call);
    r.flags = flags;
    if (kind == RecordKind::kEnd) return r;
    r.payload = ring::SignalPayload{.comm = 1,
                                    .stream = 1,
                                    .peer = process == 1 ? 1 : 0,
                                    .count = 1,
                                    .group = (flags & kInGroup) != 0 ? 1u : 0u};
    return r;
  }
  void Call_(ProcessId process, Call call, uint64_t ordinal, uint8_t flags = 0) {
    model_.OnRecord(Signal(process, RecordKind::kBegin, call, flags));
    CallRecord end = Signal(process, RecordKind::kEnd, call, flags);
    if (flags == 0) {
      enqueued_[process] = ordinal;
      end.payload = ring::EndPayload{.stream = 1, .ordinal = ordinal};
    }
    model_.OnRecord(end);
  }
  void GroupEnd(ProcessId process, uint64_t ordinal, int32_t result = 0) {
    CallRecord begin = Make(process, RecordKind::kBegin, Call::kGroupEnd);
    begin.payload = ring::GroupPayload{.group = 1};
    model_.OnRecord(begin);
    if (result == 0) {
      CallRecord placed = Make(process, RecordKind::kEnqueue, Call::kGroupEnd);
      placed.payload =
          ring::EnqueuePayload{.group = 1, .stream = 1, .ordinal = enqueued_[process] = ordinal};
      model_.OnRecord(placed);
    }
    CallRecord end = Make(process, RecordKind::kEnd, Call::kGroupEnd);
    end.payload = ring::EndPayload{.result = result};
    model_.OnRecord(end);
  }
  void Sync(ProcessId process) {
    CallRecord r = Make(process, RecordKind::kBegin, Call::kHostWait);
    r.payload = ring::HostWaitPayload{
        .kind = WaitKind::kStream, .stream = 1, .ordinal = enqueued_[process]};
    model_.OnRecord(r);
    in_[process] = r.order;
  }
  const Finding& Judge(double seconds = 1) {
    for (double t = 0; t < seconds; t += 0.1) {
      Round round;
      round.round = ++round_;
      round.begin_ns = now_ += 100'000'000;
      round.end_ns = now_ += 1'000'000;
      for (const auto& [process, order] : order_) {
        ProcessState state;
        state.process = process;
        state.answered = true;
        ThreadState thread;
        thread.thread = 1;
        thread.tid = 100 + process;
        thread.gpu_thread = true;
        thread.os_state = OsState::kSleeping;
        thread.published = thread.collected = order;
        if (in_.contains(process)) {
          thread.call = Call::kHostWait;
          thread.call_id = 7;
          thread.call_order = in_[process];
        }
        state.threads = {thread};
        state.streams = {{1, enqueued_[process], 0, done_[process]}};
        round.processes.push_back(state);
      }
      model_.OnRound(round);
    }
    verdict_ = model_.Current();
    return verdict_.main;
  }

  JobModel model_;
  Verdict verdict_;
  std::map<ProcessId, uint64_t> order_, enqueued_, done_, in_;
  uint64_t now_ = 1'000'000'000, round_ = 0;
};

// The first of both groups starts before anything in them is waited for: no order within a group is
// taken for granted.
TEST_F(SignalRecords, NothingInOneGroupIsInFrontOfTheRest) {
  for (const ProcessId p : {1, 2}) {
    Comm(p);
    Call_(p, Call::kWaitSignal, 0, kInGroup);
    Call_(p, Call::kSignal, 0, kInGroup);
    GroupEnd(p, 1);
    Sync(p);
  }
  EXPECT_NE(Judge(kLong).verdict, VerdictKind::kDeadlock) << verdict_.main.summary;
}

TEST_F(SignalRecords, AGroupStandsBehindWhatIsInFrontOfIt) {
  for (const ProcessId p : {1, 2}) {
    Comm(p);
    Call_(p, Call::kWaitSignal, 1);
    Call_(p, Call::kPutSignal, 0, kInGroup);
    GroupEnd(p, 2);
    Sync(p);
  }
  EXPECT_EQ(Judge(kLong).check, kCircle) << verdict_.main.summary;
  EXPECT_EQ(verdict_.main.confidence, Confidence::kSuspected);
}

// A thread that waits inside an open group sends nothing of it.
TEST_F(SignalRecords, AnOpenGroupSendsNothing) {
  for (const ProcessId p : {1, 2}) {
    Comm(p);
    Call_(p, Call::kWaitSignal, 1);
    Call_(p, Call::kSignal, 0, kInGroup);
    Sync(p);
  }
  EXPECT_EQ(Judge(kLong).check, kCircle) << verdict_.main.summary;
}

// A group that failed, and a call that did, have sent nothing.
TEST_F(SignalRecords, WhatWasRefusedSendsNothing) {
  Comm(1);
  Comm(2);
  Call_(1, Call::kWaitSignal, 1);
  Call_(1, Call::kSignal, 2);
  Sync(1);
  Call_(2, Call::kSignal, 0, kInGroup);
  GroupEnd(2, 0, /*result=*/5);
  model_.OnRecord(Signal(2, RecordKind::kBegin, Call::kSignal));
  CallRecord end = Signal(2, RecordKind::kEnd, Call::kSignal);
  end.payload = ring::EndPayload{.result = 4};
  model_.OnRecord(end);
  Call_(2, Call::kWaitSignal, 1);
  Sync(2);
  EXPECT_EQ(Judge(kLong).check, kCircle) << verdict_.main.summary;
}

TEST_F(SignalRecords, AllOfSeveralDescriptorsAreWaitedFor) {
  Comm(1);
  Comm(2);
  model_.OnRecord(Signal(1, RecordKind::kBegin, Call::kWaitSignal));
  CallRecord further = Signal(1, RecordKind::kPoint, Call::kWaitSignal);
  std::get<ring::SignalPayload>(further.payload).index = 3;
  model_.OnRecord(further);
  CallRecord end = Signal(1, RecordKind::kEnd, Call::kWaitSignal);
  end.payload = ring::EndPayload{.stream = 1, .ordinal = enqueued_[1] = 1};
  model_.OnRecord(end);
  Call_(1, Call::kSignal, 2);
  Sync(1);
  Call_(2, Call::kSignal, 1);  // of index 0 only
  Call_(2, Call::kWaitSignal, 2);
  Sync(2);
  done_[2] = 1;
  EXPECT_EQ(Judge(kLong).check, kCircle) << verdict_.main.summary;
}

TEST_F(SignalRecords, SignalsOfGraphsAreNotCounted) {
  for (const ProcessId p : {1, 2}) {
    Comm(p);
    if (p == 1) Call_(p, Call::kSignal, 0, kCapturing);
    Call_(p, Call::kWaitSignal, 1);
    Call_(p, Call::kSignal, 2);
    Sync(p);
  }
  EXPECT_EQ(Judge(20).verdict, VerdictKind::kInconclusive) << verdict_.main.summary;
}

TEST_F(SignalRecords, DoneOnesCount) {
  Comm(1);
  Comm(2);
  Call_(2, Call::kSignal, 1);
  done_[2] = 1;
  Judge(0.2);
  Call_(1, Call::kWaitSignal, 1);
  Call_(1, Call::kSignal, 2);
  Sync(1);
  Call_(2, Call::kWaitSignal, 2);
  Sync(2);
  EXPECT_EQ(Judge().verdict, VerdictKind::kHealthy) << verdict_.main.summary;
}

}  // namespace
}  // namespace gordian::model
