// Operations that the preemptive runtime has begun, mostly before their turn (docs/runtime.md).
// Which these are, each process tells in every round: no rule here says what may begin early, and
// what nobody tells of starts at its turn (W2) and after the operation before it on its
// communicator (W8), to which the runtime does not keep.
#include <algorithm>

#include "analyzer/graph/wait_for_graph.h"

namespace gordian::graph {

namespace {

auto KeyOf(const PartRef& part) {
  return std::tuple(part.comm, part.kind, part.rank,
                    part.kind == PartKind::kCollective ? -1 : part.peer, part.sequence);
}

}  // namespace

void WaitForGraph::FindEarly() {
  for (const auto& [id, process] : execution_.processes()) {
    if (process.Dead() || !process.has_state) continue;
    for (const EarlyOperation& early : process.state.early) {
      const auto local = process.comms.find(early.comm);
      if (local == process.comms.end() || local->second.index < 0) continue;
      const PartKind kind = !early.transfer ? PartKind::kCollective
                            : early.sends   ? PartKind::kSend
                                            : PartKind::kReceive;
      early_.push_back(
          KeyOf({kind, local->second.index, local->second.rank, early.peer, early.sequence}));
    }
  }
  std::sort(early_.begin(), early_.end());
}

bool WaitForGraph::StartsEarly(const Process& process, const Kernel& kernel) const {
  if (!process.has_state || !kernel.enqueued || kernel.parts.empty()) return false;
  if (process.state.early_unknown) return true;
  return std::any_of(kernel.parts.begin(), kernel.parts.end(), [&](const Part& part) {
    return std::binary_search(early_.begin(), early_.end(), KeyOf(part.ref));
  });
}

// It has started; done it is, for whatever comes after it, at its turn alone.
void WaitForGraph::EarlyWaits(const Process& process, const Kernel& kernel, uint32_t done) {
  for (const StreamPosition& position : kernel.positions) {
    Wait(done, DoneBy(process, {position.stream, position.ordinal - 1}), Reason::kStreamOrder);
  }
}

// Of the devices' own helpers nobody can tell what they have begun (docs/runtime-cuda.md): it may
// be whatever stands behind operations alone. A circle that they are about to undo must not be
// told, so one that goes through such an order is none.
bool WaitForGraph::MayStartEarly(const Process& process, const Kernel& kernel) const {
  return process.has_state && process.state.early_behind_operations && kernel.enqueued &&
         !kernel.parts.empty();
}

void WaitForGraph::MayStartWaits(const Process& process, const Kernel& kernel, uint32_t start) {
  for (StreamPosition before : kernel.positions) {
    bool operations = true;  // up to now
    while (operations) {
      const WorkItem* const item = ExecutionGraph::ItemAt(process, before);
      if (item == nullptr || item->ordinal != before.ordinal) break;
      for (const StreamPosition& legacy : item->legacy)
        Wait(start, DoneBy(process, legacy), Reason::kLegacyStream);
      operations = item->kind == WorkKind::kNone && item->legacy.empty();
      if (operations) --before.ordinal;
    }
    Wait(start, DoneBy(process, before), Reason::kStreamOrder);
  }
}

}  // namespace gordian::graph
