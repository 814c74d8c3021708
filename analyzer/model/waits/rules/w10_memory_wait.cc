// W10: Work behind a stream's wait for a value in memory waits for one of the word's writers.
//
// A word in device memory that the process allocated, and that no call has shared with others, can
// be written by the process alone: by writes that its streams hold, by any kernel, copy or graph of
// its, or by one that a thread of its has yet to call. Only when a write that would do stands
// somewhere, and neither it nor any of the rest can be reached, does the wait count as stuck. Two
// things cannot be seen from the host: that no other process (a network card may) and no operation
// of NCCL writes the word. So such a finding is a suspicion and names them as its assumptions. Any
// other word has writers that gordian does not see.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

// Any kernel, copy, host function or graph of the process may write any of its memory from its
// start on; and a thread may yet call one.
uint32_t AnyWork(const WaitView& view, const Process& process, WaitNodes* nodes) {
  const ProcessId id = process.info.process;
  uint32_t node;
  if (!nodes->Shared(NodeKind::kAnyWork, /*any=*/true, id, 0, &node)) return node;
  (*nodes)[node].process = id;
  for (const auto& [stream, queue] : process.streams) {
    if (queue.soft > queue.done)
      nodes->Wait(node, ProgramWork(process, nodes), Reason::kMemoryWait);
    for (const WorkItem& item : queue.items) {
      const bool writes =
          item.kind == WorkKind::kKernels || item.kind == WorkKind::kHostFunction || item.graph;
      if (!writes) continue;
      nodes->Wait(node, DoneUpTo(process, {stream, item.ordinal - 1}, nodes), Reason::kMemoryWait);
    }
  }
  nodes->Wait(node, ProcessNotCalled(view, id, /*proven=*/false, nodes), Reason::kNotCalled);
  return node;
}

uint32_t Written(const WaitView& view, const Process& process, const StreamQueue& queue,
                 const WorkItem& wait, WaitNodes* nodes) {
  const ProcessId id = process.info.process;
  const uint32_t node = nodes->Add(NodeKind::kMemory, /*any=*/true);
  (*nodes)[node].process = id;
  (*nodes)[node].stream = queue.id;
  (*nodes)[node].ordinal = wait.ordinal;
  if (process.unknown.writes) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kUnknown, id), Reason::kMemoryWait);
    return node;
  }
  bool known = false;
  if (WrittenHereOnly(process, wait.memory) && !WrittenBefore(process, wait.memory)) {
    for (const auto& [stream, write] : view.WritesOf(process)) {
      if (!MaySatisfy(write->memory, wait.memory)) continue;
      known |= SameWord(write->memory, wait.memory);
      nodes->Wait(node, WaitNodes::ItemNode(*stream, write->ordinal), Reason::kMemoryWait);
    }
    // True, but nothing to show where there is a write that is meant.
    nodes->WaitDiscouraged(node, AnyWork(view, process, nodes), Reason::kMemoryWait);
  }
  // Without a write that is meant for it, some other writer is.
  if (!known) nodes->Wait(node, nodes->Leaf(LeafKind::kMemory, id), Reason::kMemoryWait);
  return node;
}

}  // namespace

void MemoryWait(const WaitView& view, const Process& process, const StreamQueue& queue,
                const WorkItem& wait, uint32_t item, WaitNodes* nodes) {
  nodes->Wait(item, Written(view, process, queue, wait, nodes), Reason::kMemoryWait);
}

}  // namespace gordian::model::rules
