// W11d: ncclCommDestroy waits for its rank's work on the communicator, then for the other members.
//
// The others' ncclCommDestroy is what NCCL 2.28 waits for by implementation: it counts after
// ModelOptions::destroy_counts_after_ns, and a verdict that rests on it names it (confirm.cc).
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void Destroy(const WaitView& view, const Process& process, const OpenCall& open, uint32_t thread,
             WaitNodes* nodes) {
  for (LaunchId id : view.launches) {
    const Launch& launch = *view.execution.FindLaunch(id);
    if (launch.process != process.info.process || launch.comm != CommOf(open.record)) continue;
    if (launch.enqueued) nodes->Wait(thread, nodes->DoneOf(id), Reason::kHostSync);
  }
  if (view.Inside(open) < view.options.destroy_counts_after_ns) return;
  MeetMembers(view, open, thread, nodes);
}

}  // namespace gordian::model::rules
