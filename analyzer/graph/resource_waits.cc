// W6: hardware queues and multiprocessors. What shares a queue, and what is resident, no shim can
// see: these waits are in graphs of a conjecture only, and a circle that needs them is a suspicion.
//
// Measured on an H200: with CUDA_DEVICE_MAX_CONNECTIONS=1 a kernel, a wait for a value or a write
// with a barrier that cannot start holds up what was issued after it on any stream; records of
// events and waits for them do not.
#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/graph/wait_for_graph.h"

namespace gordian::graph {
namespace {

constexpr size_t kDefaultConnections = 8;

int DeviceOf(const Process& process, const Kernel& kernel) {
  for (const StreamPosition& position : kernel.positions) {
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

}  // namespace

// In one queue: what was issued before it has started. Of each stream the last of it is enough,
// since that starts after the rest.
void WaitForGraph::QueueWaits(const Process& process, const Kernel& kernel) {
  const int device = DeviceOf(process, kernel);
  if (device < 0 || kernel.parts.empty() || !MoreStreamsThanQueues(process, device)) return;
  const uint32_t start = StartOf(kernel.id);
  const uint64_t order = kernel.parts.front().order;
  for (const auto& [id, queue] : process.streams) {
    if (queue.device != device) continue;
    auto at = std::lower_bound(queue.items.begin(), queue.items.end(), order,
                               [](const WorkItem& item, uint64_t n) { return item.order < n; });
    while (at != queue.items.begin() && std::prev(at)->kind == WorkKind::kEventWait) --at;
    if (at == queue.items.begin()) continue;
    const WorkItem& last = *std::prev(at);
    if (last.kind != WorkKind::kNone) {
      Wait(start, DoneBy(process, {id, last.ordinal - 1}), Reason::kResources);
      continue;
    }
    for (KernelId before : last.kernels) {
      const uint32_t other = StartOf(before);
      if (other != kNoNode && before != kernel.id) Wait(start, other, Reason::kResources);
    }
  }
}

// Nothing known stands before it: it may be resident. Whatever is behind something else holds no
// multiprocessor yet.
bool WaitForGraph::MayBeResident(const Process& process, const Kernel& kernel) const {
  const auto unfinished = [this](KernelId id) { return DoneOf(id) != kNoNode; };
  if (unfinished(kernel.previous_on_comm)) return false;
  if (std::any_of(kernel.graph_order.begin(), kernel.graph_order.end(), unfinished)) return false;
  for (const StreamPosition& position : kernel.positions) {
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

// Each waits until one of those that were issued before it on its device, and may be resident, is
// done.
void WaitForGraph::ProcessorWaits(const std::vector<KernelId>& kernels) {
  std::map<std::pair<ProcessId, int>, uint32_t> held;  // one of all so far is done
  std::vector<const Kernel*> issued;
  for (KernelId id : kernels) {
    const Kernel* kernel = execution_.FindKernel(id);
    if (kernel->enqueued && !kernel->parts.empty()) issued.push_back(kernel);
  }
  std::stable_sort(issued.begin(), issued.end(), [](const Kernel* a, const Kernel* b) {
    return a->parts.front().order < b->parts.front().order;
  });
  for (const Kernel* kernel : issued) {
    const Process& process = *execution_.Find(kernel->process);
    const int device = DeviceOf(process, *kernel);
    if (device < 0 || process.Dead()) continue;
    const auto before = held.find({kernel->process, device});
    if (before != held.end()) Wait(StartOf(kernel->id), before->second, Reason::kResources);
    if (!MayBeResident(process, *kernel)) continue;
    const uint32_t node = Add(NodeKind::kProcessors, true);
    nodes_[node].process = kernel->process;
    nodes_[node].kernel = kernel->id;
    Wait(node, DoneOf(kernel->id), Reason::kResources);
    if (before != held.end()) Wait(node, before->second, Reason::kResources);
    held[{kernel->process, device}] = node;
  }
}

}  // namespace gordian::graph
