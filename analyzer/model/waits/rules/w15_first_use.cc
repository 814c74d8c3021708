// W15: A thread in the first use of a communicator or peer waits for the first use of the others.
//
// On the host, before anything is enqueued. Collectives only where NCCL_RUNTIME_CONNECT and
// NCCL_CUMEM_ENABLE are not 0; sends and receives, and the collectives that NCCL carries out as
// such, always and with each peer.
#include <set>
#include <utility>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

uint32_t Called(const WaitView& view, const MemberSlot& slot, const PartRef& part,
                WaitNodes* nodes) {
  if (slot.state == SlotState::kNone) {
    return NotCalled(view, {.comm = part.comm, .rank = part.rank, .part = &part}, nodes);
  }
  if (slot.state == SlotState::kAborted) {
    return nodes->Leaf(LeafKind::kAborted,
                       view.matcher.comms()[part.comm].members[part.rank].process, part.comm);
  }
  const Launch* launch = view.execution.FindLaunch(slot.launch);
  if (slot.state == SlotState::kCalled && launch != nullptr && launch->in_group &&
      !launch->enqueued) {
    return GroupEndReached(view, *launch, nodes);
  }
  return nodes->Leaf(LeafKind::kDone, 0);
}

uint32_t AllCalled(const WaitView& view, int comm, uint64_t sequence, WaitNodes* nodes) {
  uint32_t node;
  if (!nodes->Shared(NodeKind::kAllCalled, false, static_cast<uint64_t>(comm), sequence, &node)) {
    return node;
  }
  (*nodes)[node].comm = comm;
  (*nodes)[node].sequence = sequence;
  const Instance& instance = *view.matcher.FindInstance(comm, sequence);
  for (size_t r = 0; r < instance.members.size(); ++r) {
    const int rank = static_cast<int>(r);
    const PartRef part{PartKind::kCollective, comm, rank, -1, sequence};
    const bool captures = instance.members[r].state == SlotState::kNone &&
                          view.begun_uses.HasBegun(comm, rank, std::nullopt);
    nodes->Wait(
        node,
        captures ? nodes->Leaf(LeafKind::kDone, 0) : Called(view, instance.members[r], part, nodes),
        Reason::kFirstUse);
  }
  return node;
}

// What one part of a launch connects.
struct Use {
  const WaitView& view;
  const Process& process;
  const LocalComm& local;
  const Launch& launch;
  int index;  // of the part
  uint32_t thread;
  WaitNodes* nodes;

  const Part& part() const { return launch.parts[index]; }
  void WaitFor(uint32_t on) const {
    nodes->WaitAsPart(thread, on, Reason::kFirstUse, index, launch.id);
  }

  void Pairwise() const {
    const PartRef& ref = part().ref;
    // What it has used before may be among what was lost.
    if (process.unknown.first_uses) return;
    const Instance* instance = view.matcher.FindInstance(ref.comm, ref.sequence);
    if (instance == nullptr || instance->mismatch != kAgrees) return;
    std::set<int> peers;
    for (const std::pair<int, bool>& peer :
         PeersOf(RoleOf(part()), view.matcher.comms()[ref.comm].nranks)) {
      const bool meets =
          instance->members[peer.first].state == SlotState::kNone &&
          view.begun_uses.HasBegun(ref.comm, peer.first, std::pair(ref.rank, !peer.second));
      if (!meets && local.peers_used.count(peer) == 0) peers.insert(peer.first);
    }
    for (const int peer : peers) {
      PartRef other = ref;
      other.rank = peer;
      WaitFor(Called(view, instance->members[peer], other, nodes));
    }
  }

  void Collective() const {
    const PartRef& ref = part().ref;
    if (!process.info.runtime_connect) return;  // connected by the call that made it
    if (local.collective_used || IsEmpty(RoleOf(part()))) return;
    const Instance* instance = view.matcher.FindInstance(ref.comm, ref.sequence);
    if (instance == nullptr || instance->mismatch != kAgrees) return;
    WaitFor(AllCalled(view, ref.comm, ref.sequence, nodes));
  }

  void Transfer() const {
    const PartRef& ref = part().ref;
    const bool sends = ref.kind == PartKind::kSend;
    if (local.peers_used.count({ref.peer, sends}) > 0 || ref.peer == ref.rank) return;
    const model::Transfer* transfer = view.matcher.FindTransfer(ref);
    if (transfer == nullptr) return;
    PartRef other = ref;
    other.kind = sends ? PartKind::kReceive : PartKind::kSend;
    std::swap(other.rank, other.peer);
    const MemberSlot& slot = sends ? transfer->receive : transfer->send;
    if (slot.state == SlotState::kNone &&
        view.begun_uses.HasBegun(ref.comm, ref.peer, std::pair(ref.rank, !sends))) {
      return;
    }
    WaitFor(Called(view, slot, other, nodes));
  }
};

}  // namespace

void Connecting(const WaitView& view, const Launch& launch, uint32_t node, WaitNodes* nodes) {
  if (!launch.connecting) return;
  const auto wait_for = [&](size_t part, uint32_t on) {
    nodes->WaitAsPart(node, on, Reason::kFirstUse, static_cast<int>(part), launch.id);
  };
  for (size_t i = 0; i < launch.parts.size(); ++i) {
    const PartRef& ref = launch.parts[i].ref;
    if (ref.comm < 0 || view.matcher.comms()[ref.comm].opaque || launch.parts[i].elsewhere)
      continue;
    if (ref.kind == PartKind::kCollective) {
      const Instance* instance = view.matcher.FindInstance(ref.comm, ref.sequence);
      const bool all = !IsPairwise(launch.parts[i].signature.call) ||
                       launch.parts[i].signature.call == Call::kAllToAll;
      if (instance == nullptr || instance->mismatch != kAgrees || !all) continue;
      wait_for(i, AllCalled(view, ref.comm, ref.sequence, nodes));
    } else if (const model::Transfer* transfer = view.matcher.FindTransfer(ref)) {
      const bool sends = ref.kind == PartKind::kSend;
      PartRef other = ref;
      other.kind = sends ? PartKind::kReceive : PartKind::kSend;
      std::swap(other.rank, other.peer);
      wait_for(i, Called(view, sends ? transfer->receive : transfer->send, other, nodes));
    }
  }
}

void FirstUse(const WaitView& view, const Process& process, const OpenCall& open,
              const std::vector<LaunchId>& launches, uint32_t thread, WaitNodes* nodes) {
  if (view.Inside(open) < view.options.first_use_counts_after_ns) return;
  for (LaunchId id : launches) {
    const Launch* launch = view.execution.FindLaunch(id);
    auto local = process.comms.find(launch == nullptr ? 0 : launch->comm);
    if (launch == nullptr || launch->enqueued || local == process.comms.end()) continue;
    for (size_t i = 0; i < launch->parts.size(); ++i) {
      const Part& part = launch->parts[i];
      if (part.ref.comm < 0 || view.matcher.comms()[part.ref.comm].opaque || part.elsewhere) {
        continue;
      }
      const Use use{view, process, local->second, *launch, static_cast<int>(i), thread, nodes};
      if (part.ref.kind != PartKind::kCollective) {
        use.Transfer();
      } else if (IsPairwise(part.signature.call)) {
        use.Pairwise();
      } else {
        use.Collective();
      }
    }
  }
}

}  // namespace gordian::model::rules
