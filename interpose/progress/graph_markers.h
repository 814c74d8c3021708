// Events inside captured graphs, which show the captured NCCL operation that a launch of the graph
// has reached.
//
// With GORDIAN_GRAPH_MARKERS=1 the shim records an event, as an event-record node
// (CU_EVENT_RECORD_EXTERNAL: CUDA Driver API, cuEventRecordWithFlags), on the capturing stream
// before and after each captured NCCL operation. A node on the capturing stream joins nothing new:
// it only makes the chain longer. If nothing was captured between two operations, the marker after
// the first is the one before the second.
//
// Such an event may be queried: every launch of the graph records it anew, and once the launch has
// returned, a query answers for that launch. Only the analyzer knows which launch is which: the
// watcher reports which markers are done, and after which record it asked
// (ring::WorkKind::kGraphProgress); analyzer/model/facts/graph_progress.cc decides to which launch
// that applies, and when it says nothing at all.
//
// Off by default, since it changes the job's graphs: they have more nodes than the job knows, the
// device can no longer launch them, they cannot be the body of a condition, and an update of an
// executable graph fails when markers run out between two captures. See docs/limits.md.
#ifndef GORDIAN_INTERPOSE_PROGRESS_GRAPH_MARKERS_H_
#define GORDIAN_INTERPOSE_PROGRESS_GRAPH_MARKERS_H_

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// Puts a marker into capture `capture` at the stream, or finds the last one if it is still in
// place. Returns its number; 0: none.
uint32_t MarkCaptured(ThreadContext& thread, StreamState& stream, uint64_t capture);

// Records that the thread's last captured work on the stream lies between the two markers.
void NoteCapturedBetween(ThreadContext& thread, uint64_t site, const StreamState& stream,
                         uint64_t capture, uint32_t front, uint32_t behind);

// A capture goes into an existing graph, which may be the body of a condition, where event-record
// nodes are forbidden: captures no further marker in this process.
void StopGraphMarkers(Process& process);

// The watcher calls it at a round: publishes which markers are done if nothing has been launched
// since the previous round, so that a running job pays nothing. Holds no lock, and does not restore
// the current context.
void PublishGraphProgress(Process& process);

inline bool GraphMarkersOn(const Process& process) {
  return __builtin_expect(process.graph_markers_on.load(std::memory_order_relaxed) != 0, 0);
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_PROGRESS_GRAPH_MARKERS_H_
