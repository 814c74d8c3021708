// W18: An operation of the runtime for GPUs starts after what on its stream is no operation.
//
// The devices' own helpers do not say what they have begun (docs/runtime-cuda.md): it may be
// whatever stands behind operations alone. They may be about to undo a circle that goes through the
// order of operations, so such a circle must not be reported: W8 does not hold, and W2 only up to
// the last thing before it that is no operation. It is done after the work before it. Operations
// that NCCL has start at their turn.
#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

bool MayBeginBeforeTurn(const Process& process, const Launch& launch, WaitNodes* nodes) {
  if (!process.has_state || !process.state.early_behind_operations || !launch.enqueued ||
      std::none_of(launch.parts.begin(), launch.parts.end(),
                   [](const auto& part) { return part.elsewhere; })) {
    return false;
  }
  const uint32_t start = nodes->StartOf(launch.id);
  for (StreamPosition before : launch.positions) {
    bool operations = true;  // up to now
    while (operations) {
      const WorkItem* const item = ExecutionGraph::ItemAt(process, before);
      if (item == nullptr || item->ordinal != before.ordinal) break;
      for (const StreamPosition& legacy : item->legacy) LegacyStream(process, legacy, start, nodes);
      operations = item->kind == WorkKind::kNoWork && item->legacy.empty();
      if (operations) --before.ordinal;
    }
    nodes->Wait(start, DoneUpTo(process, before, nodes), Reason::kStreamOrder);
  }
  for (const StreamPosition& position : launch.positions) {
    StreamOrder(process, position, nodes->DoneOf(launch.id), nodes);
  }
  return true;
}

}  // namespace gordian::model::rules
