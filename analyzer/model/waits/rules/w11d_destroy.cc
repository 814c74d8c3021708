// W11d: ncclCommFinalize and ncclCommDestroy wait for their rank's work on the communicator.
//
// Destroying then waits until the other members have finalized or destroyed it, too: their ends of
// the connections serve until then. That is so by implementation, measured in 2.28.3 and 2.28.9 and
// read in the source of 2.30.7; which release a job runs is not known here. So it counts after
// ModelOptions::destroy_counts_after_ns, and a circle that rests on it is a suspicion. Finalizing
// waits for no other rank.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void OwnWork(const WaitView& view, const Process& process, CommId comm, Reason reason,
             uint32_t thread, WaitNodes* nodes) {
  for (LaunchId id : view.launches) {
    const Launch& launch = *view.execution.FindLaunch(id);
    if (launch.process != process.info.process || launch.comm != comm) continue;
    if (launch.enqueued) nodes->Wait(thread, nodes->DoneOf(id), reason);
  }
}

void Destroy(const WaitView& view, const Process& process, const OpenCall& open, uint32_t thread,
             WaitNodes* nodes) {
  OwnWork(view, process, CommOf(open.record), Reason::kHostSync, thread, nodes);
  if (open.record.call == Call::kCommFinalize ||
      view.Inside(open) < view.options.destroy_counts_after_ns) {
    return;
  }
  MeetMembers(view, open, thread, nodes);
}

}  // namespace gordian::model::rules
