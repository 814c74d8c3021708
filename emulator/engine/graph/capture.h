// The state of a capture sequence: from cudaStreamBeginCapture to cudaStreamEndCapture, over all
// streams that joined it by waiting for one of its events. Plain data; callers hold the engine's
// lock.
#ifndef GORDIAN_EMULATOR_ENGINE_GRAPH_CAPTURE_H_
#define GORDIAN_EMULATOR_ENGINE_GRAPH_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/engine/graph/graph.h"

namespace gordian::emu {

class Stream;

struct Capture {
  uint64_t id = 0;
  Graph* graph = nullptr;
  std::unique_ptr<Graph> made;  // the same, when the capture made it
  Stream* origin = nullptr;
  CaptureMode mode = CaptureMode::kGlobal;
  uint64_t thread = 0;
  bool invalidated = false;
  bool ended = false;
  std::vector<Stream*> streams;     // including the origin
  std::vector<GraphNode*> orphans;  // the last nodes of destroyed streams
};

using CapturePtr = std::shared_ptr<Capture>;

// The position of a stream or event in a capture: the nodes that precede it.
struct CapturePoint {
  CapturePtr sequence;
  std::vector<GraphNode::Edge> after;
  // What the last query of the stream returned: the program may read it until the next one.
  std::vector<void*> told_nodes;
  std::vector<EdgeData> told_edges;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_GRAPH_CAPTURE_H_
