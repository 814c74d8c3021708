#include "analyzer/model/waits/wait_nodes.h"

#include <algorithm>

namespace gordian::model {

uint32_t WaitNodes::Add(NodeKind kind, bool any) {
  WaitNode& node = nodes_.emplace_back();
  node.kind = kind;
  node.any = any;
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t WaitNodes::Leaf(LeafKind kind, ProcessId process, int comm) {
  const bool done = kind == LeafKind::kDone && process == 0 && comm == -1;
  if (done && done_leaf_ != kNoNode) return done_leaf_;
  auto [it, added] = leaves_.try_emplace({kind, process, comm}, 0);
  if (added) {
    it->second = Add(NodeKind::kLeaf);
    WaitNode& node = nodes_[it->second];
    node.leaf = kind;
    node.process = process;
    node.comm = comm;
    if (done) done_leaf_ = it->second;
  }
  return it->second;
}

bool WaitNodes::Shared(NodeKind kind, bool any, uint64_t a, uint64_t b, uint32_t* node) {
  auto [it, added] = shared_.try_emplace({kind, a, b}, 0);
  if (added) it->second = Add(kind, any);
  *node = it->second;
  return added;
}

void WaitNodes::Reserve(size_t nodes, size_t launches) {
  nodes_.reserve(nodes);
  starts_.Reserve(launches);
}

void WaitNodes::AddThread(const Process& process, const ThreadState& state) {
  const uint32_t node = Add(NodeKind::kThread);
  nodes_[node].process = process.info.process;
  nodes_[node].thread = state.thread;
  nodes_[node].tid = state.tid;
  threads_.emplace_back(process.info.process, state.thread, node);
}

void WaitNodes::AddItems(const Process& process, const StreamQueue& queue) {
  queue.first_node = static_cast<uint32_t>(nodes_.size());
  for (const WorkItem& item : queue.items) {
    const uint32_t node = Add(NodeKind::kItemDone);
    nodes_[node].process = process.info.process;
    nodes_[node].stream = queue.id;
    nodes_[node].ordinal = item.ordinal;
  }
}

void WaitNodes::AddLaunch(const Launch& launch, uint64_t since_ns) {
  for (const NodeKind kind : {NodeKind::kLaunchStart, NodeKind::kLaunchDone}) {
    const uint32_t node = Add(kind);
    nodes_[node].process = launch.process;
    nodes_[node].launch = launch.id;
    nodes_[node].since_ns = since_ns;
    if (kind == NodeKind::kLaunchStart) starts_.Insert(launch.id, node);
  }
}

void WaitNodes::SortThreads() { std::sort(threads_.begin(), threads_.end()); }

uint32_t WaitNodes::ThreadOf(ProcessId process, ThreadId thread) const {
  const auto after =
      std::upper_bound(threads_.begin(), threads_.end(), std::tuple(process, thread, kNoNode));
  if (after == threads_.begin()) return kNoNode;
  const auto& [its_process, its_thread, node] = *std::prev(after);
  return its_process == process && its_thread == thread ? node : kNoNode;
}

uint32_t WaitNodes::ItemNode(const StreamQueue& queue, uint64_t ordinal) {
  const auto after =
      std::upper_bound(queue.items.begin(), queue.items.end(), ordinal,
                       [](uint64_t n, const WorkItem& item) { return n < item.ordinal; });
  if (after == queue.items.begin()) return kNoNode;
  return queue.first_node + static_cast<uint32_t>(after - queue.items.begin()) - 1;
}

}  // namespace gordian::model
