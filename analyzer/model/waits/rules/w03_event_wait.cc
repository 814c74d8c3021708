// W3: An event wait is done when the work is that the event stood behind as the wait was issued.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void EventWait(const Process& process, const WorkItem& item, uint32_t node, WaitNodes* nodes) {
  // A lost record may have been the one that moved the event on.
  if (process.unknown.events && !item.certain) return;
  for (const StreamPosition& position : item.event) {
    nodes->Wait(node, DoneUpTo(process, position, nodes), Reason::kEventWait);
  }
}

}  // namespace gordian::model::rules
