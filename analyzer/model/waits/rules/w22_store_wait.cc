// W22: A thread that waits for a key of a store waits until any process has set it.
//
// gordian does not tell stores apart: a key that any process has set in any of them counts as set,
// and deleting it changes nothing. That only loses waits.
#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

namespace {

// A process that waits for the key itself is the last that people look to for it.
bool WaitsFor(const Process& process, uint64_t key) {
  return std::any_of(process.threads.begin(), process.threads.end(), [&](const auto& entry) {
    if (!entry.second.open) return false;
    const auto& wait = entry.second.open->record.template As<ring::HostWaitPayload>();
    return wait.kind == WaitKind::kStore && wait.event == key;
  });
}

}  // namespace

void StoreWait(const WaitView& view, const OpenCall& open, uint32_t thread, WaitNodes* nodes) {
  const uint64_t key = open.record.As<ring::HostWaitPayload>().event;
  if (view.execution.WasSet(key)) return;
  uint32_t node;
  if (nodes->Shared(NodeKind::kKeySet, /*any=*/true, key, 0, &node)) {
    (*nodes)[node].sequence = key;
    size_t expected = 0;
    for (const auto& [id, process] : view.execution.processes()) {
      if (process.info.env_world_size > 0) {
        expected = std::max<size_t>(expected, static_cast<size_t>(process.info.env_world_size));
      }
      if (!process.CalledNccl()) continue;
      const uint32_t calls = ProcessNotCalled(view, id, /*proven=*/false, nodes);
      if (WaitsFor(process, key)) {
        nodes->WaitDiscouraged(node, calls, Reason::kNotCalled);
      } else {
        nodes->Wait(node, calls, Reason::kNotCalled);
      }
    }
    if ((*nodes)[node].out.size() < expected) {
      nodes->Wait(node, nodes->Leaf(LeafKind::kUnknown, 0), Reason::kNotCalled);
    }
  }
  nodes->Wait(thread, node, Reason::kStoreKey);
}

}  // namespace gordian::model::rules
