// W8 beyond one communicator: operations that NCCL orders with those of other communicators of
// their device because of NCCL_LAUNCH_ORDER_IMPLICIT. Communicators that share their resources
// (splitShare, shrinkShare) are not ordered by that: measured on H200s with NCCL 2.28.9, parent and
// child in opposite orders on two streams end.
//
// The order is that of the calls. Of calls that overlap, on two threads or in one group, it is not
// known, and none is assumed: they may be taken to do more than they can, never less. So are
// operations of graphs.
#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

// The latest from `last` on, going back by `before`, whose launch had ended when `launch`
// began.
LaunchId ExecutionGraph::Before(const Launch& launch, LaunchId last,
                                LaunchId Launch::*before) const {
  while (last != 0) {
    const Launch* const earlier = launches_.Find(last);
    if (earlier == nullptr) return 0;  // done
    if (earlier->launch_ended <= launch.launch_begun) return last;
    last = earlier->*before;
  }
  return 0;
}

void ExecutionGraph::OrderAmongComms(Process& process, const Thread& thread, const CallRecord& end,
                                     Launch& launch) {
  auto local = process.comms.find(launch.comm);
  // What launched nothing takes no turn, and when a non-blocking communicator launches is not
  // known.
  if (local == process.comms.end() || launch.streams.empty() || !thread.open ||
      end.As<ring::EndPayload>().result != 0) {
    return;
  }
  launch.launch_begun = thread.open->record.order;
  launch.launch_ended = end.order;
  if (!local->second.launch_order) return;
  LaunchId& device = process.last_on_device[local->second.device];
  launch.device_before = Before(launch, device, &Launch::device_before);
  device = launch.id;
}

}  // namespace gordian::model
