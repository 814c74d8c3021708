// Executable graphs: made from graphs, and changed afterwards.
#include <algorithm>
#include <deque>
#include <utility>

#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {
namespace {

bool MayRunFromDevice(const GraphNode& node) {
  return node.type() == NodeType::kKernel || node.type() == NodeType::kCopy ||
         node.type() == NodeType::kFill || node.type() == NodeType::kGraph;
}

bool MayBeDisabled(const GraphNode& node) {
  return node.type() == NodeType::kKernel || node.type() == NodeType::kCopy ||
         node.type() == NodeType::kFill;
}

// A node on a cycle, in the graph or in one inside a node; null when there is none.
GraphNode* FindCycle(const Graph& graph) {
  std::vector<GraphNode*> order;
  GraphNode* stuck = nullptr;
  if (!graph.Sort(&order, &stuck)) return stuck;
  for (const auto& node : graph.nodes()) {
    if (node->child == nullptr) continue;
    if (GraphNode* const inside = FindCycle(*node->child)) return inside;
  }
  return nullptr;
}

}  // namespace

GraphExec* GraphsImpl::FindExec(void* handle) {
  const auto at = execs_.find(handle);
  return at == execs_.end() ? nullptr : at->second.get();
}

GraphNode* GraphsImpl::FindExecNode(GraphExec* exec, void* handle) {
  const GraphNode* const node = FindNode(handle);
  if (node == nullptr) return nullptr;
  const auto at = exec->by_origin.find(node->id);
  return at == exec->by_origin.end() ? nullptr : at->second;
}

int GraphsImpl::Instantiate(void* handle, uint64_t flags, void** exec, InstantiateResult* result,
                            void** error_node) {
  if (const int status = engine_.Initialize()) return status;
  const auto fail = [&](InstantiateResult why, GraphNode* node, int status) {
    if (result != nullptr) *result = why;
    if (error_node != nullptr) *error_node = node;
    return status;
  };
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(handle);
  const uint64_t all = kAutoFreeOnLaunch | kUploadAtInstantiate | kDeviceLaunch | kUseNodePriority;
  if (graph == nullptr || exec == nullptr || (flags & ~all) != 0 || graph->moved ||
      ((flags & kDeviceLaunch) != 0 && (flags & kAutoFreeOnLaunch) != 0)) {
    return fail(InstantiateResult::kError, nullptr, kInvalidValue);
  }
  if (GraphNode* const node = FindCycle(*graph)) {
    return fail(InstantiateResult::kInvalidStructure, node, kInvalidValue);
  }
  if (graph->HasMemoryNodes() && graph->execs > 0) {
    return fail(InstantiateResult::kError, nullptr, kInvalidValue);
  }
  if ((flags & kDeviceLaunch) != 0) {
    GraphNode* wrong = nullptr;
    graph->Visit([&](GraphNode* node) {
      if (!MayRunFromDevice(*node)) wrong = node;
    });
    if (wrong != nullptr || graph->nodes().empty()) {
      return fail(InstantiateResult::kOperationNotSupported, wrong, kNotSupported);
    }
  }
  auto made = std::make_shared<GraphExec>();
  made->body = graph->Copy();
  made->body->Visit([&](GraphNode* node) { made->by_origin[node->copied_from] = node; });
  made->flags = flags;
  made->source = graph;
  made->source_id = graph->id;
  ++graph->execs;
  *exec = made.get();
  execs_[*exec] = std::move(made);
  return fail(InstantiateResult::kSuccess, nullptr, kSuccess);
}

// A running launch keeps what it needs.
int GraphsImpl::DestroyExec(void* handle) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::shared_ptr<GraphExec> dead;
  Scheduler::Section section(*engine_.scheduler_);
  const auto at = execs_.find(handle);
  if (at == execs_.end()) return kInvalidValue;
  dead = std::move(at->second);
  execs_.erase(at);
  if (Graph* const source = FindGraph(dead->source)) --source->execs;
  return kSuccess;
}

int GraphsImpl::GetExecFlags(void* handle, uint64_t* flags) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const GraphExec* const exec = FindExec(handle);
  if (exec == nullptr || flags == nullptr) return kInvalidValue;
  *flags = exec->flags;
  return kSuccess;
}

int GraphsImpl::SetEnabled(void* handle, void* node_handle, bool enabled) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::lock_guard<std::mutex> not_during_launch(launch_mutex_);
  Scheduler::Section section(*engine_.scheduler_);
  GraphExec* const exec = FindExec(handle);
  GraphNode* const node = exec == nullptr ? nullptr : FindExecNode(exec, node_handle);
  if (node == nullptr || !MayBeDisabled(*node)) return kInvalidValue;
  node->enabled = enabled;
  return kSuccess;
}

int GraphsImpl::GetEnabled(void* handle, void* node_handle, bool* enabled) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  GraphExec* const exec = FindExec(handle);
  const GraphNode* const node = exec == nullptr ? nullptr : FindExecNode(exec, node_handle);
  if (node == nullptr || enabled == nullptr || !MayBeDisabled(*node)) return kInvalidValue;
  *enabled = node->enabled;
  return kSuccess;
}

// --- Changes ---

// True for memory of one kind and one device.
bool GraphsImpl::SameMemory(const void* a, const void* b) {
  Allocation first;
  Allocation second;
  const bool first_known = engine_.memory_->Find(a, 0, &first);
  const bool second_known = engine_.memory_->Find(b, 0, &second);
  if (!first_known || !second_known) return first_known == second_known;
  return first.kind == second.kind && first.device == second.device;
}

// Allows the changes that the documentation of cudaGraphExecUpdate and of the
// cudaGraphExec*SetParams calls allows. Returns UpdateResult's numbers.
int GraphsImpl::CheckExecChange(const GraphExec& exec, const GraphNode& node,
                                const NodeParams& params, bool by_update) {
  const auto changed = static_cast<int>(UpdateResult::kParametersChanged);
  switch (params.type) {
    case NodeType::kKernel: {
      if (node.params.kernel.cooperative != params.kernel.cooperative) return changed;
      if (!by_update || (exec.flags & kUseNodePriority) == 0) return 0;
      const auto priority = [](const NodeParams& p) {
        const auto at = p.kernel.attributes.find(kPriorityAttribute);
        return at == p.kernel.attributes.end() ? std::array<char, 64>{} : at->second;
      };
      return priority(node.params) == priority(params)
                 ? 0
                 : static_cast<int>(UpdateResult::kAttributesChanged);
    }
    case NodeType::kCopy: {
      const CopyParams& before = node.params.copy;
      const CopyParams& now = params.copy;
      if (!SameMemory(before.to.At(0, 0), now.to.At(0, 0)) ||
          !SameMemory(before.from.At(0, 0), now.from.At(0, 0))) {
        return changed;
      }
      const bool plain =
          before.height == 1 && before.depth == 1 && now.height == 1 && now.depth == 1;
      return by_update || plain ? 0 : changed;
    }
    case NodeType::kFill: {
      const FillRequest& before = node.params.fill;
      const FillRequest& now = params.fill;
      if (!SameMemory(before.to, now.to)) return changed;
      if (before.height == 1 && now.height == 1) return 0;
      return before.width == now.width && before.height == now.height &&
                     before.pitch == now.pitch && before.element_bytes == now.element_bytes
                 ? 0
                 : changed;
    }
    case NodeType::kAlloc:
    case NodeType::kFree:
      return static_cast<int>(UpdateResult::kNotSupported);
    default:
      return 0;
  }
}

int GraphsImpl::SetExecParams(void* handle, void* node_handle, const NodeParams& params) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::lock_guard<std::mutex> not_during_launch(launch_mutex_);
  std::vector<NodeParams> dead;
  Scheduler::Section section(*engine_.scheduler_);
  GraphExec* const exec = FindExec(handle);
  GraphNode* const node = exec == nullptr ? nullptr : FindExecNode(exec, node_handle);
  if (node == nullptr || node->type() != params.type) return kInvalidValue;
  if (params.type == NodeType::kGraph) {
    const Graph* const graph = FindGraph(params.child);
    if (graph == nullptr || FindCycle(*graph) != nullptr || graph->HasMemoryNodes()) {
      return kInvalidValue;
    }
    std::vector<std::pair<GraphNode*, GraphNode*>> pairs;
    UpdateInfo info;
    if (!PairGraphs(*node->child, *graph, &pairs, &info)) return kInvalidValue;
    for (const auto& [mine, theirs] : pairs) {
      if (CheckExecChange(*exec, *mine, theirs->params, true) != 0) return kInvalidValue;
    }
    for (const auto& [mine, theirs] : pairs) {
      dead.push_back(std::exchange(mine->params, theirs->params));
    }
    return kSuccess;
  }
  if (const int status = CheckParams(params)) return status;
  if (CheckExecChange(*exec, *node, params, false) != 0) return kInvalidValue;
  NodeParams old;
  const int status = Replace(node, params, &old);
  dead.push_back(std::move(old));
  return status;
}

// Pairs the nodes of two graphs as cudaGraphExecUpdate does: exit nodes by creation, and from there
// dependencies in the order in which they were added.
bool GraphsImpl::PairGraphs(const Graph& exec, const Graph& graph,
                            std::vector<std::pair<GraphNode*, GraphNode*>>* pairs,
                            UpdateInfo* info) {
  const auto fail = [info](UpdateResult why, GraphNode* node, GraphNode* from) {
    *info = {why, node, from};
    return false;
  };
  if (exec.nodes().size() != graph.nodes().size()) {
    return fail(UpdateResult::kTopologyChanged, nullptr, nullptr);
  }
  const auto exits = [](const Graph& of) {
    std::vector<GraphNode*> found;
    for (const auto& node : of.nodes()) {
      if (node->after.empty()) found.push_back(node.get());
    }
    return found;
  };
  const std::vector<GraphNode*> mine = exits(exec);
  const std::vector<GraphNode*> theirs = exits(graph);
  if (mine.size() != theirs.size()) {
    GraphNode* const extra = theirs.size() > mine.size() ? theirs[mine.size()] : nullptr;
    return fail(UpdateResult::kTopologyChanged, extra, nullptr);
  }
  std::unordered_map<GraphNode*, GraphNode*> mine_of;
  std::unordered_map<GraphNode*, GraphNode*> theirs_of;
  std::deque<std::pair<GraphNode*, GraphNode*>> to_do;
  const auto pair = [&](GraphNode* a, GraphNode* b) {
    const auto known = mine_of.find(b);
    if (known != mine_of.end()) return known->second == a;
    if (!theirs_of.emplace(a, b).second) return false;
    mine_of[b] = a;
    to_do.emplace_back(a, b);
    return true;
  };
  for (size_t i = 0; i < mine.size(); ++i) pair(mine[i], theirs[i]);
  while (!to_do.empty()) {
    const auto [a, b] = to_do.front();
    to_do.pop_front();
    if (a->type() != b->type()) return fail(UpdateResult::kNodeTypeChanged, b, nullptr);
    if (a->before.size() != b->before.size()) {
      return fail(UpdateResult::kTopologyChanged, b, nullptr);
    }
    for (size_t i = 0; i < a->before.size(); ++i) {
      if (!(a->before[i].data == b->before[i].data) ||
          !pair(a->before[i].node, b->before[i].node)) {
        return fail(UpdateResult::kTopologyChanged, b, b->before[i].node);
      }
    }
    if (a->child != nullptr) {
      if (!PairGraphs(*a->child, *b->child, pairs, info)) return false;
    } else {
      pairs->emplace_back(a, b);
    }
  }
  return true;
}

int GraphsImpl::UpdateExec(void* handle, void* graph_handle, UpdateInfo* info) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::lock_guard<std::mutex> not_during_launch(launch_mutex_);
  std::vector<NodeParams> dead;
  Scheduler::Section section(*engine_.scheduler_);
  GraphExec* const exec = FindExec(handle);
  const Graph* const graph = FindGraph(graph_handle);
  *info = {};
  if (exec == nullptr || graph == nullptr || graph->moved || FindCycle(*graph) != nullptr) {
    info->result = UpdateResult::kError;
    return kInvalidValue;
  }
  std::vector<std::pair<GraphNode*, GraphNode*>> pairs;
  if (!PairGraphs(*exec->body, *graph, &pairs, info)) return kGraphExecUpdateFailure;
  for (const auto& [mine, theirs] : pairs) {
    const int why = CheckExecChange(*exec, *mine, theirs->params, true);
    if (why == 0) continue;
    *info = {static_cast<UpdateResult>(why), theirs, nullptr};
    return kGraphExecUpdateFailure;
  }
  for (const auto& [mine, theirs] : pairs) {
    dead.push_back(std::exchange(mine->params, theirs->params));
  }
  return kSuccess;
}

}  // namespace gordian::emu
