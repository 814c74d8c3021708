// W4: A thread that synchronises waits until the work that its call covered is done.
//
// Synchronising calls and copies wait by contract. cudaFree and its like, and asynchronous copies
// of pageable memory, wait by implementation: they count after ModelOptions::free_counts_after_ns.
#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void HostWait(const WaitView& view, const Process& process, const OpenCall& open, uint32_t thread,
              WaitNodes* nodes) {
  const WaitKind kind = open.record.As<ring::HostWaitPayload>().kind;
  const uint64_t inside = view.Lasted((*nodes)[thread].since_ns);
  const bool by_implementation = kind == WaitKind::kFree || kind == WaitKind::kAsyncCopy;
  if (by_implementation && inside < view.options.free_counts_after_ns) return;
  // A lost record may have been the one that moved the event on.
  if (kind == WaitKind::kEvent && process.unknown.events && !open.certain) return;
  const Reason reason = kind == WaitKind::kFree ? Reason::kHostFree
                        : kind == WaitKind::kCopy || kind == WaitKind::kAsyncCopy
                            ? Reason::kHostCopy
                            : Reason::kHostSync;
  for (const StreamPosition& position : open.covered) {
    const uint32_t on = DoneUpTo(process, position, nodes);
    if ((*nodes)[on].leaf != LeafKind::kDone) nodes->Wait(thread, on, reason);
  }
}

}  // namespace gordian::model::rules
