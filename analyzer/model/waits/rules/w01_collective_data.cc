// W1: A collective's part is done when the members whose data it needs have started theirs.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

uint32_t AllStarted(const WaitView& view, int comm, uint64_t sequence, WaitNodes* nodes) {
  uint32_t node;
  if (!nodes->Shared(NodeKind::kAllStarted, false, static_cast<uint64_t>(comm), sequence, &node)) {
    return node;
  }
  (*nodes)[node].comm = comm;
  (*nodes)[node].sequence = sequence;
  const Instance& instance = *view.matcher.FindInstance(comm, sequence);
  for (size_t r = 0; r < instance.members.size(); ++r) {
    const PartRef part{PartKind::kCollective, comm, static_cast<int>(r), -1, sequence};
    nodes->Wait(node, PartStart(view, instance.members[r], part, nodes),
                Reason::kStartedCollective);
  }
  return node;
}

}  // namespace

uint32_t PartStart(const WaitView& view, const MemberSlot& slot, const PartRef& part,
                   WaitNodes* nodes) {
  switch (slot.state) {
    case SlotState::kNone:
      return NotCalled(view, {.comm = part.comm, .rank = part.rank, .part = &part}, nodes);
    case SlotState::kDone:
      return nodes->Leaf(LeafKind::kDone, 0);
    case SlotState::kAborted:
      return nodes->Leaf(LeafKind::kAborted,
                         view.matcher.comms()[part.comm].members[part.rank].process, part.comm);
    case SlotState::kCalled:
      break;
  }
  const uint32_t start = nodes->StartOf(slot.launch);
  return start == kNoNode ? nodes->Leaf(LeafKind::kDone, 0) : start;
}

// Whose data a member needs is in the operation's contract (collective.h).
void CollectiveData(const WaitView& view, const Launch& launch, int index, WaitNodes* nodes) {
  const Part& part = launch.parts[index];
  const PartRef& ref = part.ref;
  const Role role = RoleOf(part);
  const Needs needs = NeedsOf(role, Buffers::kHoldAll);
  if (needs == Needs::kNoOther) return;
  const Instance* instance = view.matcher.FindInstance(ref.comm, ref.sequence);
  // What a mismatched operation waits for is not known: it proves nothing.
  if (instance == nullptr || instance->mismatch != kAgrees) return;
  const int root = role.root_or_peer;
  if (HasRoot(role.call) && (root < 0 || root >= view.matcher.comms()[ref.comm].nranks)) return;
  uint32_t on;
  if (needs == Needs::kOne) {
    PartRef other = ref;
    other.rank = root;
    on = PartStart(view, instance->members[root], other, nodes);
  } else if (IsRoot(role) || instance->done == 0) {
    on = AllStarted(view, ref.comm, ref.sequence, nodes);
  } else {
    return;  // where all need all, a member that is done has met all the others
  }
  nodes->WaitAsPart(nodes->DoneOf(launch.id), on, Reason::kStartedCollective, index, launch.id);
}

}  // namespace gordian::model::rules
