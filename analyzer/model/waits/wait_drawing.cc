#include "analyzer/model/waits/wait_drawing.h"

#include <boost/graph/graphviz.hpp>
#include <map>
#include <sstream>
#include <utility>

#include "analyzer/model/verdict/describe.h"
#include "analyzer/model/waits/cycle_finder.h"

namespace gordian::model {
namespace {

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

WaitDrawing DrawWaits(const WaitForGraph& graph, const Names& names, const std::vector<bool>& can) {
  const auto& nodes = graph.nodes();
  const Describer describer(graph, names);
  const auto shown = [&](uint32_t n) { return can.empty() || !can[n]; };
  std::map<uint32_t, uint32_t> witness;  // from each of its nodes to the next
  if (!can.empty()) {
    for (const WitnessStep& step : FindWitness(graph, can)) witness[step.node] = step.edge.to;
  }
  std::vector<size_t> place(nodes.size(), 0);
  WaitDrawing drawing;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (!shown(n)) continue;
    place[n] = drawing.nodes.size();
    drawing.nodes.push_back({.label = Label(graph, names, nodes[n]),
                             .rank = nodes[n].process == 0 ? -1 : describer.RankOf(nodes[n]),
                             .any = nodes[n].any,
                             .witness = witness.count(n) > 0});
  }
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    if (!shown(n)) continue;
    for (const WaitNode::Edge& edge : nodes[n].out) {
      if (!shown(edge.to)) continue;
      const auto next = witness.find(n);
      drawing.arcs.push_back({.from = place[n],
                              .to = place[edge.to],
                              .reason = edge.reason,
                              .witness = next != witness.end() && next->second == edge.to});
    }
  }
  return drawing;
}

namespace {

WaitDrawing PartOf(const WaitDrawing& drawing, const std::vector<bool>& nodes, bool only_witness) {
  WaitDrawing part;
  std::vector<size_t> place(drawing.nodes.size(), 0);
  for (size_t n = 0; n < drawing.nodes.size(); ++n) {
    if (!nodes[n]) continue;
    place[n] = part.nodes.size();
    part.nodes.push_back(drawing.nodes[n]);
  }
  for (const WaitDrawing::Arc& arc : drawing.arcs) {
    if (!nodes[arc.from] || !nodes[arc.to] || (only_witness && !arc.witness)) continue;
    part.arcs.push_back(arc);
    part.arcs.back().from = place[arc.from];
    part.arcs.back().to = place[arc.to];
  }
  return part;
}

}  // namespace

WaitDrawing WitnessOf(const WaitDrawing& drawing) {
  std::vector<bool> nodes;
  for (const WaitDrawing::Node& node : drawing.nodes) nodes.push_back(node.witness);
  return PartOf(drawing, nodes, /*only_witness=*/true);
}

WaitDrawing NeighboursOf(const WaitDrawing& drawing, int rank, int hops) {
  std::vector<bool> nodes;
  for (const WaitDrawing::Node& node : drawing.nodes) nodes.push_back(node.rank == rank);
  for (int hop = 0; hop < hops; ++hop) {
    std::vector<bool> further = nodes;
    for (const WaitDrawing::Arc& arc : drawing.arcs) {
      if (nodes[arc.from] || nodes[arc.to]) further[arc.from] = further[arc.to] = true;
    }
    nodes = std::move(further);
  }
  return PartOf(drawing, nodes, /*only_witness=*/false);
}

std::string DotOf(const WaitDrawing& drawing) {
  constexpr char kOnCycle[] = ", class=cycle, color=red";
  std::ostringstream out;
  out << "digraph G {\n";
  for (size_t n = 0; n < drawing.nodes.size(); ++n) {
    const WaitDrawing::Node& node = drawing.nodes[n];
    out << n << "[label=" << boost::escape_dot_string(node.label)
        << (node.any ? ", shape=diamond" : "") << (node.witness ? kOnCycle : "") << "];\n";
  }
  for (const WaitDrawing::Arc& arc : drawing.arcs) {
    out << arc.from << "->" << arc.to << " [label=" << boost::escape_dot_string(Name(arc.reason))
        << (arc.witness ? kOnCycle : "") << "];\n";
  }
  out << "}\n";
  return out.str();
}

namespace {

// Control characters, which XML 1.0 cannot hold, become spaces.
std::string EscapedXml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return escaped;
}

}  // namespace

std::string GraphMlOf(const WaitDrawing& drawing) {
  std::ostringstream out;
  out << R"(<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="label" for="node" attr.name="label" attr.type="string"/>
<key id="rank" for="node" attr.name="rank" attr.type="int"/>
<key id="any" for="node" attr.name="any" attr.type="boolean"/>
<key id="on_witness" for="node" attr.name="witness" attr.type="boolean"/>
<key id="reason" for="edge" attr.name="reason" attr.type="string"/>
<key id="along_witness" for="edge" attr.name="witness" attr.type="boolean"/>
<graph id="waits" edgedefault="directed">
)";
  const auto yes = [](bool value) { return value ? "true" : "false"; };
  for (size_t n = 0; n < drawing.nodes.size(); ++n) {
    const WaitDrawing::Node& node = drawing.nodes[n];
    out << "<node id=\"" << n << "\"><data key=\"label\">" << EscapedXml(node.label)
        << "</data><data key=\"rank\">" << node.rank << "</data><data key=\"any\">" << yes(node.any)
        << "</data><data key=\"on_witness\">" << yes(node.witness) << "</data></node>\n";
  }
  for (const WaitDrawing::Arc& arc : drawing.arcs) {
    out << "<edge source=\"" << arc.from << "\" target=\"" << arc.to << "\"><data key=\"reason\">"
        << Name(arc.reason) << "</data><data key=\"along_witness\">" << yes(arc.witness)
        << "</data></edge>\n";
  }
  out << "</graph>\n</graphml>\n";
  return out.str();
}

}  // namespace gordian::model
