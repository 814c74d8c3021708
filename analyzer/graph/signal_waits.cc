// W16: ncclWaitSignal, and the signals that ncclSignal and ncclPutSignal send.
//
// nccl.h of 2.30: a wait names, for each peer, "how many signals to expect from a specific peer on
// a particular signal index and context"; a signal leaves when its operation has its turn on its
// stream, and waits for nobody. So a wait is stuck when fewer signals than it needs can ever leave.
// Signals are counted, not told apart: another one that the peer has yet to call would do as well,
// and so would a later one on a stream that moves. Whether the RMA operations of a communicator run
// one after another across streams, as its collectives do (W8), has not been measured: no order but
// that of streams is taken for granted. What one group holds on a stream has none.
#include <algorithm>
#include <utility>

#include "analyzer/graph/wait_for_graph.h"

namespace gordian::graph {
namespace {

void Forget(KernelId kernel, bool done, SignalCalls* line) {
  for (auto it = line->calls.begin(); it != line->calls.end();) {
    if (it->kernel != kernel) {
      ++it;
      continue;
    }
    const uint32_t behind = it->number + static_cast<uint32_t>(it->count);
    if (done) {
      line->done += it->count;
      if (NumberAhead(behind, line->done_to) > 0) line->done_to = behind;
    }
    it = line->calls.erase(it);
  }
}

uint64_t CountOf(const std::deque<SignalCall>& calls) {
  uint64_t count = 0;
  for (const SignalCall& call : calls) count += call.count;
  return count;
}

// Where the operation is on its one stream; ordinal 0: not known.
StreamPosition PlaceOf(const Kernel& kernel) {
  return kernel.enqueued && kernel.positions.size() == 1 ? kernel.positions.front()
                                                         : StreamPosition();
}

}  // namespace

SignalCalls& SignalsOf(Communicator& comm, int rank, bool waits, int peer, uint64_t channel) {
  SignalLine& line =
      comm.signals[waits ? SignalKey{peer, rank, channel} : SignalKey{rank, peer, channel}];
  return waits ? line.waited : line.sent;
}

bool IsSignal(Call call) {
  return call == Call::kPutSignal || call == Call::kSignal || call == Call::kWaitSignal;
}

void ExecutionGraph::ApplySignal(Process& process, Thread& thread, const CallRecord& record) {
  if (record.kind == RecordKind::kEnd) return ApplySignalEnd(process, thread, record);
  auto local = process.comms.find(record.comm);
  const bool known =
      local != process.comms.end() && local->second.index >= 0 && local->second.rank >= 0;
  if ((record.flags & kCapturing) != 0) {
    // Sent, or waited for, each time that its graph is launched.
    if (known) matcher_.comms()[local->second.index].signals_unseen = true;
    if (record.kind == RecordKind::kBegin) thread.signal_call = 0;
    return;
  }
  const bool in_group = (record.flags & kInGroup) != 0;
  if (record.kind == RecordKind::kBegin) {
    if (in_group) {
      InGroup(process, thread, record.group);
    } else {
      InNoGroup(process, thread);
    }
    Kernel& kernel = kernels_.Add();
    kernel.process = process.info.process;
    kernel.thread = thread.id;
    kernel.comm = record.comm;
    kernel.comm_index = known ? local->second.index : -1;
    kernel.in_group = in_group;
    kernel.time_ns = record.time_ns;
    kernel.streams.push_back(record.stream);
    kernel.signal = std::make_unique<SignalOperation>();
    kernel.signal->call = record.call;
    kernel.signal->rank = known ? local->second.rank : -1;
    kernel.signal->site = record.call_site;
    kernel.signal->order = record.order;
    thread.signal_call = kernel.id;
    if (in_group) {
      thread.group_kernels.push_back(kernel.id);
    } else {
      thread.open->kernel = kernel.id;
    }
  }
  Kernel* const kernel = kernels_.Find(thread.signal_call);
  if (kernel == nullptr || kernel->signal == nullptr || kernel->comm_index < 0) return;
  Communicator& comm = matcher_.comms()[kernel->comm_index];
  const SignalUse use{record.root_or_peer, record.event, record.count,
                      static_cast<uint32_t>(record.sequence)};
  if (use.count == 0 || use.peer < 0 || use.peer >= comm.nranks) return;
  const bool waits = record.call == Call::kWaitSignal;
  SignalCalls& line = SignalsOf(comm, kernel->signal->rank, waits, use.peer, use.channel);
  // The process has accounted for it, and its record was given up for lost: it came late.
  if (line.told != 0 && NumberAhead(use.number, line.told) < 0) return;
  line.calls.push_back({kernel->id, use.count, use.number});
  kernel->signal->uses.push_back(use);
}

void ExecutionGraph::ApplySignalEnd(Process& process, Thread& thread, const CallRecord& record) {
  Kernel* const kernel = kernels_.Find(thread.signal_call);
  thread.signal_call = 0;
  if (kernel == nullptr) return;
  if (!Took(record.result)) {
    if (kernel->in_group) std::erase(thread.group_kernels, kernel->id);
    DropKernel(kernel->id, false);
    return;
  }
  if (kernel->in_group) return;  // GroupEnd launches it
  kernel->enqueued = true;
  if (record.stream == 0) return UnplacedSignal(kernel->id);
  PlaceKernel(process, *kernel, {record.stream, record.ordinal});
}

// Taken for whatever lets others do more: its signals have left, and it takes none.
void ExecutionGraph::UnplacedSignal(KernelId id) {
  const Kernel& kernel = *kernels_.Find(id);
  SignalsOver(kernel, kernel.signal->call != Call::kWaitSignal);
  kernels_.erase(id);
}

void ExecutionGraph::SignalsOver(const Kernel& kernel, bool done) {
  if (kernel.comm_index < 0) return;
  Communicator& comm = matcher_.comms()[kernel.comm_index];
  const bool waits = kernel.signal->call == Call::kWaitSignal;
  for (const SignalUse& use : kernel.signal->uses) {
    Forget(kernel.id, done, &SignalsOf(comm, kernel.signal->rank, waits, use.peer, use.channel));
  }
}

// What it needs, by the waits that come before it for certain: those that are done, and those in
// front of it on its stream. Others may take their signals later.
uint64_t WaitForGraph::SignalsNeeded(const SignalLine& line, const Kernel& wait,
                                     const SignalUse& use) const {
  uint64_t needed = line.waited.done + use.count;
  const StreamPosition mine = PlaceOf(wait);
  if (mine.ordinal == 0) return needed;
  for (const SignalCall& other : line.waited.calls) {
    const Kernel* const kernel =
        other.kernel == wait.id ? nullptr : execution_.FindKernel(other.kernel);
    if (kernel == nullptr) continue;
    const StreamPosition place = PlaceOf(*kernel);
    if (place.ordinal != 0 && place.stream == mine.stream && place.ordinal < mine.ordinal)
      needed += other.count;
  }
  return needed;
}

// Of unfinished ones: those without which `missing` of them cannot start.
std::vector<KernelId> WaitForGraph::SignalsThatMayDo(const SignalLine& line,
                                                     uint64_t missing) const {
  struct Placed {
    StreamPosition place;
    const SignalCall* call;
  };
  std::vector<Placed> placed;
  std::vector<KernelId> may;  // nobody knows yet where they stand
  for (const SignalCall& call : line.sent.calls) {
    const Kernel* const kernel = execution_.FindKernel(call.kernel);
    const StreamPosition place = kernel == nullptr ? StreamPosition() : PlaceOf(*kernel);
    if (place.ordinal == 0) {
      may.push_back(call.kernel);
    } else {
      placed.push_back({place, &call});
    }
  }
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.place.stream, a.place.ordinal) < std::pair(b.place.stream, b.place.ordinal);
  });
  const bool one_stream = may.empty() && placed.front().place.stream == placed.back().place.stream;
  uint64_t passed = 0;
  StreamId last = 0;
  for (const Placed& one : placed) {
    passed += one.call->count;
    if (one_stream ? passed < missing : one.place.stream == last) continue;
    last = one.place.stream;
    may.push_back(one.call->kernel);
    if (one_stream) break;  // the one that makes up the number
  }
  return may;
}

uint32_t WaitForGraph::SignalsArrive(const Kernel& wait, size_t index) {
  const SignalOperation& operation = *wait.signal;
  const SignalUse& use = operation.uses[index];
  const Communicator& comm = matcher_.comms()[wait.comm_index];
  const CommMember& source = comm.members[use.peer];
  const Process* const peer = source.known ? execution_.Find(source.process) : nullptr;
  // Signals, or waits that use them up, may be among what was lost, or in graphs.
  const auto counted = [](const Process* process) {
    return process == nullptr || !process->Lossy() || process->signals_told ||
           (process->block != nullptr && process->block->only_work_lost);
  };
  if (comm.signals_unseen || !counted(peer)) return Leaf(LeafKind::kUnknown, source.process);
  if (!counted(execution_.Find(wait.process))) return Leaf(LeafKind::kUnknown, wait.process);
  const auto found = comm.signals.find({use.peer, operation.rank, use.channel});
  static const SignalLine kNone;
  const SignalLine& line = found == comm.signals.end() ? kNone : found->second;
  const uint64_t needed = SignalsNeeded(line, wait, use);
  if (needed <= line.sent.done) return Leaf(LeafKind::kDone, 0);
  const uint32_t node = Add(NodeKind::kSignals, /*any=*/true);
  nodes_[node].comm = wait.comm_index;
  nodes_[node].kernel = wait.id;
  nodes_[node].ordinal = index;
  nodes_[node].sequence = needed;
  const uint64_t called = CountOf(line.sent.calls);
  // That a wait uses up what it waited for is how nccl.h reads; it has not been measured.
  nodes_[node].conjectural = needed > use.count && use.count <= line.sent.done + called;
  const uint64_t missing = needed - line.sent.done;
  const bool enough = called >= missing;
  if (enough) {
    for (KernelId id : SignalsThatMayDo(line, missing)) {
      const uint32_t start = StartOf(id);
      Wait(node, start == kNoNode ? Leaf(LeafKind::kDone, 0) : start, Reason::kSignal);
    }
  }
  // A further one would do as well: true, but nothing to show where those that were called are
  // meant.
  const uint32_t further = NotCalled(wait.comm_index, use.peer, nullptr, nullptr, /*proven=*/true);
  Wait(node, further, Reason::kSignal, -1, 0, /*discouraged=*/enough);
  return node;
}

void WaitForGraph::SignalWaits(const Kernel& kernel, uint32_t done) {
  if (kernel.signal->call != Call::kWaitSignal || kernel.comm_index < 0) return;
  for (size_t i = 0; i < kernel.signal->uses.size(); ++i) {
    const uint32_t on = SignalsArrive(kernel, i);
    if (nodes_[on].leaf != LeafKind::kDone) Wait(done, on, Reason::kSignal);
  }
}

}  // namespace gordian::graph
