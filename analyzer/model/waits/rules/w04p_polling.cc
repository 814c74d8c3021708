// W4p: A thread that has polled an event, a stream or a communicator for long waits for it.
//
// Until the work is done, or what a non-blocking communicator was last asked for: to be made, to
// connect, to be finalized. That the loop leaves in no other way is an assumption, which the
// finding names (confirm.cc).
#include <algorithm>
#include <vector>

#include "analyzer/model/waits/rules/rules.h"
#include "proto/ring/polled_comm.h"

namespace gordian::model::rules {
namespace {

// The communicator waits, and the thread for it.
void Settling(const WaitView& view, const Process& process, CommId id, uint32_t thread,
              WaitNodes* nodes) {
  const auto found = process.comms.find(id);
  if (found == process.comms.end()) return;
  const LocalComm& comm = found->second;
  if (comm.unsettled) {
    CommunicatorCall(view, comm.uid, Reason::kCommunicatorInit, thread, nodes);
    return;
  }
  for (LaunchId launch : view.launches) {
    const Launch& one = *view.execution.FindLaunch(launch);
    if (one.process == process.info.process && one.comm == id) {
      Connecting(view, one, thread, nodes);
    }
  }
  if (comm.finalizing) OwnWork(view, process, id, Reason::kPolling, thread, nodes);
}

}  // namespace

void Polling(const WaitView& view, const Process& process, const ThreadState& state,
             uint32_t thread, WaitNodes* nodes) {
  const uint64_t inside = view.Lasted(state.poll_since_ns);
  if (inside < view.options.polling_counts_after_ns ||
      state.poll_count < view.options.polling_counts_after || process.unknown.events) {
    return;
  }
  (*nodes)[thread].since_ns = state.poll_since_ns;
  if ((state.poll_object & ring::kPolledComm) != 0) {
    const auto comm = static_cast<CommId>(state.poll_object & ~ring::kPolledComm);
    return Settling(view, process, comm, thread, nodes);
  }
  std::vector<StreamPosition> on;
  auto event = process.events.find(state.poll_object);
  if (event != process.events.end()) {
    on.assign(event->second.behind.begin(), event->second.behind.end());
  } else {
    for (const auto& [id, queue] : process.streams) {
      if (queue.handle == state.poll_object && !queue.destroyed) on.push_back({id, queue.last});
    }
    // The same handle value on two devices, or both a stream and not: nothing is known.
    if (on.size() != 1) return;
  }
  for (const StreamPosition& position : on) {
    const uint32_t target = DoneUpTo(process, position, nodes);
    if ((*nodes)[target].leaf != LeafKind::kDone) nodes->Wait(thread, target, Reason::kPolling);
  }
}

}  // namespace gordian::model::rules
