// W14: A wait for an exited or stopped process, or a member that aborted, is never satisfied.
//
// Reported as that process's end, stop or abort, and not as a deadlock.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

bool EndedOrStopped(const Process& process, Reason reason, uint32_t node, WaitNodes* nodes) {
  const ProcessId id = process.info.process;
  if (process.Dead()) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kDead, id), reason);
    return true;
  }
  if (process.has_state && process.state.stopped) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kStopped, id), reason);
  }
  return false;
}

uint32_t LeftCommunicator(const CommMember& member, int comm, WaitNodes* nodes) {
  if (member.aborted) return nodes->Leaf(LeafKind::kAborted, member.process, comm);
  if (member.left) return nodes->Leaf(LeafKind::kLeft, member.process, comm);
  return kNoNode;
}

}  // namespace gordian::model::rules
