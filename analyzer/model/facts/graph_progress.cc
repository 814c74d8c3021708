// Which operation of a launched graph the GPU is in (W12), from events that the shim put into the
// graph (interpose/progress/graph_markers.h).
//
// A marker is one event, whichever launch records it, so that "done" is about the launch that
// recorded it last. It counts for a launch when that one was called before the event was looked at,
// and no other executable graph holds the same marker: launches of one executable graph run one
// after the other, so that the end of a later one is the end of all before it. A graph that was
// instantiated twice, or cloned, could run twice at once: then the marker says nothing.
#include <set>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

void ExecutionGraph::ApplyGraphMarkers(Process& process, const CallRecord& record) {
  const auto& markers = record.As<ring::WorkPayload>();
  auto graph = process.captures.find(markers.ordinal);
  if (graph == process.captures.end()) return;
  const auto front = static_cast<uint32_t>(markers.event);
  const auto behind = static_cast<uint32_t>(markers.event >> 32);
  auto& launches = graph->second.launches;
  const auto on_stream = [&](const CapturedLaunch& launch) {
    for (StreamId stream : launch.streams) {
      if (stream == markers.stream) return true;
    }
    return false;
  };
  // The thread's last one on that stream, and the others of its group.
  const CapturedLaunch* last = nullptr;
  for (auto launch = launches.rbegin(); launch != launches.rend(); ++launch) {
    if (launch->thread != record.thread || !on_stream(*launch)) continue;
    if (last != nullptr && (!last->in_group || !launch->in_group || launch->group != last->group)) {
      return;
    }
    if (last == nullptr) last = &*launch;
    launch->markers.push_back({markers.stream, front, behind});
  }
}

void ExecutionGraph::ApplyGraphProgress(Process& process, const CallRecord& record) {
  const auto& seen = record.As<ring::WorkPayload>();
  // The lost record may have been that of a second executable graph.
  if (process.Lossy()) return;
  const auto done = [&](uint32_t marker) {
    return marker >= seen.stream && marker - seen.stream < 64 &&
           (seen.event >> (marker - seen.stream) & 1) != 0;
  };
  // Executable graphs that hold each marker: those that could be launched, and those that were.
  std::map<uint32_t, std::set<uint64_t>> holders;
  const auto hold = [&](const std::vector<GraphMarkerPair>& pairs, uint64_t instance) {
    for (const GraphMarkerPair& pair : pairs) {
      for (uint32_t marker : {pair.front, pair.behind}) {
        if (done(marker)) holders[marker].insert(instance);
      }
    }
  };
  for (const auto& [handle, exec] : process.graph_execs) {
    for (const CapturedLaunch& launch : exec.launches) hold(launch.markers, exec.instance);
  }
  std::vector<LaunchId> launched;
  for (const auto& [id, launch] : launches_) {
    if (launch.process != process.info.process || launch.graph_markers.empty()) continue;
    hold(launch.graph_markers, launch.graph_instance);
    if (launch.launch_order <= seen.ordinal) launched.push_back(id);
  }
  for (LaunchId id : launched) {
    Launch& launch = *launches_.Find(id);
    bool passed = true;
    for (GraphMarkerPair& pair : launch.graph_markers) {
      const auto says = [&](uint32_t marker) {
        auto holder = holders.find(marker);
        return holder != holders.end() && holder->second.size() == 1;
      };
      pair.passed |= says(pair.behind);
      pair.reached |= pair.passed || says(pair.front);
      passed &= pair.passed;
    }
    if (!passed) continue;
    // Its place on the stream stays: the launch is more than this.
    for (const StreamPosition& position : launch.positions) {
      auto queue = process.streams.find(position.stream);
      if (queue != process.streams.end()) queue->second.last_progress_ns = record.time_ns;
    }
    launch.follows = true;
    LaunchDone(id);
  }
}

}  // namespace gordian::model
