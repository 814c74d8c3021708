// What is said of a job whose records are lost, from its processes' own accounts.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

constexpr uint64_t kAll = 1000;

using Change = std::function<void(StateBlock*)>;

void ChangeBlocks(Round* round, const Change& change) {
  for (ProcessState& state : round->processes) {
    if (!change || state.block == nullptr) continue;
    auto copy = std::make_shared<StateBlock>(*state.block);
    change(copy.get());
    state.block = std::move(copy);
  }
}

// No record at all of any process; what is said after more than suspect_after. `change`: of what
// the blocks say.
Verdict WithoutRecords(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
                       bool cold = false, const Change& change = {}) {
  SimJob job(comms, programs, cold);
  JobModel model;
  std::map<ProcessId, uint64_t> lost;
  for (size_t p = 0; p < programs.size(); ++p) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(p + 1);
    info.env_rank = static_cast<int>(p);
    info.env_world_size = static_cast<int>(programs.size());
    info.runtime_connect = cold;
    model.OnProcessStarted(info);
    lost[info.process] = kAll;
  }
  while (job.Step()) {
    Round round = job.MakeRound();
    job.TellState(&round, lost);
    ChangeBlocks(&round, change);
    model.OnRound(round);
  }
  for (int r = 0; r < 20; ++r) {
    job.Advance(400'000'000);
    Round round = job.MakeRound();
    job.TellState(&round, lost);
    ChangeBlocks(&round, change);
    model.OnRound(round);
  }
  return model.Current();
}

void ExpectFound(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
                 const char* check, bool cold = false) {
  const Verdict verdict = WithoutRecords(comms, programs, cold);
  ExpectVerdict(verdict, {VerdictKind::kDeadlock, Confidence::kSuspected, {0, 1}, check});
  EXPECT_GE(verdict.main.cycle.size(), 2u);
  const auto& unseen = verdict.main.evidence.not_visible;
  EXPECT_EQ(std::count_if(unseen.begin(), unseen.end(),
                          [](const std::string& text) {
                            return text.find("record") != std::string::npos &&
                                   text.find("of rank 0") != std::string::npos;
                          }),
            1);
}

// The same with a job that ends: a suspicion of anything would be a false alarm.
void ExpectNothing(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
                   bool cold = false) {
  const Verdict verdict = WithoutRecords(comms, programs, cold);
  // The job has ended long ago, and its end is not known here.
  EXPECT_EQ(verdict.main.check, "no-progress") << verdict.main.summary;
  EXPECT_TRUE(verdict.findings.empty());
}

TEST(StateMerge, OrderOnAStream) {
  const Program forth = Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()};
  const Program back = Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()};
  ExpectFound(Comms(2, 2), {forth, back}, "communicator-order-cycle");
  ExpectNothing(Comms(2, 2), {forth, forth});
}

TEST(StateMerge, HostWaits) {
  for (const Op& wait : {DeviceSync(), StreamSync(1), Copy(1)}) {
    const Program forth = Inits(2) + Program{AllReduce(0, 1), wait, AllReduce(1, 1), DeviceSync()};
    const Program back = Inits(2) + Program{AllReduce(1, 1), wait, AllReduce(0, 1), DeviceSync()};
    ExpectFound(Comms(2, 2), {forth, back}, "host-wait-cycle");
    ExpectNothing(Comms(2, 2), {forth, forth});
  }
}

TEST(StateMerge, EventsBetweenStreams) {
  const Program forth = Inits(2) + Program{AllReduce(0, 1), Record(1, 1), WaitEvent(1, 2),
                                           AllReduce(1, 2), DeviceSync()};
  const Program back = Inits(2) + Program{AllReduce(1, 2), Record(1, 2), WaitEvent(1, 1),
                                          AllReduce(0, 1), DeviceSync()};
  const Program free = Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()};
  ExpectFound(Comms(2, 2), {forth, back}, "event-cycle");
  ExpectNothing(Comms(2, 2), {forth, forth});
  ExpectNothing(Comms(2, 2),
                {free, Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()}});
}

// A wait on a stream that runs kernels only, in between.
TEST(StateMerge, EventsByWayOfAThirdStream) {
  const auto program = [](int first, int second) {
    return Inits(2) +
           Program{AllReduce(first, 1), Record(1, 1),    WaitEvent(1, 3),      Kernel(3),
                   Record(2, 3),        WaitEvent(2, 2), AllReduce(second, 2), DeviceSync()};
  };
  ExpectFound(Comms(2, 2), {program(0, 1), program(1, 0)}, "event-cycle");
  ExpectNothing(Comms(2, 2), {program(0, 1), program(0, 1)});
}

TEST(StateMerge, ReceiveAgainstAllReduce) {
  const Program receives = Inits(2) + Program{Recv(1, 1), AllReduce(0), StreamSync()};
  const Program sends_late = Inits(2) + Program{AllReduce(0), Send(1, 0), StreamSync()};
  const Program sends = Inits(2) + Program{Send(1, 0), AllReduce(0), StreamSync()};
  ExpectFound(Comms(2, 2), {receives, sends_late}, "point-to-point-order-cycle");
  ExpectNothing(Comms(2, 2), {receives, sends});
}

// W16. Each waits for the other before it signals; the second time around too, with numbers that
// have grown.
TEST(StateMerge, SignalsBothWaitFirst) {
  const auto program = [](int peer, bool waits_first) {
    Program p = Inits(1);
    for (int i = 0; i < 3; ++i)
      p = p + Program{Signal(0, peer), WaitSignal(0, peer), AllReduce(0), StreamSync()};
    return p +
           (waits_first ? Program{WaitSignal(0, peer, 1, 2), Signal(0, peer)}
                        : Program{Signal(0, peer), Signal(0, peer), WaitSignal(0, peer)}) +
           Program{StreamSync()};
  };
  ExpectFound(Comms(1, 2), {program(1, true), program(0, true)}, "signal-order-cycle");
  ExpectNothing(Comms(1, 2), {program(1, true), program(0, false)});
}

TEST(StateMerge, SignalsBehindACollective) {
  const Program waits = Inits(1) + Program{WaitSignal(0, 1), AllReduce(0), StreamSync()};
  const Program signals = Inits(1) + Program{AllReduce(0), Signal(0, 0), StreamSync()};
  const Program apart = Inits(1) + Program{AllReduce(0), Signal(0, 0, 2), StreamSync()};
  ExpectFound(Comms(1, 2), {waits, signals}, "signal-order-cycle");
  ExpectNothing(Comms(1, 2), {waits, apart});
}

// What the host waits for is a wait for signals, or stands behind one by way of an event.
TEST(StateMerge, HostsBehindSignals) {
  const auto host = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), DeviceSync(), Signal(0, peer), DeviceSync()};
  };
  const Program first = Inits(1) + Program{Signal(0, 1), WaitSignal(0, 1), DeviceSync()};
  ExpectFound(Comms(1, 2), {host(1), host(0)}, "signal-order-cycle");
  ExpectNothing(Comms(1, 2), {first, host(0)});
  const auto event = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), Record(1, 1), WaitEvent(1, 2),
                              Signal(0, peer, 2), DeviceSync()};
  };
  ExpectFound(Comms(1, 2), {event(1), event(0)}, "signal-order-cycle");
  ExpectNothing(Comms(1, 2), {first, event(0)});
}

// One signal too few: the peer has called all that it will.
TEST(StateMerge, SignalsThatAreTooFew) {
  const auto signals = [](int count) {
    Program p = Inits(1);
    for (int i = 0; i < count; ++i) p.push_back(Signal(0, 0, 1 + i % 2));
    return p + Program{AllReduce(0), StreamSync()};
  };
  const Program waits = Inits(1) + Program{WaitSignal(0, 1, 1, 3), AllReduce(0), StreamSync()};
  ExpectFound(Comms(1, 2), {waits, signals(2)}, "signal-order-cycle");
  ExpectNothing(Comms(1, 2), {waits, signals(3)});
}

// A block that does not tell all of them proves nothing by them.
TEST(StateMerge, SignalsThatMayBeMissing) {
  const auto program = [](int peer) {
    return Inits(1) + Program{WaitSignal(0, peer), Signal(0, peer), StreamSync()};
  };
  const std::vector<Program> programs = {program(1), program(0)};
  EXPECT_EQ(WithoutRecords(Comms(1, 2), programs).main.verdict, VerdictKind::kDeadlock);
  const std::vector<Change> changes = {[](StateBlock* block) { block->signals = false; },
                                       [](StateBlock* block) { block->numbers_incomplete = true; },
                                       [](StateBlock* block) {
                                         for (PendingStream& stream : block->streams)
                                           stream.gap_last = stream.enqueued;
                                       },
                                       [](StateBlock* block) {
                                         for (PendingStream& stream : block->streams)
                                           stream.whole = false;
                                       },
                                       [](StateBlock* block) {
                                         for (PendingStream& stream : block->streams) {
                                           for (PendingOperation& operation : stream.pending)
                                             operation.channel_known = false;
                                         }
                                       },
                                       [](StateBlock* block) {
                                         for (CalledNumbers& numbers : block->numbers)
                                           numbers.captured = true;
                                       }};
  for (size_t i = 0; i < changes.size(); ++i) {
    const Finding finding = WithoutRecords(Comms(1, 2), programs, false, changes[i]).main;
    EXPECT_STREQ(Name(finding.verdict), "inconclusive") << i << ": " << finding.summary;
  }
}

TEST(StateMerge, FirstUse) {
  const Program forth = Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()};
  const Program back = Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()};
  ExpectFound(Comms(2, 2), {forth, back}, "first-use-order-cycle", /*cold=*/true);
  ExpectNothing(Comms(2, 2), {forth, forth}, /*cold=*/true);
}

TEST(StateMerge, GroupsStandTogether) {
  const Program forth = Inits(2) + Program{GroupStart(), AllReduce(0, 1), AllReduce(0, 2),
                                           GroupEnd(),   AllReduce(1, 2), DeviceSync()};
  const Program back = Inits(2) + Program{AllReduce(1, 2), GroupStart(), AllReduce(0, 1),
                                          AllReduce(0, 2), GroupEnd(),   DeviceSync()};
  ExpectFound(Comms(2, 2), {forth, back}, "communicator-order-cycle");
  ExpectNothing(Comms(2, 2), {forth, forth});
}

// Whichever record is lost: of groups those that are left, and the account, are one story.
TEST(StateMerge, GroupsThatLoseOneRecord) {
  const Program groups =
      Inits(2) + Program{GroupStart(),    AllReduce(0, 1), Send(0, 1, 2), GroupEnd(),  GroupStart(),
                         AllReduce(0, 1), AllReduce(1, 2), GroupEnd(),    DeviceSync()};
  const Program single = Inits(2) + Program{AllReduce(0, 1), Recv(0, 0, 2), AllReduce(0, 1),
                                            AllReduce(1, 2), DeviceSync()};
  const std::vector<Program> programs = {groups, single};
  size_t records = 0;
  {
    SimJob job(Comms(2, 2), programs);
    job.Run();
    ASSERT_TRUE(job.Unfinished().empty());
    records = job.log.size();
  }
  for (size_t gone = 0; gone < records; ++gone) {
    SCOPED_TRACE("record " + std::to_string(gone));
    SimJob job(Comms(2, 2), programs);
    JobModel model;
    std::map<ProcessId, uint64_t> lost;
    for (ProcessId process : {1u, 2u}) {
      ProcessInfo info;
      info.process = process;
      info.env_rank = static_cast<int>(process) - 1;
      info.env_world_size = 2;
      model.OnProcessStarted(info);
    }
    size_t fed = 0;
    for (bool moves = true; moves;) {
      moves = job.Step();
      for (; fed < job.log.size(); ++fed) {
        if (fed == gone) {
          lost[job.log[fed].process] = 1;
        } else {
          model.OnRecord(job.log[fed]);
        }
      }
      for (int r = 0; r < 3; ++r) {
        job.Advance(2'000'000'000);
        Round round = job.MakeRound();
        job.TellState(&round, lost);
        model.OnRound(round);
        const Finding& main = model.Current().main;
        EXPECT_NE(main.verdict, VerdictKind::kDeadlock) << main.summary;
        EXPECT_NE(main.verdict, VerdictKind::kMismatch) << main.summary;
      }
    }
    EXPECT_EQ(model.Current().main.check, "no-progress") << model.Current().main.summary;
  }
}

TEST(StateMerge, WhoHasNotSent) {
  const Program receives = Inits(1) + Program{Recv(0, 1), Recv(0, 1), StreamSync()};
  const Verdict verdict = WithoutRecords(
      Comms(1, 2), {receives, Inits(1) + Program{Send(0, 0), StreamSync(), Sleep()}});
  EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{1}) << verdict.main.summary;
  EXPECT_TRUE(verdict.main.verdict == VerdictKind::kHostBlocked ||
              verdict.main.verdict == VerdictKind::kRankNotJoined)
      << verdict.main.summary;
  ExpectNothing(Comms(1, 2),
                {receives, Inits(1) + Program{Send(0, 0), Send(0, 0), StreamSync(), Sleep()}});
}

// Silent, and as far back as `behind` operations.
Verdict Mismatched(int behind) {
  Program usual = Inits(1), odd = Inits(1);
  usual.push_back(AllReduce(0, 1, 8));
  odd.push_back(AllReduce(0, 1, 9));
  for (int i = 0; i < behind; ++i) {
    usual.push_back(AllReduce(0));
    odd.push_back(AllReduce(0));
  }
  for (Program* program : {&usual, &odd}) {
    program->push_back(StreamSync());
    program->push_back(Sleep());
  }
  SimJob job(Comms(1, 3), {usual, usual, odd});
  JobModel model;
  job.Run();
  std::map<ProcessId, uint64_t> lost = {{1, kAll}, {2, kAll}, {3, kAll}};
  for (int p = 0; p < 3; ++p) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(p + 1);
    info.env_rank = p;
    info.env_world_size = 3;
    model.OnProcessStarted(info);
  }
  for (int r = 0; r < 3; ++r) {
    job.Advance(400'000'000);
    Round round = job.MakeRound();
    job.TellState(&round, lost);
    model.OnRound(round);
  }
  return model.Current();
}

TEST(StateMerge, AMismatchIsLocatedWithinSixteenOperations) {
  ExpectVerdict(Mismatched(5),
                {VerdictKind::kMismatch, Confidence::kConfirmed, {2}, "mismatch-count"});
  EXPECT_NE(Mismatched(5).main.summary.find("#0"), std::string::npos);
  ExpectVerdict(Mismatched(30),
                {VerdictKind::kMismatch, Confidence::kConfirmed, {2}, "mismatch-unlocated"});
}

// A root is done without the others: it may have ended well while they wait for something else in
// front of its broadcast.
TEST(StateMerge, WhoEndedAfterTakingPart) {
  for (const bool took_part : {true, false}) {
    const Program waits = Inits(1) + Program{Recv(0, 2), Bcast(0, 1), StreamSync()};
    const Program other = Inits(1) + Program{Bcast(0, 1), StreamSync(), Sleep()};
    Program leaves = Inits(1);
    if (took_part) leaves = leaves + Program{Bcast(0, 1), StreamSync()};
    leaves.push_back(Exit(0));
    SimJob job(Comms(1, 3), {waits, leaves, other});
    job.Run();
    JobModel model;
    for (int p = 0; p < 3; ++p) {
      ProcessInfo info;
      info.process = static_cast<ProcessId>(p + 1);
      info.env_rank = p;
      info.env_world_size = 3;
      model.OnProcessStarted(info);
    }
    for (const CallRecord& record : job.log) {
      if (record.process != 2) model.OnRecord(record);
    }
    model.OnFinalBlock(2, job.MakeBlock(1));
    model.OnFinalCounts(2, kAll, 4);
    model.OnProcessEnded(2, ExitKind::kCode, 0, job.now());
    for (int r = 0; r < 30; ++r) {
      job.Advance(400'000'000);
      model.OnRound(job.MakeRound());
    }
    const Verdict verdict = model.Current();
    std::vector<Finding> findings = verdict.findings;
    findings.push_back(verdict.main);
    const bool blamed = std::any_of(findings.begin(), findings.end(), [](const Finding& f) {
      return f.culprit_ranks == std::vector<int>{1};
    });
    EXPECT_EQ(blamed, !took_part) << verdict.main.summary;
    EXPECT_EQ(verdict.main.culprit_ranks, std::vector<int>{took_part ? 2 : 1})
        << verdict.main.summary;
  }
}

// What left no trace in the state block either makes it worth nothing.
TEST(StateMerge, ABlindBlockSaysNothing) {
  SimJob job(Comms(2, 2), {Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()},
                           Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()}});
  job.Run();
  JobModel model;
  for (int r = 0; r < 20; ++r) {
    job.Advance(400'000'000);
    Round round = job.MakeRound();
    job.TellState(&round, {{1, kAll}, {2, kAll}});
    for (ProcessState& state : round.processes) {
      auto block = std::make_shared<StateBlock>(*state.block);
      block->blind = true;
      state.block = std::move(block);
    }
    model.OnRound(round);
  }
  EXPECT_NE(model.Current().main.verdict, VerdictKind::kDeadlock);
}

}  // namespace
}  // namespace gordian::model
