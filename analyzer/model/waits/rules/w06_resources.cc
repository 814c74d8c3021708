// W6: An operation starts when its device has a hardware queue and multiprocessors for it.
//
// Which streams share a queue, and which kernels are resident, no shim can see: these waits are in
// graphs of a conjecture only, and a circle that needs them is a suspicion.
//
// Measured on an H200: with CUDA_DEVICE_MAX_CONNECTIONS=1 a kernel, a wait for a value or a write
// with a barrier that cannot start holds up what was issued after it on any stream; records of
// events and waits for them do not.
#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

constexpr size_t kDefaultConnections = 8;

int DeviceOf(const Process& process, const Launch& launch) {
  for (const StreamPosition& position : launch.positions) {
    auto it = process.streams.find(position.stream);
    if (it != process.streams.end()) return it->second.device;
  }
  return -1;
}

bool MoreStreamsThanQueues(const Process& process, int device) {
  size_t streams = 0, connections = kDefaultConnections;
  for (const auto& [id, queue] : process.streams) {
    if (queue.device != device || queue.destroyed || queue.last == 0) continue;
    ++streams;
    if (queue.connections > 0) connections = queue.connections;
  }
  return streams > connections;
}

// Nothing known stands before it: it may be resident. An operation behind something else holds no
// multiprocessor yet.
bool MayBeResident(const Process& process, const Launch& launch, const WaitNodes& nodes) {
  const auto unfinished = [&](LaunchId id) { return nodes.DoneOf(id) != kNoNode; };
  if (unfinished(launch.previous_on_comm)) return false;
  if (std::any_of(launch.graph_order.begin(), launch.graph_order.end(), unfinished)) return false;
  for (const StreamPosition& position : launch.positions) {
    auto it = process.streams.find(position.stream);
    if (it == process.streams.end() || it->second.items.empty()) continue;
    const WorkItem& first = it->second.items.front();
    if (first.ordinal < position.ordinal) return false;
    for (const StreamPosition& legacy : first.legacy) {
      if (ExecutionGraph::ItemAt(process, legacy) != nullptr) return false;
    }
  }
  return true;
}

}  // namespace

// In one queue, what was issued before it has started. Of each stream the last of it is enough,
// since that starts after the rest.
void SharedQueue(const Process& process, const Launch& launch, WaitNodes* nodes) {
  const int device = DeviceOf(process, launch);
  if (device < 0 || launch.parts.empty() || !MoreStreamsThanQueues(process, device)) return;
  const uint32_t start = nodes->StartOf(launch.id);
  const uint64_t order = launch.parts.front().order;
  for (const auto& [id, queue] : process.streams) {
    if (queue.device != device) continue;
    auto at = std::lower_bound(queue.items.begin(), queue.items.end(), order,
                               [](const WorkItem& item, uint64_t n) { return item.order < n; });
    while (at != queue.items.begin() && std::prev(at)->kind == WorkKind::kEventWait) --at;
    if (at == queue.items.begin()) continue;
    const WorkItem& last = *std::prev(at);
    if (last.kind != WorkKind::kNoWork) {
      nodes->Wait(start, DoneUpTo(process, {id, last.ordinal - 1}, nodes), Reason::kResources);
      continue;
    }
    for (LaunchId before : last.launches) {
      const uint32_t other = nodes->StartOf(before);
      if (other != kNoNode && before != launch.id) nodes->Wait(start, other, Reason::kResources);
    }
  }
}

// Each waits until one of those that were issued before it on its device, and may be resident, is
// done.
void Processors(const WaitView& view, WaitNodes* nodes) {
  std::map<std::pair<ProcessId, int>, uint32_t> held;  // one of all so far is done
  std::vector<const Launch*> issued;
  for (LaunchId id : view.launches) {
    const Launch* launch = view.execution.FindLaunch(id);
    if (launch->enqueued && !launch->parts.empty()) issued.push_back(launch);
  }
  std::stable_sort(issued.begin(), issued.end(), [](const Launch* a, const Launch* b) {
    return a->parts.front().order < b->parts.front().order;
  });
  for (const Launch* launch : issued) {
    const Process& process = *view.execution.Find(launch->process);
    const int device = DeviceOf(process, *launch);
    if (device < 0 || process.Dead()) continue;
    const auto before = held.find({launch->process, device});
    if (before != held.end()) {
      nodes->Wait(nodes->StartOf(launch->id), before->second, Reason::kResources);
    }
    if (!MayBeResident(process, *launch, *nodes)) continue;
    const uint32_t node = nodes->Add(NodeKind::kProcessors, /*any=*/true);
    (*nodes)[node].process = launch->process;
    (*nodes)[node].launch = launch->id;
    nodes->Wait(node, nodes->DoneOf(launch->id), Reason::kResources);
    if (before != held.end()) nodes->Wait(node, before->second, Reason::kResources);
    held[{launch->process, device}] = node;
  }
}

}  // namespace gordian::model::rules
