#include "analyzer/model/waits/wait_for_dot.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>
#include <sstream>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {
namespace {

struct Vertex {
  std::string label;
  bool any = false;
};
struct Arc {
  std::string label;
};
using Drawing = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Arc>;

std::string Label(const WaitForGraph& graph, const Names& names, const WaitNode& node) {
  const Describer describer(graph, names);
  const std::string rank =
      node.process == 0 ? "" : "rank " + std::to_string(describer.RankOf(node));
  switch (node.kind) {
    case NodeKind::kThread:
      return rank + " thread " + std::to_string(node.thread);
    case NodeKind::kNotCalled:
      return rank + " calls";
    case NodeKind::kKeySet:
      return "a process sets the key";
    case NodeKind::kWoken:
      return rank + " wakes a thread of its own";
    case NodeKind::kAnyProcess:
      return "any process calls";
    case NodeKind::kItemDone:
      return rank + " stream " + std::to_string(node.stream) + " done to " +
             std::to_string(node.ordinal);
    case NodeKind::kLaunchStart:
      return rank + " starts " + describer.Operation(node);
    case NodeKind::kLaunchDone:
      return rank + " ends " + describer.Operation(node);
    case NodeKind::kAllStarted:
      return "all started #" + std::to_string(node.sequence) + " on " + names.Comm(node.comm);
    case NodeKind::kAllCalled:
      return "all called #" + std::to_string(node.sequence) + " on " + names.Comm(node.comm);
    case NodeKind::kSignals:
      return std::to_string(node.sequence) + " signals have left for rank " +
             std::to_string(describer.RankOf(node));
    case NodeKind::kMemory:
      return "the value that " + rank + " stream " + std::to_string(node.stream) + " waits for";
    case NodeKind::kProcessors:
      return "multiprocessors of " + rank + " are free";
    case NodeKind::kAnyWork:
      return "any work of " + rank;
    case NodeKind::kInit:
      return "all make the communicator";
    case NodeKind::kLeaf:
      break;
  }
  switch (node.leaf) {
    case LeafKind::kKernel:
      return rank + " kernels";
    case LeafKind::kRunning:
      return rank + " runs";
    case LeafKind::kAsleep:
      return rank + " sleeps outside of NCCL and CUDA";
    case LeafKind::kUnknown:
      return "unseen";
    case LeafKind::kDead:
      return rank + " ended";
    case LeafKind::kStopped:
      return rank + " stopped";
    case LeafKind::kAborted:
      return rank + " aborted";
    case LeafKind::kLeft:
      return rank + " left";
    case LeafKind::kMemory:
      return "an unseen writer";
    case LeafKind::kDone:
    case LeafKind::kNone:
      break;
  }
  return "done";
}

}  // namespace

std::string WaitForDot(const WaitForGraph& graph, const Names& names,
                       const std::vector<bool>& can) {
  const auto& nodes = graph.nodes();
  auto shown = [&](uint32_t n) { return can.empty() || !can[n]; };
  std::vector<size_t> vertex(nodes.size(), 0);
  Drawing drawing;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (!shown(n)) continue;
    vertex[n] = boost::add_vertex(Vertex{Label(graph, names, nodes[n]), nodes[n].any}, drawing);
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (!shown(n)) continue;
    for (const WaitNode::Edge& edge : nodes[n].out) {
      if (shown(edge.to)) {
        boost::add_edge(vertex[n], vertex[edge.to], Arc{Name(edge.reason)}, drawing);
      }
    }
  }
  std::ostringstream out;
  boost::write_graphviz(
      out, drawing,
      [&](std::ostream& to, size_t v) {
        to << "[label=" << boost::escape_dot_string(drawing[v].label)
           << (drawing[v].any ? ", shape=diamond" : "") << "]";
      },
      boost::make_label_writer(boost::get(&Arc::label, drawing)));
  return out.str();
}

}  // namespace gordian::model
