// W12: An operation of a launched CUDA graph starts after those captured before it on its stream.
//
// Its place on the stream that the graph is launched on (W7) and its number (W8) are given at each
// launch anew (facts/graph_launches.cc). Edges between the streams of a capture are not followed: a
// graph may be taken to do more than it can, never less.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void GraphOrder(const Launch& launch, WaitNodes* nodes) {
  for (LaunchId id : launch.graph_order) {
    const uint32_t earlier = nodes->DoneOf(id);
    if (earlier != kNoNode) {
      nodes->Wait(nodes->StartOf(launch.id), earlier, Reason::kGraphOrder);
    }
  }
}

}  // namespace gordian::model::rules
