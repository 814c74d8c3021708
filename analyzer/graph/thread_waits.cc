// What a blocked host thread waits for: W4, W5g, W11, W15 and polling.
#include <algorithm>

#include "analyzer/graph/wait_for_graph.h"

namespace gordian::graph {

uint32_t WaitForGraph::AddThread(const Process& process, const ThreadState& state) {
  const uint32_t node = Add(NodeKind::kThread);
  nodes_[node].process = process.info.process;
  nodes_[node].thread = state.thread;
  nodes_[node].tid = state.tid;
  threads_.emplace_back(process.info.process, state.thread, node);
  return node;
}

void WaitForGraph::ThreadWaits(const Process& process, const ThreadState& state, uint32_t node) {
  const ProcessId id = process.info.process;
  // Records on their way may be the ones that tell what it is in, or that it left.
  if (process.merger.incomplete() || state.published != state.collected) {
    Wait(node, Leaf(LeafKind::kUnknown, id), Reason::kNotCalled);
    return;
  }
  nodes_[node].since_ns = state.since_ns;
  auto found = process.threads.find(state.thread);
  const Thread* thread = found == process.threads.end() ? nullptr : &found->second;
  if (state.call_id != 0) {
    const OpenCall* open = thread != nullptr && thread->open ? &*thread->open : nullptr;
    if (open != nullptr && open->record.order == state.call_order) {
      if (state.since_ns == 0) nodes_[node].since_ns = open->record.time_ns;
      switch (open->record.call) {
        case Call::kHostWait:
          HostWait(process, state, *open, node);
          break;
        case Call::kCommInit:
        case Call::kCommSplit:
        case Call::kCommShrink:
        case Call::kCommGrow: {
          const InitCall* init = matcher_.FindInit(open->init);
          if (init != nullptr && open->init != 0) {
            Wait(node, InitNode(*init), Reason::kCommunicatorInit);
          }
          break;
        }
        case Call::kGroupEnd:
          for (const PendingInit& pending : thread->group_inits) {
            const InitCall* init = matcher_.FindInit(pending.uid);
            if (init != nullptr) Wait(node, InitNode(*init), Reason::kCommunicatorInit);
          }
          FirstUse(process, *open, thread->group_kernels, node);
          CapturedFirstUse(process, *open, *thread, node);
          break;
        case Call::kCommDestroy:  // W4 on its own communicator
          for (KernelId kernel_id : kernels_) {
            const Kernel& kernel = *execution_.FindKernel(kernel_id);
            if (kernel.process == id && kernel.comm == open->record.comm && kernel.enqueued) {
              Wait(node, DoneOf(kernel_id), Reason::kHostSync);
            }
          }
          std::sort(nodes_[node].out.begin(), nodes_[node].out.end(),
                    [](const WaitNode::Edge& a, const WaitNode::Edge& b) { return a.to < b.to; });
          Meeting(*open, node);
          break;
        case Call::kCommWindowRegister:
          Meeting(*open, node);
          break;
        default:
          if (open->kernel != 0) FirstUse(process, *open, {open->kernel}, node);
          if (thread->capture != 0) CapturedFirstUse(process, *open, *thread, node);
          break;
      }
    }
    // The record that tells what it waits for was lost, or one that its call refers to: it is not
    // running code of its own, and nothing explains it.
    if (nodes_[node].out.empty() && process.Lossy()) {
      Wait(node, Leaf(LeafKind::kUnknown, id), Reason::kNotCalled);
    }
  } else if (state.poll_object != 0) {
    Polling(process, state, node);
  }
  if (nodes_[node].out.empty()) {
    const auto awake = process.awake_ns.find(state.tid);
    const bool asleep = state.call_id == 0 && state.os_state == OsState::kSleeping &&
                        awake != process.awake_ns.end() &&
                        now_ns_ > awake->second + options_.suspect_after_ns / 2;
    Wait(node, Leaf(asleep ? LeafKind::kAsleep : LeafKind::kRunning, id), Reason::kNotCalled);
  } else {
    waiters_.push_back(node);
  }
  if (process.state.stopped) {
    Wait(node, Leaf(LeafKind::kStopped, id), Reason::kNotCalled);
  }
}

// W11. That a window is registered by all is NCCL's contract; that destroying waits for the other
// processes is what it does.
void WaitForGraph::Meeting(const OpenCall& open, uint32_t node) {
  const uint64_t inside = now_ns_ - std::min(now_ns_, open.record.time_ns);
  const bool by_implementation = open.record.call == Call::kCommDestroy;
  if (by_implementation && inside < options_.destroy_counts_after_ns) return;
  const InitCall* init = open.init == 0 ? nullptr : matcher_.FindInit(open.init);
  if (init == nullptr || init->parent < 0) return;
  const CommMember& mine = matcher_.comms()[init->parent].members[open.init_rank];
  if (mine.aborted) return;  // who has revoked waits for nobody
  Wait(node, InitNode(*init), Reason::kCommunicatorCall);
}

void WaitForGraph::HostWait(const Process& process, const ThreadState&, const OpenCall& open,
                            uint32_t node) {
  const WaitKind kind = open.record.wait;
  const uint64_t inside = now_ns_ - std::min(now_ns_, nodes_[node].since_ns);
  const bool by_implementation = kind == WaitKind::kFree || kind == WaitKind::kAsyncCopy;
  if (by_implementation && inside < options_.free_counts_after_ns) return;
  // The event may have moved on unseen.
  if (kind == WaitKind::kEvent && process.Lossy() && !open.certain) return;
  const Reason reason = kind == WaitKind::kFree ? Reason::kHostFree
                        : kind == WaitKind::kCopy || kind == WaitKind::kAsyncCopy
                            ? Reason::kHostCopy
                            : Reason::kHostSync;
  for (const StreamPosition& position : open.covered) {
    const uint32_t on = DoneBy(process, position);
    if (nodes_[on].leaf != LeafKind::kDone) Wait(node, on, reason);
  }
}

void WaitForGraph::Polling(const Process& process, const ThreadState& state, uint32_t node) {
  const uint64_t inside = now_ns_ - std::min(now_ns_, state.poll_since_ns);
  if (inside < options_.polling_counts_after_ns ||
      state.poll_count < options_.polling_counts_after || process.Lossy()) {
    return;
  }
  nodes_[node].since_ns = state.poll_since_ns;
  std::vector<StreamPosition> on;
  auto event = process.events.find(state.poll_object);
  if (event != process.events.end()) {
    on.assign(event->second.behind.begin(), event->second.behind.end());
  } else {
    for (const auto& [id, queue] : process.streams) {
      if (queue.handle == state.poll_object && !queue.destroyed) on.push_back({id, queue.last});
    }
    // The same handle value on two devices, or both a stream and not: nothing is known.
    if (on.size() != 1) return;
  }
  for (const StreamPosition& position : on) {
    const uint32_t target = DoneBy(process, position);
    if (nodes_[target].leaf != LeafKind::kDone) Wait(node, target, Reason::kPolling);
  }
}

// W15: the first use of a communicator or of a peer connects, and the host waits for it.
void WaitForGraph::FirstUse(const Process& process, const OpenCall& open,
                            const std::vector<KernelId>& kernels, uint32_t node) {
  const uint64_t inside = now_ns_ - std::min(now_ns_, open.record.time_ns);
  if (inside < options_.first_use_counts_after_ns) return;
  for (KernelId id : kernels) {
    const Kernel* kernel = execution_.FindKernel(id);
    auto local = process.comms.find(kernel == nullptr ? 0 : kernel->comm);
    if (kernel == nullptr || kernel->enqueued || local == process.comms.end()) continue;
    for (size_t i = 0; i < kernel->parts.size(); ++i) {
      const PartRef& ref = kernel->parts[i].ref;
      if (ref.comm < 0 || matcher_.comms()[ref.comm].opaque) continue;
      const Part& part = kernel->parts[i];
      if (part.elsewhere) continue;
      if (ref.kind == PartKind::kCollective && IsPairwise(part.signature.call)) {
        // What it has used before may be among what was lost.
        if (process.Lossy()) continue;
        const Instance* instance = matcher_.FindInstance(ref.comm, ref.sequence);
        if (instance == nullptr || instance->mismatch != kAgrees) continue;
        std::set<int> peers;
        for (const std::pair<int, bool>& peer : PeersOf(part, matcher_.comms()[ref.comm].nranks)) {
          const bool meets = instance->members[peer.first].state == SlotState::kNone &&
                             HasBegunUse(ref.comm, peer.first, std::pair(ref.rank, !peer.second));
          if (!meets && local->second.peers_used.count(peer) == 0) peers.insert(peer.first);
        }
        for (const int peer : peers) {
          PartRef other = ref;
          other.rank = peer;
          Wait(node, CalledNode(instance->members[peer], other), Reason::kFirstUse,
               static_cast<int>(i), id);
        }
      } else if (ref.kind == PartKind::kCollective) {
        if (!process.info.runtime_connect) continue;  // connected by the call that made it
        if (local->second.collective_used || IsEmpty(kernel->parts[i])) continue;
        const Instance* instance = matcher_.FindInstance(ref.comm, ref.sequence);
        if (instance == nullptr || instance->mismatch != kAgrees) continue;
        Wait(node, AllCalled(ref.comm, ref.sequence), Reason::kFirstUse, static_cast<int>(i), id);
      } else {
        const bool sends = ref.kind == PartKind::kSend;
        if (local->second.peers_used.count({ref.peer, sends}) > 0 || ref.peer == ref.rank) continue;
        const Transfer* transfer = matcher_.FindTransfer(ref);
        if (transfer == nullptr) continue;
        PartRef other = ref;
        other.kind = sends ? PartKind::kReceive : PartKind::kSend;
        std::swap(other.rank, other.peer);
        const MemberSlot& slot = sends ? transfer->receive : transfer->send;
        if (slot.state == SlotState::kNone &&
            HasBegunUse(ref.comm, ref.peer, std::pair(ref.rank, !sends)))
          continue;
        Wait(node, CalledNode(slot, other), Reason::kFirstUse, static_cast<int>(i), id);
      }
    }
  }
}

// The call connects before it captures anything. Which operation it will be is not known before a
// graph is launched, so it meets whatever the others use the communicator for first.
void WaitForGraph::CapturedFirstUse(const Process& process, const OpenCall& open,
                                    const Thread& thread, uint32_t node) {
  const uint64_t inside = now_ns_ - std::min(now_ns_, open.record.time_ns);
  // What it has used before may be among what was lost.
  if (inside < options_.first_use_counts_after_ns || process.Lossy()) return;
  std::set<int> collectives;
  std::set<std::tuple<int, int, bool>> pairs;
  for (size_t i = 0; i < thread.capturing.size(); ++i) {
    const Capturing& captured = thread.capturing[i];
    const PartRef& ref = captured.part.ref;
    auto local = process.comms.find(captured.comm);
    if (local == process.comms.end() || ref.comm < 0 || captured.part.elsewhere || !captured.waits)
      continue;
    const Communicator& comm = matcher_.comms()[ref.comm];
    // What the preemptive runtime has had connects nothing of NCCL's; whether this goes there, too,
    // is not known before its end. Who has aborted waits for nobody.
    if (comm.opaque || local->second.elsewhere || ref.rank >= comm.nranks ||
        comm.members[ref.rank].aborted) {
      continue;
    }
    const FirstUses uses = UsesOf(captured.part, comm.nranks);
    const auto index = static_cast<int>(i);
    if (uses.collectives && process.info.runtime_connect && !local->second.collective_used &&
        collectives.insert(ref.comm).second) {
      Wait(node, AllBegun(ref.comm), Reason::kFirstUse, index);
    }
    for (const auto& [peer, sends] : uses.peers) {
      if (peer < 0 || peer >= comm.nranks || peer == ref.rank) continue;
      if (local->second.peers_used.count({peer, sends}) > 0) continue;
      if (!pairs.insert({ref.comm, peer, sends}).second) continue;
      if (!HasBegunUse(ref.comm, peer, std::pair(ref.rank, !sends)))
        Wait(node, NotCalled(ref.comm, peer, nullptr), Reason::kFirstUse, index);
    }
  }
}

uint32_t WaitForGraph::AllBegun(int comm) {
  auto [it, added] = all_begun_.try_emplace(comm, 0);
  if (!added) return it->second;
  const uint32_t node = it->second = Add(NodeKind::kAllCalled);
  nodes_[node].comm = comm;
  const int nranks = matcher_.comms()[comm].nranks;
  for (int rank = 0; rank < nranks; ++rank) {
    if (!HasBegunUse(comm, rank, std::nullopt))
      Wait(node, NotCalled(comm, rank, nullptr), Reason::kFirstUse);
  }
  return node;
}

const WaitForGraph::Begun& WaitForGraph::BegunBy(const Process& process) const {
  auto [it, added] = begun_.try_emplace(process.info.process);
  Begun& begun = it->second;
  if (!added) return begun;
  const auto add = [&](CommId comm, const Part& part) {
    if (part.ref.comm < 0 || part.elsewhere) return;
    const FirstUses uses = UsesOf(part, matcher_.comms()[part.ref.comm].nranks);
    if (uses.collectives) begun.collectives.insert(comm);
    for (const auto& [peer, sends] : uses.peers) begun.peers.insert({comm, peer, sends});
  };
  const auto add_kernel = [&](KernelId id) {
    const Kernel* kernel = execution_.FindKernel(id);
    if (kernel == nullptr) return;
    for (const Part& part : kernel->parts) add(kernel->comm, part);
  };
  for (const auto& [id, thread] : process.threads) {
    if (!thread.open) continue;
    for (const Capturing& captured : thread.capturing) {
      // A group's operations connect at its end.
      if (captured.in_group == thread.in_group_end) add(captured.comm, captured.part);
    }
    add_kernel(thread.open->kernel);
    if (!thread.in_group_end) continue;
    for (const KernelId kernel : thread.group_kernels) add_kernel(kernel);
  }
  return begun;
}

bool WaitForGraph::HasBegunUse(int comm, int rank,
                               const std::optional<std::pair<int, bool>>& peer) const {
  const CommMember& member = matcher_.comms()[comm].members[rank];
  const Process* process = execution_.Find(member.process);
  if (process == nullptr || process->Dead() || member.aborted) return false;
  auto local = process->comms.find(member.comm);
  if (local == process->comms.end()) return false;
  if (local->second.elsewhere) return true;  // and nobody knows what it has used of NCCL's
  if (peer ? local->second.peers_used.count(*peer) > 0 : local->second.collective_used) return true;
  const Begun& begun = BegunBy(*process);
  return peer ? begun.peers.count({member.comm, peer->first, peer->second}) > 0
              : begun.collectives.count(member.comm) > 0;
}

uint32_t WaitForGraph::AllCalled(int comm, uint64_t sequence) {
  auto [it, added] = all_called_.try_emplace({comm, sequence}, 0);
  if (!added) return it->second;
  const uint32_t node = it->second = Add(NodeKind::kAllCalled);
  nodes_[node].comm = comm;
  nodes_[node].sequence = sequence;
  const Instance& instance = *matcher_.FindInstance(comm, sequence);
  for (size_t r = 0; r < instance.members.size(); ++r) {
    const PartRef part{PartKind::kCollective, comm, static_cast<int>(r), -1, sequence};
    const bool captures = instance.members[r].state == SlotState::kNone &&
                          HasBegunUse(comm, static_cast<int>(r), std::nullopt);
    Wait(node, captures ? Leaf(LeafKind::kDone, 0) : CalledNode(instance.members[r], part),
         Reason::kFirstUse);
  }
  return node;
}

uint32_t WaitForGraph::CalledNode(const MemberSlot& slot, const PartRef& part) {
  if (slot.state == SlotState::kNone) return NotCalled(part.comm, part.rank, &part);
  if (slot.state == SlotState::kAborted) {
    return Leaf(LeafKind::kAborted, matcher_.comms()[part.comm].members[part.rank].process,
                part.comm);
  }
  const Kernel* kernel = execution_.FindKernel(slot.kernel);
  if (slot.state == SlotState::kCalled && kernel != nullptr && kernel->in_group &&
      !kernel->enqueued) {
    const Process& process = *execution_.Find(kernel->process);
    if (process.Dead()) return Leaf(LeafKind::kDead, kernel->process);
    auto thread = process.threads.find(kernel->thread);
    if (thread != process.threads.end() && !thread->second.in_group_end) {  // W5g
      const uint32_t node = ThreadOf(kernel->process, kernel->thread);
      return node == kNoNode ? Leaf(LeafKind::kUnknown, kernel->process) : node;
    }
  }
  return Leaf(LeafKind::kDone, 0);
}

}  // namespace gordian::graph
