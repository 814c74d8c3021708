// A graph as the application builds it: nodes, edges between them, graphs inside nodes. Plain data;
// callers hold the engine's lock.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/engine/graph_api.h"
#include "emulator/engine/scheduler.h"

namespace gordian::emu {

class Graph;
struct UserObject;

struct GraphNode {
  struct Edge {
    GraphNode* node;
    EdgeData data;
  };

  Graph* graph = nullptr;
  // Never used twice in a process, as addresses are: executable graphs and clones refer to it.
  uint64_t id = 0;
  uint64_t copied_from = 0;  // the node of the graph that this one's graph was made from
  int device = 0;
  bool enabled = true;  // in executable graphs
  NodeParams params;
  std::unique_ptr<Graph> child;
  std::vector<Edge> before;  // what it depends on, in the order in which that was said
  std::vector<Edge> after;

  NodeType type() const { return params.type; }
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;

  GraphNode* Add(NodeParams params, int device);
  void Remove(GraphNode* node);
  static void Connect(GraphNode* from, GraphNode* to, EdgeData data = {});
  static bool Disconnect(GraphNode* from, GraphNode* to, const EdgeData* data);
  static bool Connected(const GraphNode* from, const GraphNode* to);

  // Every node behind those that it depends on, otherwise in the order of their making. False when
  // there is a cycle; *stuck is a node on it or behind it.
  bool Sort(std::vector<GraphNode*>* order, GraphNode** stuck) const;
  // With the graphs in its nodes. Nodes know what they were copied from; user objects are shared.
  std::unique_ptr<Graph> Copy() const;
  // Calls `visit` for every node, those of graphs in nodes, too.
  void Visit(const std::function<void(GraphNode*)>& visit) const;
  bool Any(const std::function<bool(const GraphNode&)>& test) const;
  bool HasMemoryNodes() const;

  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }

  const uint64_t id;
  uint64_t copied_from = 0;
  GraphNode* owner = nullptr;  // the node that holds it
  bool moved = false;          // into that node, as opposed to copied
  bool capturing = false;
  int execs = 0;  // executable graphs made from it
  std::map<std::shared_ptr<UserObject>, unsigned> user_objects;

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

uint64_t NextGraphId();

// A reference-counted object of the application. Its destructor is called by whoever drops the last
// reference, without the engine's lock.
struct UserObject {
  void* data = nullptr;
  void (*destroy)(void*) = nullptr;
  ~UserObject() {
    if (destroy != nullptr) destroy(data);
  }
};

// What an executable graph is: a copy of its graph, and where its last launch stands.
class GraphExec {
 public:
  std::unique_ptr<Graph> body;
  // By the id of the node that the application knows.
  std::unordered_map<uint64_t, GraphNode*> by_origin;
  uint64_t flags = 0;
  void* source = nullptr;  // the graph, while it lives
  uint64_t source_id = 0;
  TaskPtr last;  // the end of the latest launch: launches of one executable graph run in turn
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_H_
