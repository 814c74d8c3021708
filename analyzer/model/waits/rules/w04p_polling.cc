// W4p: A thread that has polled an event or a stream for long waits until what it polls is done.
//
// That its loop leaves in no other way is an assumption, which the finding names (confirm.cc).
#include <algorithm>
#include <vector>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void Polling(const WaitView& view, const Process& process, const ThreadState& state,
             uint32_t thread, WaitNodes* nodes) {
  const uint64_t inside = view.now_ns - std::min(view.now_ns, state.poll_since_ns);
  if (inside < view.options.polling_counts_after_ns ||
      state.poll_count < view.options.polling_counts_after || process.unknown.events) {
    return;
  }
  (*nodes)[thread].since_ns = state.poll_since_ns;
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
