#include "analyzer/graph/wait_for_graph.h"

#include <algorithm>

#include "analyzer/graph/decider.h"

namespace gordian::graph {

const char* Name(Reason reason) {
  switch (reason) {
    case Reason::kStartedCollective:
      return "started_collective";
    case Reason::kFirstUse:
      return "first_use";
    case Reason::kReceive:
      return "receive";
    case Reason::kSend:
      return "send";
    case Reason::kStreamOrder:
      return "stream_order";
    case Reason::kEventWait:
      return "event_wait";
    case Reason::kHostSync:
      return "host_sync";
    case Reason::kHostFree:
      return "host_free";
    case Reason::kHostCopy:
      return "host_copy";
    case Reason::kCommunicatorOrder:
      return "communicator_order";
    case Reason::kCommunicatorInit:
      return "communicator_init";
    case Reason::kCommunicatorCall:
      return "communicator_call";
    case Reason::kNotCalled:
      return "not_called";
    case Reason::kOpenGroup:
      return "open_group";
    case Reason::kLegacyStream:
      return "legacy_stream";
    case Reason::kPolling:
      return "polling";
    case Reason::kGraphOrder:
      return "graph_order";
    case Reason::kMemoryWait:
      return "memory_wait";
    case Reason::kLaunchOrder:
      return "launch_order";
    case Reason::kResources:
      return "resources";
    case Reason::kSignal:
      return "signal";
  }
  return "";
}

WaitForGraph::WaitForGraph(const ExecutionGraph& execution, const Matcher& matcher,
                           const ModelOptions& options, uint64_t now_ns, Conjecture conjecture,
                           std::vector<WaitNode>* memory)
    : execution_(execution),
      matcher_(matcher),
      options_(options),
      now_ns_(now_ns),
      conjecture_(conjecture),
      memory_(memory) {
  if (memory_ != nullptr) nodes_.swap(*memory_);
  nodes_.clear();
  AddNodes();  // first, so that edges can name them
  for (const auto& [id, process] : execution_.processes()) {
    if (process.Dead()) continue;
    for (const auto& [stream, queue] : process.streams) {
      for (const WorkItem& item : queue.items) ItemWaits(process, queue, item);
    }
  }
  FindEarly();
  for (KernelId id : kernels_) LaunchWaits(*execution_.FindKernel(id));
  if (conjecture_ == Conjecture::kNoProcessors) ProcessorWaits(kernels_);
  for (const auto& [id, process] : execution_.processes()) {
    if (process.Dead() || !process.has_state) continue;
    for (const ThreadState& state : process.state.threads) {
      const uint32_t node = ThreadOf(id, state.thread);
      if (state.thread == 0 || node == kNoNode) continue;
      ThreadWaits(process, state, node);
    }
  }
}

// Threads, what stands on streams, launches.
void WaitForGraph::AddNodes() {
  kernels_.reserve(execution_.kernels().size());
  for (const auto& [id, kernel] : execution_.kernels()) kernels_.push_back(id);
  std::sort(kernels_.begin(), kernels_.end());  // the same facts give the same graph
  size_t known = 2 * kernels_.size();
  for (const auto& [id, process] : execution_.processes()) {
    if (process.has_state) known += process.state.threads.size();
    for (const auto& [stream, queue] : process.streams) known += queue.items.size();
  }
  nodes_.reserve(known + known / 4);  // and what these wait for
  for (const auto& [id, process] : execution_.processes()) {
    if (process.Dead()) continue;
    if (process.has_state) {
      for (const ThreadState& state : process.state.threads) {
        if (state.thread != 0 && state.os_state != OsState::kGone) AddThread(process, state);
      }
    }
    for (const auto& [stream, queue] : process.streams) {
      queue.first_node = static_cast<uint32_t>(nodes_.size());
      for (const WorkItem& item : queue.items) {
        const uint32_t node = Add(NodeKind::kItemDone);
        nodes_[node].process = id;
        nodes_[node].stream = stream;
        nodes_[node].ordinal = item.ordinal;
      }
    }
  }
  std::sort(threads_.begin(), threads_.end());
  starts_.Reserve(kernels_.size());
  for (KernelId id : kernels_) {
    const Kernel& kernel = *execution_.FindKernel(id);
    uint64_t since = kernel.time_ns;
    const Process* process = execution_.Find(kernel.process);
    for (const StreamPosition& position : kernel.positions) {
      auto it = process->streams.find(position.stream);
      if (it != process->streams.end()) since = std::max(since, it->second.last_progress_ns);
    }
    for (const bool done : {false, true}) {
      const uint32_t node = Add(done ? NodeKind::kKernelDone : NodeKind::kKernelStart);
      nodes_[node].process = kernel.process;
      nodes_[node].kernel = id;
      nodes_[node].since_ns = since;
      if (!done) starts_.Insert(id, node);
      if (done && !process->Dead()) waiters_.push_back(node);
    }
  }
}

uint32_t WaitForGraph::StartOf(KernelId id) const {
  const uint32_t* const node = starts_.Find(id);
  return node == nullptr ? kNoNode : *node;
}

uint32_t WaitForGraph::DoneOf(KernelId id) const {
  const uint32_t start = StartOf(id);
  return start == kNoNode ? kNoNode : start + 1;
}

uint32_t WaitForGraph::ThreadOf(ProcessId process, ThreadId thread) const {
  const auto after =
      std::upper_bound(threads_.begin(), threads_.end(), std::tuple(process, thread, kNoNode));
  if (after == threads_.begin()) return kNoNode;
  const auto& [its_process, its_thread, node] = *std::prev(after);
  return its_process == process && its_thread == thread ? node : kNoNode;
}

uint32_t WaitForGraph::ItemNode(const StreamQueue& queue, uint64_t ordinal) {
  const auto after =
      std::upper_bound(queue.items.begin(), queue.items.end(), ordinal,
                       [](uint64_t n, const WorkItem& item) { return n < item.ordinal; });
  if (after == queue.items.begin()) return kNoNode;
  return queue.first_node + static_cast<uint32_t>(after - queue.items.begin()) - 1;
}

uint32_t WaitForGraph::Add(NodeKind kind, bool any) {
  WaitNode node;
  node.kind = kind;
  node.any = any;
  nodes_.push_back(std::move(node));
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t WaitForGraph::Leaf(LeafKind kind, ProcessId process, int comm) {
  const bool done = kind == LeafKind::kDone && process == 0 && comm == -1;
  if (done && done_leaf_ != kNoNode) return done_leaf_;
  auto [it, added] = leaves_.try_emplace({kind, process, comm}, 0);
  if (added) {
    it->second = Add(NodeKind::kLeaf);
    WaitNode& node = nodes_[it->second];
    node.leaf = kind;
    node.process = process;
    node.comm = comm;
    if (done) done_leaf_ = it->second;
  }
  return it->second;
}

void WaitForGraph::Wait(uint32_t node, uint32_t on, Reason reason, int part, KernelId kernel,
                        bool discouraged) {
  nodes_[node].out.push_back({on, static_cast<int16_t>(part), reason, discouraged, kernel});
}

uint32_t WaitForGraph::DoneBy(const Process& process, StreamPosition position) {
  auto it = process.streams.find(position.stream);
  if (it == process.streams.end()) return Leaf(LeafKind::kDone, 0);
  if (const uint32_t node = ItemNode(it->second, position.ordinal); node != kNoNode) return node;
  if (position.ordinal <= it->second.done) {
    return Leaf(LeafKind::kDone, 0);
  }
  return Leaf(position.ordinal <= it->second.soft ? LeafKind::kKernel : LeafKind::kUnknown,
              process.info.process);
}

void WaitForGraph::ItemWaits(const Process& process, const StreamQueue& queue,
                             const WorkItem& item) {
  const uint32_t node = ItemNode(queue, item.ordinal);
  if (item.kind == WorkKind::kNone) {
    for (KernelId id : item.kernels) {
      const uint32_t done = DoneOf(id);
      if (done != kNoNode) Wait(node, done, Reason::kStreamOrder);
    }
    return;
  }
  Wait(node, DoneBy(process, {queue.id, item.ordinal - 1}), Reason::kStreamOrder);
  for (const StreamPosition& position : item.legacy) {
    Wait(node, DoneBy(process, position), Reason::kLegacyStream);
  }
  if (item.kind == WorkKind::kMemoryWait) {
    memory_waits_.push_back(node);
    Wait(node, MemoryWritten(process, queue, item), Reason::kMemoryWait);
  }
  // A lost record may have been the one that moved the event on.
  if (process.Lossy() && !item.certain) return;
  for (const StreamPosition& position : item.event) {
    Wait(node, DoneBy(process, position), Reason::kEventWait);
  }
}

// The launch, or another of the group that its thread has not ended.
bool WaitForGraph::OfOneGroup(KernelId id, const Kernel& open) const {
  const Kernel* const other = execution_.FindKernel(id);
  return other != nullptr && other->process == open.process && other->thread == open.thread &&
         !other->enqueued;
}

void WaitForGraph::LaunchWaits(const Kernel& kernel) {
  const uint32_t start = StartOf(kernel.id), done = DoneOf(kernel.id);
  const Process& process = *execution_.Find(kernel.process);
  Wait(done, start, Reason::kStreamOrder);
  if (process.Dead()) {
    Wait(start, Leaf(LeafKind::kDead, kernel.process), Reason::kStreamOrder);
    return;
  }
  if (process.has_state && process.state.stopped) {
    Wait(start, Leaf(LeafKind::kStopped, kernel.process), Reason::kStreamOrder);
  }
  if (StartsEarly(process, kernel)) {
    EarlyWaits(process, kernel, done);
  } else if (MayStartEarly(process, kernel)) {
    MayStartWaits(process, kernel, start);
    EarlyWaits(process, kernel, done);
  } else if (!kernel.enqueued) {
    const uint32_t thread = ThreadOf(kernel.process, kernel.thread);
    Wait(start, thread != kNoNode ? thread : Leaf(LeafKind::kUnknown, kernel.process),
         kernel.in_group ? Reason::kOpenGroup : Reason::kFirstUse);
    // The places of its group, when GroupEnd has got that far, are not before it.
    const auto behind = [&](StreamPosition position, Reason reason) {
      const WorkItem* last = ExecutionGraph::ItemAt(process, position);
      if (last != nullptr && std::any_of(last->kernels.begin(), last->kernels.end(),
                                         [&](KernelId id) { return OfOneGroup(id, kernel); })) {
        position.ordinal = last->ordinal - 1;
      }
      Wait(start, DoneBy(process, position), reason);
    };
    for (StreamId id : kernel.streams) {
      auto it = process.streams.find(id);
      if (it == process.streams.end()) continue;
      const StreamQueue& queue = it->second;
      if (!queue.items.empty()) behind({id, queue.items.back().ordinal}, Reason::kStreamOrder);
      for (const StreamPosition& legacy : ExecutionGraph::LegacyOrder(process, queue))
        behind(legacy, Reason::kLegacyStream);
    }
    auto local = process.comms.find(kernel.comm);
    if (local != process.comms.end() && kernel.signal == nullptr) {
      const uint32_t before = DoneOf(local->second.last_kernel);
      if (before != kNoNode && before != done) {
        Wait(start, before, Reason::kCommunicatorOrder);
      }
    }
  } else {
    for (const StreamPosition& position : kernel.positions) {
      Wait(start, DoneBy(process, {position.stream, position.ordinal - 1}), Reason::kStreamOrder);
      const WorkItem* item = ExecutionGraph::ItemAt(process, position);
      if (item == nullptr || item->ordinal != position.ordinal) continue;
      for (StreamPosition legacy : item->legacy) {
        // The group's own place on another stream is not before it.
        const WorkItem* other = ExecutionGraph::ItemAt(process, legacy);
        if (other != nullptr && std::find(other->kernels.begin(), other->kernels.end(),
                                          kernel.id) != other->kernels.end()) {
          legacy.ordinal = other->ordinal - 1;
        }
        Wait(start, DoneBy(process, legacy), Reason::kLegacyStream);
      }
    }
    uint32_t before = DoneOf(kernel.previous_on_comm);
    if (before != kNoNode) Wait(start, before, Reason::kCommunicatorOrder);
    if (conjecture_ == Conjecture::kSharedQueue) QueueWaits(process, kernel);
    // One after the other, and then beside each other: NCCL waits until the earlier is launched.
    before = StartOf(kernel.device_before);
    if (before != kNoNode) Wait(start, before, Reason::kLaunchOrder);
    for (KernelId id : kernel.graph_order) {
      const uint32_t earlier = DoneOf(id);
      if (earlier != kNoNode) Wait(start, earlier, Reason::kGraphOrder);
    }
  }
  if (kernel.aborted) return;
  if (kernel.signal != nullptr) return SignalWaits(kernel, done);
  for (size_t i = 0; i < kernel.parts.size(); ++i) PartWaits(kernel, static_cast<int>(i), done);
}

// W1 and W1p: whose starts a part needs.
void WaitForGraph::PartWaits(const Kernel& kernel, int index, uint32_t done) {
  const Part& part = kernel.parts[index];
  const PartRef& ref = part.ref;
  if (ref.comm < 0) return;
  const Communicator& comm = matcher_.comms()[ref.comm];
  if (comm.opaque) {
    Wait(done, Leaf(LeafKind::kUnknown, kernel.process), Reason::kStartedCollective, index,
         kernel.id);
    return;
  }
  if (ref.kind != PartKind::kCollective) {
    if (ref.kind == PartKind::kSend && conjecture_ != Conjecture::kUnbuffered) return;
    const Transfer* transfer = matcher_.FindTransfer(ref);
    if (transfer == nullptr || transfer->mismatch != kAgrees) return;
    const bool sends = ref.kind == PartKind::kSend;
    PartRef other = ref;
    other.kind = sends ? PartKind::kReceive : PartKind::kSend;
    std::swap(other.rank, other.peer);
    Wait(done, SlotStart(sends ? transfer->receive : transfer->send, ref.comm, ref.peer, other),
         sends ? Reason::kSend : Reason::kReceive, index, kernel.id);
    return;
  }
  if (IsEmpty(part)) return;
  const Instance* instance = matcher_.FindInstance(ref.comm, ref.sequence);
  // What a mismatched operation waits for is anybody's guess: it proves nothing.
  if (instance == nullptr || instance->mismatch != kAgrees) return;
  const int root = part.signature.root;
  if (NeedsRoot(part.signature.call) && (root < 0 || root >= comm.nranks)) return;
  switch (part.signature.call) {
    case Call::kBroadcast:
    case Call::kScatter:
      if (ref.rank != root) {
        PartRef other = ref;
        other.rank = root;
        Wait(done, SlotStart(instance->members[root], ref.comm, root, other),
             Reason::kStartedCollective, index, kernel.id);
      }
      break;
    case Call::kReduce:
    case Call::kGather:
      if (ref.rank == root) {
        Wait(done, AllStarted(ref.comm, ref.sequence), Reason::kStartedCollective, index,
             kernel.id);
      }
      break;
    default:
      // One that is done has met all the others.
      if (instance->done == 0) {
        Wait(done, AllStarted(ref.comm, ref.sequence), Reason::kStartedCollective, index,
             kernel.id);
      }
      break;
  }
}

uint32_t WaitForGraph::AllStarted(int comm, uint64_t sequence) {
  auto [it, added] = all_started_.try_emplace({comm, sequence}, 0);
  if (!added) return it->second;
  const uint32_t node = it->second = Add(NodeKind::kAllStarted);
  nodes_[node].comm = comm;
  nodes_[node].sequence = sequence;
  const Instance& instance = *matcher_.FindInstance(comm, sequence);
  for (size_t r = 0; r < instance.members.size(); ++r) {
    const int rank = static_cast<int>(r);
    const PartRef part{PartKind::kCollective, comm, rank, -1, sequence};
    Wait(node, SlotStart(instance.members[r], comm, rank, part), Reason::kStartedCollective);
  }
  return node;
}

uint32_t WaitForGraph::SlotStart(const MemberSlot& slot, int comm, int rank, const PartRef& part) {
  switch (slot.state) {
    case SlotState::kNone:
      return NotCalled(comm, rank, &part);
    case SlotState::kDone:
      return Leaf(LeafKind::kDone, 0);
    case SlotState::kAborted:
      return Leaf(LeafKind::kAborted, matcher_.comms()[comm].members[rank].process, comm);
    case SlotState::kCalled:
      break;
  }
  const uint32_t start = StartOf(slot.kernel);
  return start == kNoNode ? Leaf(LeafKind::kDone, 0) : start;
}

// W5, W14. `part` tells what was not called; for calls that all members make, `init` does.
uint32_t WaitForGraph::NotCalled(int index, int rank, const PartRef* part, const InitCall* init,
                                 bool proven) {
  const Communicator& comm = matcher_.comms()[index];
  if (rank < 0 || rank >= comm.nranks || !comm.members[rank].known) {
    return Leaf(LeafKind::kUnknown, 0, index);
  }
  const CommMember& member = comm.members[rank];
  if (member.aborted) return Leaf(LeafKind::kAborted, member.process, index);
  if (member.left) return Leaf(LeafKind::kLeft, member.process, index);
  const Process* process = execution_.Find(member.process);
  if (process == nullptr) return Leaf(LeafKind::kUnknown, 0, index);
  const Account account = part != nullptr ? AccountOf(*process, member, *part) : Account::kSilent;
  // It did call, and the record of that is missing.
  if (account == Account::kCalled && (process->Lossy() || !process->Dead())) {
    return Leaf(LeafKind::kUnknown, member.process);
  }
  if (process->Dead()) return Leaf(LeafKind::kDead, member.process);
  if (part != nullptr && part->kind != PartKind::kCollective &&
      comm.members[part->peer].forgotten) {
    return Leaf(LeafKind::kUnknown, member.process);
  }
  return ProcessNotCalled(member.process,
                          proven || account == Account::kNotCalled ||
                              (init != nullptr && NotIn(*process, *init, member.comm)));
}

uint32_t WaitForGraph::ProcessNotCalled(ProcessId id, bool proven) {
  const Process* process = execution_.Find(id);
  if (process == nullptr) return Leaf(LeafKind::kUnknown, id);
  if (process->Dead()) return Leaf(LeafKind::kDead, id);
  if (!process->has_state || (process->Lossy() && !proven) || process->merger.incomplete()) {
    return Leaf(LeafKind::kUnknown, id);
  }
  if (const uint32_t* const known = not_called_.Find(id); known != nullptr) return *known;
  const uint32_t node = Add(NodeKind::kNotCalled, true);
  not_called_.Insert(id, node);
  nodes_[node].process = id;
  for (const ThreadState& state : process->state.threads) {
    if (!state.gpu_thread || state.library_thread) continue;
    const uint32_t thread = ThreadOf(id, state.thread);
    if (thread != kNoNode) Wait(node, thread, Reason::kNotCalled);
  }
  // Nobody there has called anything yet: whoever will is in code of its own.
  if (nodes_[node].out.empty()) {
    Wait(node, Leaf(process->state.stopped ? LeafKind::kStopped : LeafKind::kRunning, id),
         Reason::kNotCalled);
  }
  return node;
}

uint32_t WaitForGraph::InitNode(const InitCall& init) {
  auto [it, added] = inits_.try_emplace(init.uid, 0);
  if (!added) return it->second;
  const uint32_t node = it->second = Add(NodeKind::kInit);
  nodes_[node].init = init.uid;
  if (!init.members_known) {
    Wait(node, Leaf(LeafKind::kUnknown, 0, init.parent), Reason::kCommunicatorInit);
    return node;
  }
  // Ranks of the environment name the processes of a communicator of everybody.
  const auto& processes = execution_.processes();
  bool by_environment = true;
  size_t expected = init.members.size();
  for (const auto& [id, process] : processes) {
    by_environment &= process.info.env_rank >= 0 &&
                      process.info.env_world_size == static_cast<int>(init.members.size());
    if (process.info.env_world_size > 0) {
      expected = std::max<size_t>(expected, process.info.env_world_size);
    }
  }
  std::map<ProcessId, int> members;
  for (size_t r = 0; r < init.members.size(); ++r) {
    const InitMember& member = init.members[r];
    if (!member.called) continue;
    members[member.process] = static_cast<int>(r);
    by_environment &= execution_.Find(member.process)->info.env_rank == static_cast<int>(r);
  }
  uint32_t any = 0;
  bool have_any = false;
  for (size_t r = 0; r < init.members.size(); ++r) {
    if (init.members[r].called) {
      // W14: who ended in the middle of the call takes no more part in it.
      const Process* process = execution_.Find(init.members[r].process);
      if (!init.members[r].done && init.call != Call::kCommDestroy && process != nullptr &&
          process->Dead()) {
        Wait(node,
             Leaf(process->Lossy() ? LeafKind::kUnknown : LeafKind::kDead, init.members[r].process),
             Reason::kCommunicatorInit);
      }
      continue;
    }
    if (init.parent >= 0) {
      const CommMember& member = matcher_.comms()[init.parent].members[r];
      const Process* process = member.known ? execution_.Find(member.process) : nullptr;
      // Destroying waits neither for who has aborted nor for who is gone.
      if (init.call == Call::kCommDestroy &&
          (member.aborted || (process != nullptr && process->Dead()))) {
        continue;
      }
      Wait(node, NotCalled(init.parent, static_cast<int>(r), nullptr, &init),
           MakesCommunicator(init.call) ? Reason::kCommunicatorInit : Reason::kCommunicatorCall);
      continue;
    }
    if (by_environment) {
      uint32_t target = Leaf(LeafKind::kUnknown, 0, init.comm);
      for (const auto& [id, process] : processes) {
        if (process.info.env_rank != static_cast<int>(r)) continue;
        target = matcher_.MayHaveCalled(init, id) ? Leaf(LeafKind::kDone, 0)
                                                  : ProcessNotCalled(id, NotIn(process, init, 0));
      }
      Wait(node, target, Reason::kCommunicatorInit);
      continue;
    }
    if (have_any) continue;  // the same for every member that nobody knows
    have_any = true;
    any = Add(NodeKind::kAnyProcess, true);
    nodes_[any].init = init.uid;
    // Who may be a member by another name takes one of the places; when all may be taken so, nobody
    // needs to call.
    size_t missing = 0, by_another_name = 0;
    for (const InitMember& one : init.members) missing += !one.called;
    for (const auto& [id, process] : processes)
      by_another_name += members.count(id) == 0 && matcher_.MayHaveCalled(init, id);
    if (by_another_name >= missing) Wait(any, Leaf(LeafKind::kDone, 0), Reason::kNotCalled);
    for (const auto& [id, process] : processes) {
      const bool member_already = members.count(id) > 0;
      if (!member_already && matcher_.MayHaveCalled(init, id)) continue;
      Wait(any, ProcessNotCalled(id, NotIn(process, init, 0)), Reason::kNotCalled, -1, 0,
           member_already);
    }
    if (processes.size() < expected) {
      Wait(any, Leaf(LeafKind::kUnknown, 0, init.comm), Reason::kNotCalled);
    }
    Wait(node, any, Reason::kCommunicatorInit);
  }
  return node;
}

const Part* WaitForGraph::PartOf(const WaitNode::Edge& edge) const {
  const Kernel* kernel = edge.part < 0 ? nullptr : execution_.FindKernel(edge.kernel);
  return kernel == nullptr ? nullptr : &kernel->parts[edge.part];
}

const Part* WaitForGraph::CapturedPartOf(const WaitNode& from, const WaitNode::Edge& edge) const {
  if (from.kind != NodeKind::kThread || edge.reason != Reason::kFirstUse || edge.kernel != 0 ||
      edge.part < 0) {
    return nullptr;
  }
  const Thread& thread = execution_.Find(from.process)->threads.at(from.thread);
  return &thread.capturing[static_cast<size_t>(edge.part)].part;
}

const WaitNode* WaitForGraph::ThreadNode(ProcessId process, ThreadId thread) const {
  const uint32_t node = ThreadOf(process, thread);
  return node == kNoNode ? nullptr : &nodes_[node];
}

std::vector<bool> WaitForGraph::Decide(LeafMask progressing,
                                       const std::vector<bool>& forced) const {
  using Kind = AndOrGraph::Kind;
  if (decider_.size() == 0) {
    size_t edges = 0;
    for (const WaitNode& node : nodes_) edges += node.out.size();
    decider_.Reserve(nodes_.size(), edges);
    for (const WaitNode& node : nodes_) decider_.AddNode(node.any ? Kind::kOr : Kind::kAnd);
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      for (const WaitNode::Edge& edge : nodes_[i].out) decider_.AddEdge(i, edge.to);
    }
  }
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const WaitNode& node = nodes_[i];
    if (!forced.empty() && forced[i]) {
      decider_.SetKind(i, Kind::kCan);
    } else if (node.kind == NodeKind::kLeaf) {
      const bool can = node.leaf == LeafKind::kDone || (Bit(node.leaf) & progressing) != 0;
      decider_.SetKind(i, can ? Kind::kCan : Kind::kCannot);
    } else if (!forced.empty()) {
      decider_.SetKind(i, node.any ? Kind::kOr : Kind::kAnd);
    }
  }
  std::vector<bool> can = decider_.Decide();
  // As it was: most of the time nothing is forced.
  for (uint32_t i = 0; i < forced.size(); ++i) {
    if (forced[i]) decider_.SetKind(i, nodes_[i].any ? Kind::kOr : Kind::kAnd);
  }
  return can;
}

}  // namespace gordian::graph
