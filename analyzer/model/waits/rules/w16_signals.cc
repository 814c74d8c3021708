// W16: A ncclWaitSignal is done when as many signals of each peer have left as it waits for.
//
// nccl.h of 2.30: a wait names, for each peer, "how many signals to expect from a specific peer on
// a particular signal index and context"; a signal leaves when its operation has its turn on its
// stream, and waits for no other rank. So a wait is stuck when fewer signals than it needs can ever
// leave. Signals are counted and alike: another one that the peer has yet to call would do as
// well, and so would a later one on a stream that moves. Only the order of streams is taken for
// granted, and none within a group. NCCL 2.30.7 runs the RMA operations of a communicator one after
// another with its collectives across streams (tests/gpu/truth, rma_wait_beside_all_reduce); no
// other release was measured. Likewise that a wait uses up what it waited for, as nccl.h reads and
// 2.30.7 does (rma_one_signal_two_waits): a circle that needs this is a suspicion and names it.
#include <algorithm>
#include <utility>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

uint64_t CountOf(const std::deque<SignalCall>& calls) {
  uint64_t count = 0;
  for (const SignalCall& call : calls) count += call.count;
  return count;
}

// Where the operation is on its one stream; ordinal 0: not known.
StreamPosition PositionOf(const Launch& launch) {
  return launch.enqueued && launch.positions.size() == 1 ? launch.positions.front()
                                                         : StreamPosition();
}

// What it needs, by the waits that come before it for certain: those that are done, and those in
// front of it on its stream. Others may take their signals later.
uint64_t Needed(const WaitView& view, const SignalLine& line, const Launch& wait,
                const SignalUse& use) {
  uint64_t needed = line.waited.done + use.count;
  const StreamPosition mine = PositionOf(wait);
  if (mine.ordinal == 0) return needed;
  for (const SignalCall& other : line.waited.calls) {
    const Launch* const launch =
        other.launch == wait.id ? nullptr : view.execution.FindLaunch(other.launch);
    if (launch == nullptr) continue;
    const StreamPosition position = PositionOf(*launch);
    if (position.ordinal != 0 && position.stream == mine.stream && position.ordinal < mine.ordinal)
      needed += other.count;
  }
  return needed;
}

// Finds the unfinished signals without which `missing` of them cannot start.
std::vector<LaunchId> ThatMayDo(const WaitView& view, const SignalLine& line, uint64_t missing) {
  struct Placed {
    StreamPosition position;
    const SignalCall* call;
  };
  std::vector<Placed> placed;
  std::vector<LaunchId> may;  // it is not known yet where they stand
  for (const SignalCall& call : line.sent.calls) {
    const Launch* const launch = view.execution.FindLaunch(call.launch);
    const StreamPosition position = launch == nullptr ? StreamPosition() : PositionOf(*launch);
    if (position.ordinal == 0) {
      may.push_back(call.launch);
    } else {
      placed.push_back({position, &call});
    }
  }
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.position.stream, a.position.ordinal) <
           std::pair(b.position.stream, b.position.ordinal);
  });
  const bool one_stream =
      may.empty() && placed.front().position.stream == placed.back().position.stream;
  uint64_t passed = 0;
  StreamId last = 0;
  for (const Placed& one : placed) {
    passed += one.call->count;
    if (one_stream ? passed < missing : one.position.stream == last) continue;
    last = one.position.stream;
    may.push_back(one.call->launch);
    if (one_stream) break;  // the one that makes up the number
  }
  return may;
}

// Adds the waits for one peer that the wait names.
uint32_t Arrive(const WaitView& view, const Launch& wait, size_t index, WaitNodes* nodes) {
  const SignalOperation& operation = *wait.signal;
  const SignalUse& use = operation.uses[index];
  const Communicator& comm = view.matcher.comms()[wait.comm_index];
  const CommMember& source = comm.members[use.peer];
  // Signals, or waits that use them up, may be among what was lost, or in graphs.
  const auto counted = [](const Process* process) {
    return process == nullptr || !process->unknown.signals;
  };
  if (comm.signals_unseen ||
      !counted(source.known ? view.execution.Find(source.process) : nullptr)) {
    return nodes->Leaf(LeafKind::kUnknown, source.process);
  }
  if (!counted(view.execution.Find(wait.process))) {
    return nodes->Leaf(LeafKind::kUnknown, wait.process);
  }
  const auto found = comm.signals.find({use.peer, operation.rank, use.channel});
  static const SignalLine kNone;
  const SignalLine& line = found == comm.signals.end() ? kNone : found->second;
  const uint64_t needed = Needed(view, line, wait, use);
  if (needed <= line.sent.done) return nodes->Leaf(LeafKind::kDone, 0);
  const uint32_t node = nodes->Add(NodeKind::kSignals, /*any=*/true);
  const uint64_t called = CountOf(line.sent.calls);
  WaitNode& signals = (*nodes)[node];
  signals.comm = wait.comm_index;
  signals.launch = wait.id;
  signals.ordinal = index;
  signals.sequence = needed;
  const Process* const sender = view.execution.Find(source.process);
  signals.by_kernels = sender != nullptr && !sender->Dead();
  signals.used_up = needed > use.count && use.count <= line.sent.done + called;
  signals.conjectural = signals.by_kernels || signals.used_up;
  const uint64_t missing = needed - line.sent.done;
  const bool enough = called >= missing;
  if (enough) {
    for (LaunchId id : ThatMayDo(view, line, missing)) {
      const uint32_t start = nodes->StartOf(id);
      nodes->Wait(node, start == kNoNode ? nodes->Leaf(LeafKind::kDone, 0) : start,
                  Reason::kSignal);
    }
  }
  // A further one would do as well: true, but nothing to show where those that were called are
  // meant.
  const uint32_t further =
      NotCalled(view, {.comm = wait.comm_index, .rank = use.peer, .proven = true}, nodes);
  if (enough) {
    nodes->WaitDiscouraged(node, further, Reason::kSignal);
  } else {
    nodes->Wait(node, further, Reason::kSignal);
  }
  return node;
}

}  // namespace

void Signals(const WaitView& view, const Launch& wait, WaitNodes* nodes) {
  if (wait.signal->call != Call::kWaitSignal || wait.comm_index < 0) return;
  for (size_t i = 0; i < wait.signal->uses.size(); ++i) {
    const uint32_t on = Arrive(view, wait, i, nodes);
    if ((*nodes)[on].leaf != LeafKind::kDone) {
      nodes->Wait(nodes->DoneOf(wait.id), on, Reason::kSignal);
    }
  }
}

}  // namespace gordian::model::rules
