// Graphs as the application builds and reads them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {

// --- Handles ---

Graph* GraphsImpl::FindGraph(void* handle) {
  return known_graphs_.count(handle) != 0 ? static_cast<Graph*>(handle) : nullptr;
}

GraphNode* GraphsImpl::FindNode(void* handle) {
  return nodes_.count(handle) != 0 ? static_cast<GraphNode*>(handle) : nullptr;
}

void GraphsImpl::Learn(Graph* graph) {
  known_graphs_.insert(graph);
  for (const auto& node : graph->nodes()) {
    nodes_.insert(node.get());
    if (node->child != nullptr) Learn(node->child.get());
  }
}

void GraphsImpl::Forget(Graph* graph) {
  known_graphs_.erase(graph);
  for (const auto& [handle, exec] : execs_) {
    if (exec->source == graph) exec->source = nullptr;
  }
  for (const auto& node : graph->nodes()) {
    nodes_.erase(node.get());
    if (node->child != nullptr) Forget(node->child.get());
  }
}

namespace {

// True if a capture adds to it, or to a graph inside one of its nodes.
bool IsCapturedInto(const Graph& graph) {
  if (graph.capturing) return true;
  return graph.Any(
      [](const GraphNode& node) { return node.child != nullptr && node.child->capturing; });
}

}  // namespace

// --- Whole graphs ---

int GraphsImpl::CreateGraph(void** graph) {
  if (const int status = engine_.Initialize()) return status;
  auto made = std::make_unique<Graph>();
  *graph = made.get();
  Scheduler::Section section(*engine_.scheduler_);
  Learn(made.get());
  graphs_[*graph] = std::move(made);
  return kSuccess;
}

int GraphsImpl::DestroyGraph(void* handle) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::unique_ptr<Graph> dead;  // destroyed after the lock: its user objects call the application
  Scheduler::Section section(*engine_.scheduler_);
  const auto at = graphs_.find(handle);
  // A graph inside a node is destroyed with its node, a captured one with the capture.
  if (at == graphs_.end() || IsCapturedInto(*at->second)) return kInvalidValue;
  Forget(at->second.get());
  dead = std::move(at->second);
  graphs_.erase(at);
  return kSuccess;
}

int GraphsImpl::CloneGraph(void* handle, void** clone) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr || clone == nullptr) return kInvalidValue;
  if (graph->HasMemoryNodes()) return kNotSupported;
  std::unique_ptr<Graph> made = graph->Copy();
  *clone = made.get();
  Learn(made.get());
  graphs_[*clone] = std::move(made);
  return kSuccess;
}

int GraphsImpl::FindInClone(void* original_node, void* clone, void** node) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const GraphNode* const original = FindNode(original_node);
  const Graph* const graph = FindGraph(clone);
  if (original == nullptr || graph == nullptr || node == nullptr) return kInvalidValue;
  if (graph->copied_from != original->graph->id) return kInvalidValue;
  for (const auto& candidate : graph->nodes()) {
    if (candidate->copied_from != original->id) continue;
    *node = candidate.get();
    return kSuccess;
  }
  return kInvalidValue;
}

// --- Making and removing nodes ---

int GraphsImpl::CheckDependencies(const Graph& graph, const Dependencies& after) {
  if (after.count > 0 && after.nodes == nullptr) return kInvalidValue;
  std::unordered_set<void*> seen;
  for (size_t i = 0; i < after.count; ++i) {
    const GraphNode* const node = FindNode(after.nodes[i]);
    if (node == nullptr || node->graph != &graph || !seen.insert(after.nodes[i]).second) {
      return kInvalidValue;
    }
    if (after.edges == nullptr) continue;
    const EdgeData& edge = after.edges[i];
    if (edge.type > 1 || edge.to_port != 0 || edge.from_port > 2) return kInvalidValue;
    // Only kernels have ports and programmatic edges.
    if (!edge.IsDefault() && node->type() != NodeType::kKernel) return kInvalidValue;
  }
  return kSuccess;
}

int GraphsImpl::CheckCopy(const CopyParams& copy) {
  if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return kInvalidValue;
  bool known[2];
  int i = 0;
  for (const CopyEnd* end : {&copy.to, &copy.from}) {
    if (end->pointer == nullptr) return kInvalidValue;
    const bool rows = copy.height > 1 || copy.depth > 1;
    if (rows && (end->pitch < end->x + copy.width)) return kInvalidValue;
    if (copy.depth > 1 && end->height < end->y + copy.height) return kInvalidValue;
    const char* const first = end->At(0, 0);
    const char* const last = end->At(copy.height - 1, copy.depth - 1) + copy.width;
    Allocation found;
    known[i] = engine_.memory_->Find(first, 0, &found);
    // A range that begins in known memory must end in it.
    if (known[i] && !engine_.memory_->Find(first, last - first, &found)) return kInvalidValue;
    ++i;
  }
  const bool to_device =
      copy.kind == CopyKind::kHostToDevice || copy.kind == CopyKind::kDeviceToDevice;
  const bool from_device =
      copy.kind == CopyKind::kDeviceToHost || copy.kind == CopyKind::kDeviceToDevice;
  return (to_device && !known[0]) || (from_device && !known[1]) ? kInvalidValue : kSuccess;
}

int GraphsImpl::CheckParams(const NodeParams& params) {
  switch (params.type) {
    case NodeType::kCopy:
      return CheckCopy(params.copy);
    case NodeType::kFill: {
      const FillRequest& fill = params.fill;
      const size_t element = fill.element_bytes;
      if (element != 1 && element != 2 && element != 4) return kInvalidValue;
      const size_t row = fill.width * element;
      if (fill.to == nullptr || row == 0 || fill.height == 0) return kInvalidValue;
      if (fill.height > 1 && fill.pitch < row) return kInvalidValue;
      if (reinterpret_cast<uintptr_t>(fill.to) % element != 0) return kInvalidValue;
      Allocation found;
      const size_t bytes = (fill.height - 1) * fill.pitch + row;
      return engine_.memory_->Find(fill.to, bytes, &found) ? kSuccess : kInvalidValue;
    }
    case NodeType::kHost:
      return params.host.function == nullptr ? kInvalidValue : kSuccess;
    case NodeType::kWaitEvent:
    case NodeType::kRecordEvent:
      return engine_.live_events_.count(params.event) == 0 ? kInvalidHandle : kSuccess;
    case NodeType::kKernel:
    case NodeType::kEmpty:
    case NodeType::kGraph:
    case NodeType::kAlloc:
    case NodeType::kFree:
      return kSuccess;
    case NodeType::kSemaphoreSignal:
    case NodeType::kSemaphoreWait:
    case NodeType::kBatchMemOp:
    case NodeType::kConditional:
      return kNotSupported;
  }
  return kInvalidValue;
}

int GraphsImpl::PrepareChild(Graph* parent, NodeParams* params, std::unique_ptr<Graph>* child) {
  Graph* const graph = FindGraph(params->child);
  if (graph == nullptr || graph == parent || IsCapturedInto(*graph)) return kInvalidValue;
  for (const GraphNode* at = parent->owner; at != nullptr; at = at->graph->owner) {
    if (at->graph == graph) return kInvalidValue;
  }
  if (!params->move_child) {
    if (graph->HasMemoryNodes()) return kInvalidValue;
    *child = graph->Copy();
    Learn(child->get());
  } else {
    const auto at = graphs_.find(graph);
    if (at == graphs_.end() || graph->execs > 0) return kInvalidValue;
    *child = std::move(at->second);
    graphs_.erase(at);
    (*child)->moved = true;
  }
  params->child = nullptr;
  return kSuccess;
}

int GraphsImpl::PrepareMemory(Graph* graph, NodeParams* params) {
  AllocParams& alloc = params->alloc;
  if (graph->moved) return kInvalidValue;
  if (params->type == NodeType::kAlloc) {
    if (alloc.bytes == 0 || alloc.device < 0 || alloc.device >= engine_.DeviceCount()) {
      return kInvalidValue;
    }
    alloc.memory = memory_.Reserve(alloc.bytes, alloc.device, graph->id);
    if (alloc.memory == nullptr) return kOutOfMemory;
    alloc.pointer = alloc.memory->pointer;
    return kSuccess;
  }
  alloc.memory = memory_.Find(alloc.pointer);
  // Freed at most once, by its own graph or another.
  if (alloc.memory == nullptr || alloc.memory->freed_in != 0) return kInvalidValue;
  alloc.memory->freed_in = graph->id;
  return kSuccess;
}

int GraphsImpl::AddNode(void* handle, const Dependencies& after, NodeParams* params, void** node) {
  const int device = engine_.CurrentDevice();
  if (device < 0) return engine_.Initialize();
  std::unique_ptr<Graph> child;
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr || node == nullptr) return kInvalidValue;
  if (const int status = CheckDependencies(*graph, after)) return status;
  if (const int status = CheckParams(*params)) return status;
  if (params->type == NodeType::kGraph) {
    if (const int status = PrepareChild(graph, params, &child)) return status;
  } else if (params->type == NodeType::kAlloc || params->type == NodeType::kFree) {
    if (const int status = PrepareMemory(graph, params)) return status;
  }
  GraphNode* const made = graph->Add(*params, device);
  if (child != nullptr) {
    child->owner = made;
    made->child = std::move(child);
  }
  for (size_t i = 0; i < after.count; ++i) {
    Graph::Connect(static_cast<GraphNode*>(after.nodes[i]), made,
                   after.edges != nullptr ? after.edges[i] : EdgeData{});
  }
  nodes_.insert(made);
  *node = made;
  return kSuccess;
}

int GraphsImpl::DestroyNode(void* handle) {
  if (!engine_.Ready()) return engine_.Initialize();
  NodeParams dead;
  std::unique_ptr<Graph> child;
  Scheduler::Section section(*engine_.scheduler_);
  GraphNode* const node = FindNode(handle);
  if (node == nullptr) return kInvalidValue;
  if (node->graph->HasMemoryNodes()) return kNotSupported;
  if (node->graph->capturing || (node->child != nullptr && IsCapturedInto(*node->child))) {
    return kInvalidValue;
  }
  if (node->child != nullptr) Forget(node->child.get());
  child = std::move(node->child);
  dead = std::move(node->params);
  nodes_.erase(handle);
  node->graph->Remove(node);
  return kSuccess;
}

// --- Parameters ---

int GraphsImpl::GetParams(void* handle, NodeParams* params) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  GraphNode* const node = FindNode(handle);
  if (node == nullptr) return kInvalidValue;
  KernelParams& kernel = node->params.kernel;
  kernel.arguments[0] = &kernel.argument;
  kernel.told_arguments = kernel.has_argument ? kernel.arguments.data() : nullptr;
  node->params.alloc.told_access = node->params.alloc.access.data();
  *params = node->params;
  params->child = node->child.get();
  params->move_child = node->child != nullptr && node->child->moved;
  return kSuccess;
}

// A node's type, and being a library's operation, cannot change.
int GraphsImpl::Replace(GraphNode* node, const NodeParams& params, NodeParams* old) {
  if (node->type() != params.type) return kInvalidValue;
  if (params.type == NodeType::kAlloc || params.type == NodeType::kFree ||
      params.type == NodeType::kGraph || params.type == NodeType::kEmpty) {
    return kInvalidValue;
  }
  if (const int status = CheckParams(params)) return status;
  *old = std::move(node->params);
  node->params = params;
  // Attributes have their own calls.
  node->params.kernel.attributes = old->kernel.attributes;
  if (old->type == NodeType::kCopy) {
    // Memory types may come from either API.
    if (params.copy.to.memory_type == 0) {
      node->params.copy.to.memory_type = old->copy.to.memory_type;
    }
    if (params.copy.from.memory_type == 0) {
      node->params.copy.from.memory_type = old->copy.from.memory_type;
    }
  }
  return kSuccess;
}

int GraphsImpl::SetParams(void* handle, const NodeParams& params) {
  if (!engine_.Ready()) return engine_.Initialize();
  NodeParams old;
  Scheduler::Section section(*engine_.scheduler_);
  GraphNode* const node = FindNode(handle);
  return node == nullptr ? kInvalidValue : Replace(node, params, &old);
}

int GraphsImpl::GetType(void* handle, NodeType* type) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const GraphNode* const node = FindNode(handle);
  if (node == nullptr || type == nullptr) return kInvalidValue;
  *type = node->type();
  return kSuccess;
}

int GraphsImpl::GetAttribute(void* handle, int attribute, void* value64) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const GraphNode* const node = FindNode(handle);
  if (node == nullptr || node->type() != NodeType::kKernel || value64 == nullptr) {
    return kInvalidValue;
  }
  memset(value64, 0, 64);
  const auto at = node->params.kernel.attributes.find(attribute);
  if (at != node->params.kernel.attributes.end()) memcpy(value64, at->second.data(), 64);
  return kSuccess;
}

int GraphsImpl::SetAttribute(void* handle, int attribute, const void* value64) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  GraphNode* const node = FindNode(handle);
  if (node == nullptr || node->type() != NodeType::kKernel || value64 == nullptr ||
      attribute <= 0) {
    return kInvalidValue;
  }
  memcpy(node->params.kernel.attributes[attribute].data(), value64, 64);
  return kSuccess;
}

int GraphsImpl::CopyAttributes(void* to_handle, void* from_handle) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  GraphNode* const to = FindNode(to_handle);
  const GraphNode* const from = FindNode(from_handle);
  if (to == nullptr || from == nullptr || to->type() != NodeType::kKernel ||
      from->type() != NodeType::kKernel) {
    return kInvalidValue;
  }
  to->params.kernel.attributes = from->params.kernel.attributes;
  return kSuccess;
}

// --- Queries: with null arrays the number; else at most *count, the rest of the array zeroed ---

namespace {

template <typename T, typename U>
void Tell(const std::vector<T>& found, U* array, size_t count) {
  if (array == nullptr) return;
  for (size_t i = 0; i < count; ++i) array[i] = i < found.size() ? found[i] : U{};
}

}  // namespace

int GraphsImpl::GetNodes(void* handle, bool roots_only, void** nodes, size_t* count) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr || count == nullptr) return kInvalidValue;
  std::vector<GraphNode*> found;
  for (const auto& node : graph->nodes()) {
    if (!roots_only || node->before.empty()) found.push_back(node.get());
  }
  Tell(found, nodes, *count);
  *count = nodes == nullptr ? found.size() : std::min(*count, found.size());
  return kSuccess;
}

int GraphsImpl::GetEdges(void* handle, const EdgeQuery& query) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const Graph* const graph = FindGraph(handle);
  if (graph == nullptr || query.count == nullptr) return kInvalidValue;
  if ((query.from == nullptr) != (query.to == nullptr)) return kInvalidValue;
  std::vector<GraphNode*> from;
  std::vector<GraphNode*> to;
  std::vector<EdgeData> edges;
  for (const auto& node : graph->nodes()) {
    for (const auto& edge : node->after) {
      from.push_back(node.get());
      to.push_back(edge.node);
      edges.push_back(edge.data);
    }
  }
  if (query.from != nullptr && query.edges == nullptr &&
      std::any_of(edges.begin(), edges.end(), [](const auto& e) { return !e.IsDefault(); })) {
    return kLossyQuery;
  }
  Tell(from, query.from, *query.count);
  Tell(to, query.to, *query.count);
  Tell(edges, query.edges, *query.count);
  *query.count = query.from == nullptr ? from.size() : std::min(*query.count, from.size());
  return kSuccess;
}

int GraphsImpl::GetNeighbours(void* handle, bool dependents, void** nodes, EdgeData* edges,
                              size_t* count) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  const GraphNode* const node = FindNode(handle);
  if (node == nullptr || count == nullptr) return kInvalidValue;
  std::vector<GraphNode*> found;
  std::vector<EdgeData> data;
  bool lossy = false;
  for (const auto& edge : dependents ? node->after : node->before) {
    found.push_back(edge.node);
    data.push_back(edge.data);
    lossy |= !edge.data.IsDefault();
  }
  if (nodes != nullptr && edges == nullptr && lossy) return kLossyQuery;
  Tell(found, nodes, *count);
  Tell(data, edges, *count);
  *count = nodes == nullptr ? found.size() : std::min(*count, found.size());
  return kSuccess;
}

// --- Edges ---

int GraphsImpl::AddEdges(void* handle, void* const* from, void* const* to, const EdgeData* edges,
                         size_t count) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr) return kInvalidValue;
  if (count == 0) return kSuccess;
  if (from == nullptr || to == nullptr) return kInvalidValue;
  // All or nothing. A cycle is found when the graph is instantiated.
  std::vector<std::pair<GraphNode*, GraphNode*>> pairs;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* const a = FindNode(from[i]);
    GraphNode* const b = FindNode(to[i]);
    if (a == nullptr || b == nullptr || a == b || a->graph != graph || b->graph != graph ||
        Graph::Connected(a, b) ||
        std::find(pairs.begin(), pairs.end(), std::make_pair(a, b)) != pairs.end()) {
      return kInvalidValue;
    }
    if (edges != nullptr) {
      void* const node = a;
      if (const int status = CheckDependencies(*graph, {&node, &edges[i], 1})) return status;
    }
    pairs.emplace_back(a, b);
  }
  for (size_t i = 0; i < count; ++i) {
    Graph::Connect(pairs[i].first, pairs[i].second, edges != nullptr ? edges[i] : EdgeData{});
  }
  return kSuccess;
}

int GraphsImpl::RemoveEdges(void* handle, void* const* from, void* const* to, const EdgeData* edges,
                            size_t count) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(handle);
  if (graph == nullptr) return kInvalidValue;
  if (count == 0) return kSuccess;
  if (from == nullptr || to == nullptr) return kInvalidValue;
  if (graph->HasMemoryNodes()) return kNotSupported;
  for (size_t i = 0; i < count; ++i) {
    const GraphNode* const a = FindNode(from[i]);
    const GraphNode* const b = FindNode(to[i]);
    if (a == nullptr || b == nullptr || a->graph != graph || b->graph != graph ||
        !Graph::Connected(a, b)) {
      return kInvalidValue;
    }
    for (const auto& edge : a->after) {
      if (edge.node != b) continue;
      if (edges == nullptr && !edge.data.IsDefault()) return kLossyQuery;
      if (edges != nullptr && !(edge.data == edges[i])) return kInvalidValue;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    Graph::Disconnect(static_cast<GraphNode*>(from[i]), static_cast<GraphNode*>(to[i]), nullptr);
  }
  return kSuccess;
}

// --- Memory of graphs ---

int GraphsImpl::GetMemoryAttribute(int device, GraphMemory attribute, uint64_t* value) {
  return memory_.GetAttribute(device, attribute, value);
}

int GraphsImpl::SetMemoryAttribute(int device, GraphMemory attribute, uint64_t value) {
  return memory_.SetAttribute(device, attribute, value);
}

int GraphsImpl::TrimMemory(int device) {
  memory_.Trim(device);
  return kSuccess;
}

}  // namespace gordian::emu
