#include "emulator/engine/graph/graph.h"

#include <algorithm>
#include <atomic>

namespace gordian::emu {

uint64_t NextGraphId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

Graph::Graph() : id(NextGraphId()) {}
Graph::~Graph() = default;

GraphNode* Graph::Add(NodeParams params, int device) {
  auto node = std::make_unique<GraphNode>();
  node->graph = this;
  node->id = NextGraphId();
  node->device = device;
  node->params = std::move(params);
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Graph::Remove(GraphNode* node) {
  while (!node->before.empty()) Disconnect(node->before.front().node, node, nullptr);
  while (!node->after.empty()) Disconnect(node, node->after.front().node, nullptr);
  nodes_.erase(std::find_if(nodes_.begin(), nodes_.end(),
                            [node](const auto& other) { return other.get() == node; }));
}

void Graph::Connect(GraphNode* from, GraphNode* to, EdgeData data) {
  from->after.push_back({to, data});
  to->before.push_back({from, data});
}

namespace {

std::vector<GraphNode::Edge>::iterator FindEdge(std::vector<GraphNode::Edge>* edges,
                                                const GraphNode* node, const EdgeData* data) {
  return std::find_if(edges->begin(), edges->end(), [&](const GraphNode::Edge& edge) {
    return edge.node == node && (data == nullptr || edge.data == *data);
  });
}

}  // namespace

bool Graph::Disconnect(GraphNode* from, GraphNode* to, const EdgeData* data) {
  const auto after = FindEdge(&from->after, to, data);
  if (after == from->after.end()) return false;
  const EdgeData found = after->data;
  from->after.erase(after);
  to->before.erase(FindEdge(&to->before, from, &found));
  return true;
}

bool Graph::Connected(const GraphNode* from, const GraphNode* to) {
  return std::any_of(from->after.begin(), from->after.end(),
                     [to](const GraphNode::Edge& edge) { return edge.node == to; });
}

bool Graph::Sort(std::vector<GraphNode*>* order, GraphNode** stuck) const {
  std::unordered_map<const GraphNode*, size_t> waits_for;
  std::map<uint64_t, GraphNode*> ready;  // by id: the order of their making
  for (const auto& node : nodes_) {
    waits_for[node.get()] = node->before.size();
    if (node->before.empty()) ready[node->id] = node.get();
  }
  order->clear();
  while (!ready.empty()) {
    GraphNode* const node = ready.begin()->second;
    ready.erase(ready.begin());
    waits_for.erase(node);
    order->push_back(node);
    for (const GraphNode::Edge& edge : node->after) {
      if (--waits_for[edge.node] == 0) ready[edge.node->id] = edge.node;
    }
  }
  if (order->size() == nodes_.size()) return true;
  for (const auto& node : nodes_) {
    if (waits_for.count(node.get()) != 0) *stuck = node.get();
  }
  return false;
}

std::unique_ptr<Graph> Graph::Copy() const {
  auto copy = std::make_unique<Graph>();
  copy->copied_from = id;
  copy->user_objects = user_objects;
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : nodes_) {
    GraphNode* const made = copy->Add(node->params, node->device);
    made->copied_from = node->id;
    made->enabled = node->enabled;
    if (node->child != nullptr) {
      made->child = node->child->Copy();
      made->child->owner = made;
      made->child->moved = node->child->moved;
    }
    twin[node.get()] = made;
  }
  // Both lists in their own order, which queries and updates go by.
  for (const auto& node : nodes_) {
    for (const auto& edge : node->before) {
      twin[node.get()]->before.push_back({twin[edge.node], edge.data});
    }
    for (const auto& edge : node->after) {
      twin[node.get()]->after.push_back({twin[edge.node], edge.data});
    }
  }
  return copy;
}

void Graph::Visit(const std::function<void(GraphNode*)>& visit) const {
  for (const auto& node : nodes_) {
    visit(node.get());
    if (node->child != nullptr) node->child->Visit(visit);
  }
}

bool Graph::Any(const std::function<bool(const GraphNode&)>& test) const {
  bool any = false;
  Visit([&](const GraphNode* node) { any = any || test(*node); });
  return any;
}

bool Graph::HasMemoryNodes() const {
  return Any([](const GraphNode& node) {
    return node.type() == NodeType::kAlloc || node.type() == NodeType::kFree;
  });
}

}  // namespace gordian::emu
