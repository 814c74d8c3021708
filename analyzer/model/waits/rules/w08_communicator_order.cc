// W8: An operation starts when the one before it on its communicator is done at its rank.
//
// On whatever stream that was. Between communicators no order is assumed where calls overlap: on
// two threads, in one group, on non-blocking communicators, in graphs.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void CommunicatorOrder(const Process& process, const Launch& launch, WaitNodes* nodes) {
  LaunchId before = launch.previous_on_comm;
  if (!launch.enqueued) {
    // Its number is given when it is enqueued: as things are, it comes after the last.
    auto local = process.comms.find(launch.comm);
    if (local == process.comms.end() || launch.signal != nullptr) return;
    before = local->second.last_launch;
    if (before == launch.id) return;
  }
  const uint32_t done = nodes->DoneOf(before);
  if (done != kNoNode) nodes->Wait(nodes->StartOf(launch.id), done, Reason::kCommunicatorOrder);
}

}  // namespace gordian::model::rules
