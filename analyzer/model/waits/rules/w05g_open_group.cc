// W5g: A part that was called inside a group waits for the end of the group.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

// Outside of a group the thread is in the call that launches it, which may be connecting (W15).
void OpenGroup(const Launch& launch, WaitNodes* nodes) {
  const uint32_t thread = nodes->ThreadOf(launch.process, launch.thread);
  nodes->Wait(nodes->StartOf(launch.id),
              thread != kNoNode ? thread : nodes->Leaf(LeafKind::kUnknown, launch.process),
              launch.in_group ? Reason::kOpenGroup : Reason::kFirstUse);
}

uint32_t GroupEndReached(const WaitView& view, const Launch& launch, WaitNodes* nodes) {
  const Process& process = *view.execution.Find(launch.process);
  if (process.Dead()) return nodes->Leaf(LeafKind::kDead, launch.process);
  auto thread = process.threads.find(launch.thread);
  if (thread == process.threads.end() || thread->second.in_group_end) {
    return nodes->Leaf(LeafKind::kDone, 0);
  }
  const uint32_t node = nodes->ThreadOf(launch.process, launch.thread);
  return node == kNoNode ? nodes->Leaf(LeafKind::kUnknown, launch.process) : node;
}

}  // namespace gordian::model::rules
