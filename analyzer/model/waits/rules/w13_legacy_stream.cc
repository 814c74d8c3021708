// W13: Work on the legacy default stream and on blocking streams waits for each other.
//
// Which places of the others that are is fixed when the work is issued
// (ExecutionGraph::LegacyOrder).
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void LegacyStream(const Process& process, StreamPosition position, uint32_t node,
                  WaitNodes* nodes) {
  nodes->Wait(node, DoneUpTo(process, position, nodes), Reason::kLegacyStream);
}

}  // namespace gordian::model::rules
