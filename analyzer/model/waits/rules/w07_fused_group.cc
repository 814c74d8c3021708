// W7: A group's operations on one communicator start together, when all of their streams are free.
//
// They are one launch with a place on each of its streams: it starts when W2 and W13 let it at
// every place, and is done at all of them at once.
#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

// The launch, or another of the group that its thread has not ended.
bool OfOneGroup(const WaitView& view, LaunchId id, const Launch& open) {
  const Launch* const other = view.execution.FindLaunch(id);
  return other != nullptr && other->process == open.process && other->thread == open.thread &&
         !other->enqueued;
}

// The place, or the one before it where the launch's own group has it.
template <typename IsOwn>
StreamPosition BeforeOwn(const Process& process, StreamPosition position, const IsOwn& is_own) {
  const WorkItem* item = ExecutionGraph::ItemAt(process, position);
  if (item != nullptr && std::any_of(item->launches.begin(), item->launches.end(), is_own)) {
    position.ordinal = item->ordinal - 1;
  }
  return position;
}

// Where a group that has not ended will go; GroupEnd may have got as far as some of its places.
void NotYetEnqueued(const WaitView& view, const Process& process, const Launch& launch,
                    uint32_t start, WaitNodes* nodes) {
  const auto is_own = [&](LaunchId id) { return OfOneGroup(view, id, launch); };
  const auto behind = [&](StreamPosition position, Reason reason) {
    nodes->Wait(start, DoneUpTo(process, BeforeOwn(process, position, is_own), nodes), reason);
  };
  for (StreamId id : launch.streams) {
    auto it = process.streams.find(id);
    if (it == process.streams.end()) continue;
    const StreamQueue& queue = it->second;
    if (!queue.items.empty()) behind({id, queue.items.back().ordinal}, Reason::kStreamOrder);
    for (const StreamPosition& legacy : ExecutionGraph::LegacyOrder(process, queue))
      behind(legacy, Reason::kLegacyStream);
  }
}

}  // namespace

void FusedGroup(const WaitView& view, const Process& process, const Launch& launch,
                WaitNodes* nodes) {
  const uint32_t start = nodes->StartOf(launch.id);
  if (!launch.enqueued) return NotYetEnqueued(view, process, launch, start, nodes);
  const auto is_own = [&](LaunchId id) { return id == launch.id; };
  for (const StreamPosition& position : launch.positions) {
    StreamOrder(process, position, start, nodes);
    const WorkItem* item = ExecutionGraph::ItemAt(process, position);
    if (item == nullptr || item->ordinal != position.ordinal) continue;
    for (const StreamPosition& legacy : item->legacy) {
      LegacyStream(process, BeforeOwn(process, legacy, is_own), start, nodes);
    }
  }
}

void FusedGroupItem(const WorkItem& item, uint32_t node, WaitNodes* nodes) {
  for (LaunchId id : item.launches) {
    const uint32_t done = nodes->DoneOf(id);
    if (done != kNoNode) nodes->Wait(node, done, Reason::kStreamOrder);
  }
}

}  // namespace gordian::model::rules
