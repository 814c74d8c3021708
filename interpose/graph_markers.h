// Events inside captured graphs: which captured NCCL operation a launch of the graph is in.
//
// With GORDIAN_GRAPH_MARKERS=1 an event is recorded, as an event-record node
// (CU_EVENT_RECORD_EXTERNAL: CUDA Driver API, cuEventRecordWithFlags), on the captured stream in
// front of each captured NCCL operation and behind it. Recorded on the stream that captures, a node
// joins nothing that was not joined: it only makes the chain longer. Where nothing was captured
// between two operations the marker behind the first is the one in front of the second.
//
// Such an event is not "captured" in the sense that forbids to query it: every launch of the graph
// records it anew, and from the return of the launch a query answers for that launch. Who launched
// what is not known here but in the analyzer: the watcher says which markers are done, and after
// which record it asked (ring::WorkKind::kGraphProgress); analyzer/graph/graph_progress.cc decides
// for which launch that counts, and when it says nothing at all.
//
// Off unless asked for, since it changes the job's graphs: they have more nodes than the job knows
// of, they can no longer be launched from the device or become the body of a condition, and an
// update of an executable graph fails when markers run out between two captures. See
// docs/limits.md.
#ifndef GORDIAN_INTERPOSE_GRAPH_MARKERS_H_
#define GORDIAN_INTERPOSE_GRAPH_MARKERS_H_

#include "interpose/shim_state.h"

namespace gordian::interpose {

// Capture `capture` is at the stream: puts a marker there, or finds the last one still in place.
// Gives its number; 0: none.
uint32_t MarkCaptured(ThreadContext& thread, StreamState& stream, uint64_t capture);

// Says that what the thread just captured on the stream lies between the two markers.
void NoteCapturedBetween(ThreadContext& thread, uint64_t site, const StreamState& stream,
                         uint64_t capture, uint32_t front, uint32_t behind);

// A capture goes into a graph that is there already: it may be the body of a condition, in which
// event-record nodes are forbidden. No further marker is captured in this process.
void StopGraphMarkers(Process& process);

// By the watcher, at a round: publishes which markers are done once nothing has been launched since
// the round before, so that a job that goes on costs nothing. Holds no lock; the context that was
// current is not kept.
void PublishGraphProgress(Process& process);

inline bool GraphMarkersOn(const Process& process) {
  return __builtin_expect(process.graph_markers_on.load(std::memory_order_relaxed) != 0, 0);
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_GRAPH_MARKERS_H_
