// A graph as the application builds it: nodes, edges, graphs inside nodes. Plain data; callers hold
// the engine's lock.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/engine/device/scheduler.h"
#include "emulator/engine/graph/graph_api.h"

namespace gordian::emu {

class Graph;
struct UserObject;

struct GraphNode {
  struct Edge {
    GraphNode* node;
    EdgeData data;
  };

  Graph* graph = nullptr;
  // Unlike an address never reused in a process: executable graphs and clones refer to it.
  uint64_t id = 0;
  uint64_t copied_from = 0;  // the node of the graph that this one's graph was made from
  int device = 0;
  bool enabled = true;  // in executable graphs
  NodeParams params;
  std::unique_ptr<Graph> child;
  std::vector<Edge> before;  // its dependencies, in the order in which they were added
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

  // Sorts every node behind its dependencies, otherwise by creation. Returns false if there is a
  // cycle; *stuck is then a node on it or behind it.
  bool Sort(std::vector<GraphNode*>* order, GraphNode** stuck) const;
  // Copies it with the graphs in its nodes. Nodes remember their originals; user objects are
  // shared.
  std::unique_ptr<Graph> Copy() const;
  // Calls `visit` for every node, including those of graphs in nodes.
  void Visit(const std::function<void(GraphNode*)>& visit) const;
  bool Any(const std::function<bool(const GraphNode&)>& test) const;
  bool HasMemoryNodes() const;

  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }

  const uint64_t id;
  uint64_t copied_from = 0;
  GraphNode* owner = nullptr;  // the node that holds it
  bool moved = false;          // into that node, not copied
  bool capturing = false;
  int execs = 0;  // executable graphs made from it
  std::map<std::shared_ptr<UserObject>, unsigned> user_objects;

 private:
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

uint64_t NextGraphId();

// A reference-counted object of the application. The thread that drops the last reference calls its
// destructor, without the engine's lock.
struct UserObject {
  void* data = nullptr;
  void (*destroy)(void*) = nullptr;
  ~UserObject() {
    if (destroy != nullptr) destroy(data);
  }
};

// An executable graph: a copy of its graph, and the end of its last launch.
class GraphExec {
 public:
  std::unique_ptr<Graph> body;
  // By the id of the application's node.
  std::unordered_map<uint64_t, GraphNode*> by_origin;
  uint64_t flags = 0;
  void* source = nullptr;  // the graph while it exists
  uint64_t source_id = 0;
  TaskPtr last;  // the end of the latest launch: launches of one executable graph run in turn
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_GRAPH_H_
