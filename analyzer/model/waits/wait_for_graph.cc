#include "analyzer/model/waits/wait_for_graph.h"

#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model {

WaitForGraph::WaitForGraph(const ExecutionGraph& execution, const Matcher& matcher,
                           const ModelOptions& options, uint64_t now_ns, Conjecture conjecture,
                           std::vector<WaitNode>* memory)
    : view_(execution, matcher, options, now_ns, conjecture), nodes_(memory) {
  AddNodes();  // first, so that edges can name them
  for (const auto& [id, process] : execution.processes()) {
    if (process.Dead()) continue;
    for (const auto& [stream, queue] : process.streams) {
      for (const WorkItem& item : queue.items) ItemWaits(process, queue, item);
    }
  }
  for (LaunchId id : view_.launches) LaunchWaits(*execution.FindLaunch(id));
  if (conjecture == Conjecture::kNoProcessors) rules::Processors(view_, &nodes_);
  for (const auto& [id, process] : execution.processes()) {
    if (process.Dead() || !process.has_state) continue;
    for (const ThreadState& state : process.state.threads) {
      const uint32_t node = nodes_.ThreadOf(id, state.thread);
      if (state.thread != 0 && node != kNoNode) ThreadWaits(process, state, node);
    }
  }
}

// Threads, what stands on streams, launches.
void WaitForGraph::AddNodes() {
  size_t known = 2 * view_.launches.size();
  for (const auto& [id, process] : view_.execution.processes()) {
    if (process.has_state) known += process.state.threads.size();
    for (const auto& [stream, queue] : process.streams) known += queue.items.size();
  }
  nodes_.Reserve(known + known / 4, view_.launches.size());  // and what these wait for
  for (const auto& [id, process] : view_.execution.processes()) {
    if (process.Dead()) continue;
    if (process.has_state) {
      for (const ThreadState& state : process.state.threads) {
        if (state.thread != 0 && state.os_state != OsState::kGone) nodes_.AddThread(process, state);
      }
    }
    for (const auto& [stream, queue] : process.streams) nodes_.AddItems(process, queue);
  }
  nodes_.SortThreads();
  for (LaunchId id : view_.launches) {
    const Launch& launch = *view_.execution.FindLaunch(id);
    uint64_t since = launch.time_ns;
    const Process* process = view_.execution.Find(launch.process);
    for (const StreamPosition& position : launch.positions) {
      auto it = process->streams.find(position.stream);
      if (it != process->streams.end()) since = std::max(since, it->second.last_progress_ns);
    }
    nodes_.AddLaunch(launch, since);
    // The host's operations are no waiters: the threads that wait for them are.
    if (!process->Dead() && !launch.host) waiters_.push_back(nodes_.DoneOf(id));
  }
}

void WaitForGraph::ItemWaits(const Process& process, const StreamQueue& queue,
                             const WorkItem& item) {
  const uint32_t node = WaitNodes::ItemNode(queue, item.ordinal);
  if (item.kind == WorkKind::kNoWork) return rules::FusedGroupItem(item, node, &nodes_);
  rules::StreamOrder(process, {queue.id, item.ordinal}, node, &nodes_);
  for (const StreamPosition& position : item.legacy) {
    rules::LegacyStream(process, position, node, &nodes_);
  }
  if (item.kind == WorkKind::kMemoryWait) {
    memory_waits_.push_back(node);
    rules::MemoryWait(view_, process, queue, item, node, &nodes_);
  }
  rules::EventWait(process, item, node, &nodes_);
}

void WaitForGraph::LaunchWaits(const Launch& launch) {
  const uint32_t start = nodes_.StartOf(launch.id);
  const Process& process = *view_.execution.Find(launch.process);
  nodes_.Wait(nodes_.DoneOf(launch.id), start, Reason::kStreamOrder);
  if (rules::EndedOrStopped(process, Reason::kStreamOrder, start, &nodes_)) return;
  if (launch.host) return launch.aborted ? void() : rules::HostOperation(view_, launch, &nodes_);
  if (!rules::BegunBeforeTurn(view_, process, launch, &nodes_) &&
      !rules::MayBeginBeforeTurn(process, launch, &nodes_)) {
    if (!launch.enqueued) rules::OpenGroup(launch, &nodes_);
    rules::FusedGroup(view_, process, launch, &nodes_);
    rules::CommunicatorOrder(process, launch, &nodes_);
    if (launch.enqueued) {
      if (view_.conjecture == Conjecture::kSharedQueue) {
        rules::SharedQueue(process, launch, &nodes_);
      }
      rules::LaunchOrder(launch, &nodes_);
      rules::GraphOrder(launch, &nodes_);
    }
  }
  if (launch.aborted) return;
  if (launch.signal != nullptr) return rules::Signals(view_, launch, &nodes_);
  for (size_t i = 0; i < launch.parts.size(); ++i) {
    const PartRef& ref = launch.parts[i].ref;
    const int part = static_cast<int>(i);
    if (ref.comm < 0) continue;
    if (view_.matcher.comms()[ref.comm].opaque) {
      nodes_.WaitAsPart(nodes_.DoneOf(launch.id), nodes_.Leaf(LeafKind::kUnknown, launch.process),
                        Reason::kStartedCollective, part, launch.id);
    } else if (ref.kind == PartKind::kCollective) {
      rules::CollectiveData(view_, launch, part, &nodes_);
    } else {
      rules::TransferData(view_, launch, part, &nodes_);
    }
  }
}

void WaitForGraph::ThreadWaits(const Process& process, const ThreadState& state, uint32_t node) {
  const ProcessId id = process.info.process;
  // Records on their way may be the ones that tell what it is in, or that it left.
  if (process.merger.incomplete() || state.published != state.collected) {
    nodes_.Wait(node, nodes_.Leaf(LeafKind::kUnknown, id), Reason::kNotCalled);
    return;
  }
  nodes_[node].since_ns = state.since_ns;
  auto found = process.threads.find(state.thread);
  const Thread* thread = found == process.threads.end() ? nullptr : &found->second;
  if (state.call_id != 0) {
    const OpenCall* open = thread != nullptr && thread->open ? &*thread->open : nullptr;
    if (open != nullptr && open->record.order == state.call_order) {
      if (state.since_ns == 0) nodes_[node].since_ns = open->record.time_ns;
      CallWaits(process, *thread, *open, node);
    }
    // The record that tells what it waits for was lost, or one that its call refers to: it is not
    // running code of its own, and nothing explains it.
    if (nodes_[node].out.empty() && process.unknown.calls) {
      nodes_.Wait(node, nodes_.Leaf(LeafKind::kUnknown, id), Reason::kNotCalled);
    }
  } else if (state.poll_object != 0 && !rules::Watches(state)) {
    rules::Polling(view_, process, state, node, &nodes_);
  }
  const bool runs = nodes_[node].out.empty() && state.call_id == 0;
  if (runs && view_.conjecture == Conjecture::kBystanders && thread != nullptr &&
      thread->calls_nccl) {
    rules::KnownHostFunctions(process, node, &nodes_);
  }
  const bool woken = nodes_[node].out.empty() && rules::OnlyAThreadWakes(process, state);
  if (woken) {
    nodes_.Wait(node, rules::Woken(view_, process, &nodes_), Reason::kNotCalled);
  } else if (nodes_[node].out.empty()) {
    const auto awake = process.awake_ns.find(state.tid);
    const bool asleep = state.call_id == 0 && state.os_state == OsState::kSleeping &&
                        awake != process.awake_ns.end() &&
                        view_.Lasted(awake->second) > view_.options.suspect_after_ns / 2;
    nodes_.Wait(node, nodes_.Leaf(asleep ? LeafKind::kAsleep : LeafKind::kRunning, id),
                Reason::kNotCalled);
  } else {
    waiters_.push_back(node);
  }
  rules::EndedOrStopped(process, Reason::kNotCalled, node, &nodes_);
}

// By the rule of the call that the thread is in.
void WaitForGraph::CallWaits(const Process& process, const Thread& thread, const OpenCall& open,
                             uint32_t node) {
  switch (open.record.call) {
    case Call::kHostWait:
      if (open.record.As<ring::HostWaitPayload>().kind == WaitKind::kOperation) {
        return rules::OperationWait(open, node, &nodes_);
      }
      if (open.record.As<ring::HostWaitPayload>().kind == WaitKind::kStore) {
        return rules::StoreWait(view_, open, node, &nodes_);
      }
      return rules::HostWait(view_, process, open, node, &nodes_);
    case Call::kCommInit:
    case Call::kCommSplit:
    case Call::kCommShrink:
    case Call::kCommGrow:
      if (open.init == 0) return;
      return rules::CommunicatorCall(view_, open.init, Reason::kCommunicatorInit, node, &nodes_);
    case Call::kGroupEnd:
      for (const PendingInit& pending : thread.group_inits) {
        rules::CommunicatorCall(view_, pending.uid, Reason::kCommunicatorInit, node, &nodes_);
      }
      rules::FirstUse(view_, process, open, thread.group_launches, node, &nodes_);
      return rules::CapturedFirstUse(view_, process, open, thread, node, &nodes_);
    case Call::kCommFinalize:
    case Call::kCommDestroy:
      return rules::Destroy(view_, process, open, node, &nodes_);
    case Call::kCommWindowRegister:
      return rules::MeetMembers(view_, open, node, &nodes_);
    default:
      if (open.launch != 0) {
        rules::FirstUse(view_, process, open, {open.launch}, node, &nodes_);
      }
      if (thread.capture != 0) {
        rules::CapturedFirstUse(view_, process, open, thread, node, &nodes_);
      }
  }
}

const Part* WaitForGraph::PartOf(const WaitNode::Edge& edge) const {
  const Launch* launch = edge.part < 0 ? nullptr : view_.execution.FindLaunch(edge.launch);
  return launch == nullptr ? nullptr : &launch->parts[edge.part];
}

const Part* WaitForGraph::CapturedPartOf(const WaitNode& from, const WaitNode::Edge& edge) const {
  if (from.kind != NodeKind::kThread || edge.reason != Reason::kFirstUse || edge.launch != 0 ||
      edge.part < 0) {
    return nullptr;
  }
  const Thread& thread = view_.execution.Find(from.process)->threads.at(from.thread);
  return &thread.capturing[static_cast<size_t>(edge.part)].part;
}

const WaitNode* WaitForGraph::ThreadNode(ProcessId process, ThreadId thread) const {
  const uint32_t node = nodes_.ThreadOf(process, thread);
  return node == kNoNode ? nullptr : &nodes_[node];
}

std::vector<bool> WaitForGraph::Decide(LeafMask progressing,
                                       const std::vector<bool>& forced) const {
  using Kind = AndOrGraph::Kind;
  if (decider_.size() == 0) {
    size_t edges = 0;
    for (const WaitNode& node : nodes()) edges += node.out.size();
    decider_.Reserve(nodes().size(), edges);
    for (uint32_t i = 0; i < nodes().size(); ++i) {
      const WaitNode& node = nodes_[i];
      decider_.AddNode(node.any ? Kind::kOr : Kind::kAnd);
      if (node.kind == NodeKind::kLeaf) leaves_.push_back(i);
      for (const WaitNode::Edge& edge : node.out) decider_.AddEdge(i, edge.to);
    }
  }
  // Leaves alone differ from question to question: a walk over all nodes would take as long as the
  // decision.
  for (const uint32_t i : leaves_) {
    const LeafKind leaf = nodes_[i].leaf;
    const bool can = leaf == LeafKind::kDone || (Bit(leaf) & progressing) != 0;
    decider_.SetKind(i, can ? Kind::kCan : Kind::kCannot);
  }
  for (uint32_t i = 0; i < forced.size(); ++i) {
    if (forced[i]) decider_.SetKind(i, Kind::kCan);
  }
  std::vector<bool> can = decider_.Decide();
  for (uint32_t i = 0; i < forced.size(); ++i) {
    if (forced[i]) decider_.SetKind(i, nodes_[i].any ? Kind::kOr : Kind::kAnd);
  }
  return can;
}

}  // namespace gordian::model
