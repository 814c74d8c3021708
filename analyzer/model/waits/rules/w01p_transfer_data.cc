// W1p: A receive is done when the matching send has started; a send waits for no other rank.
//
// NCCL buffers sends as far as their size and the transport allow. Under Conjecture::kUnbuffered a
// send waits for the start of its receive, too: a circle that needs that is a suspicion.
#include <utility>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void TransferData(const WaitView& view, const Launch& launch, int index, WaitNodes* nodes) {
  const PartRef& ref = launch.parts[index].ref;
  const bool sends = ref.kind == PartKind::kSend;
  const Buffers buffers =
      view.conjecture == Conjecture::kUnbuffered ? Buffers::kHoldNone : Buffers::kHoldAll;
  if (NeedsOf(RoleOf(launch.parts[index]), buffers) == Needs::kNoOther) return;
  const Transfer* transfer = view.matcher.FindTransfer(ref);
  if (transfer == nullptr || transfer->mismatch != kAgrees) return;
  PartRef other = ref;
  other.kind = sends ? PartKind::kReceive : PartKind::kSend;
  std::swap(other.rank, other.peer);
  nodes->WaitAsPart(nodes->DoneOf(launch.id),
                    PartStart(view, sends ? transfer->receive : transfer->send, other, nodes),
                    sends ? Reason::kSend : Reason::kReceive, index, launch.id);
}

}  // namespace gordian::model::rules
