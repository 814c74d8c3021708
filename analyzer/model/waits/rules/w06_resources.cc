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
#include <unordered_set>
#include <utility>
#include <vector>

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

// Something stood before it on its stream once: what was issued later may have been ready first.
bool WasBehind(const Launch& launch) {
  return std::any_of(launch.positions.begin(), launch.positions.end(),
                     [](const StreamPosition& position) { return position.ordinal > 1; });
}

bool IssuedAfter(const Launch& launch, const Launch& other) {
  return other.parts.front().order > launch.parts.front().order;
}

// The launches that may be resident.
class Residents {
 public:
  explicit Residents(const WaitView& view) : view_(view) {}

  void Add(const Launch& launch) { launches_.insert(launch.id); }
  bool Has(const Launch& launch) const { return launches_.contains(launch.id); }

  // All members of its operations that are not done may be resident. After the last Add.
  bool HasAllMembersOf(const Launch& launch) {
    return std::all_of(launch.parts.begin(), launch.parts.end(),
                       [this](const Part& part) { return HasAll(part.ref); });
  }

 private:
  bool HasAll(const PartRef& ref) {
    if (ref.comm < 0 || view_.matcher.comms()[ref.comm].opaque) return false;  // not known
    if (ref.kind != PartKind::kCollective) {
      const Transfer* const transfer = view_.matcher.FindTransfer(ref);
      return transfer != nullptr && MayRun(transfer->send) && MayRun(transfer->receive);
    }
    // Each of its members asks.
    const auto [known, added] = collectives_.try_emplace({ref.comm, ref.sequence}, false);
    if (!added) return known->second;
    const Instance* const instance = view_.matcher.FindInstance(ref.comm, ref.sequence);
    known->second =
        instance != nullptr && std::all_of(instance->members.begin(), instance->members.end(),
                                           [this](const MemberSlot& slot) { return MayRun(slot); });
    return known->second;
  }

  bool MayRun(const MemberSlot& slot) const {
    return slot.state == SlotState::kDone ||
           (slot.state == SlotState::kCalled && launches_.contains(slot.launch));
  }

  const WaitView& view_;
  std::unordered_set<LaunchId> launches_;
  std::map<std::pair<int, uint64_t>, bool> collectives_;  // by communicator and sequence
};

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
// done. One whose members may all be resident would be done if it had multiprocessors everywhere. It
// may also wait for a later one that was ready earlier, and that waits for a member that cannot start.
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
  Residents residents(view);
  for (const Launch* launch : issued) {
    const Process& process = *view.execution.Find(launch->process);
    if (!process.Dead() && MayBeResident(process, *launch, *nodes)) residents.Add(*launch);
  }
  // By device, in the order of issue: those that wait for a member that cannot start yet.
  std::map<std::pair<ProcessId, int>, std::vector<const Launch*>> unready;
  for (const Launch* launch : issued) {
    if (!residents.Has(*launch) || residents.HasAllMembersOf(*launch)) continue;
    const Process& process = *view.execution.Find(launch->process);
    unready[{launch->process, DeviceOf(process, *launch)}].push_back(launch);
  }
  for (const Launch* launch : issued) {
    const Process& process = *view.execution.Find(launch->process);
    const int device = DeviceOf(process, *launch);
    if (device < 0 || process.Dead()) continue;
    const auto before = held.find({launch->process, device});
    const bool here = residents.Has(*launch);
    uint32_t free = before == held.end() ? kNoNode : before->second;
    const auto others = unready.find({launch->process, device});
    if (here && others != unready.end() && residents.HasAllMembersOf(*launch) &&
        WasBehind(*launch) && IssuedAfter(*launch, *others->second.back())) {
      const uint32_t any = nodes->Add(NodeKind::kProcessors, /*any=*/true);
      (*nodes)[any].process = launch->process;
      (*nodes)[any].launch = launch->id;
      if (free != kNoNode) nodes->Wait(any, free, Reason::kResources);
      for (const Launch* other : others->second) {
        if (IssuedAfter(*launch, *other))
          nodes->Wait(any, nodes->DoneOf(other->id), Reason::kResources);
      }
      free = any;
    }
    if (free != kNoNode) nodes->Wait(nodes->StartOf(launch->id), free, Reason::kResources);
    if (!here) continue;
    const uint32_t node = nodes->Add(NodeKind::kProcessors, /*any=*/true);
    (*nodes)[node].process = launch->process;
    (*nodes)[node].launch = launch->id;
    nodes->Wait(node, nodes->DoneOf(launch->id), Reason::kResources);
    if (before != held.end()) nodes->Wait(node, before->second, Reason::kResources);
    held[{launch->process, device}] = node;
  }
}

}  // namespace gordian::model::rules
