// W2: Work on a stream starts when the work before it on that stream is done.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

uint32_t DoneUpTo(const Process& process, StreamPosition position, WaitNodes* nodes) {
  auto it = process.streams.find(position.stream);
  if (it == process.streams.end()) return nodes->Leaf(LeafKind::kDone, 0);
  const uint32_t node = WaitNodes::ItemNode(it->second, position.ordinal);
  if (node != kNoNode) return node;
  if (position.ordinal <= it->second.done) return nodes->Leaf(LeafKind::kDone, 0);
  if (position.ordinal <= it->second.soft) return ProgramWork(process, nodes);
  return nodes->Leaf(LeafKind::kUnknown, process.info.process);
}

void StreamOrder(const Process& process, StreamPosition position, uint32_t node, WaitNodes* nodes) {
  nodes->Wait(node, DoneUpTo(process, {position.stream, position.ordinal - 1}, nodes),
              Reason::kStreamOrder);
}

}  // namespace gordian::model::rules
