// Which operations may begin before their turn in their stream.
//
// A run is a stretch of a stream in which nothing but operations, event records and event waits
// stands. All of its operations have their inputs as soon as what was in front of the run is done,
// but for what they get from each other. So a run has started when the turn of its first operation
// has come; or, if it stands behind runs alone (by the stream's order or by event waits), when
// those have. Other work that an event is recorded behind, or a wait follows, gets a marker: the
// run that begins there has started when the marker is reached, whatever else the stream or who
// waits for the event stands behind. Whether operations of a started run touch the same memory is
// the engine's question.
//
// Threads: any. Process-wide, since events join streams of several devices.
#ifndef GORDIAN_RUNTIME_CPU_STREAMS_STREAM_ORDER_H_
#define GORDIAN_RUNTIME_CPU_STREAMS_STREAM_ORDER_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/cpu/task.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime {

struct Run {
  bool started = false;
  bool clean = false;  // nothing else than `after` stands in front of it
  std::vector<std::shared_ptr<Run>> after;
  std::shared_ptr<StreamMarker> marker;  // where it begins; may be null
};

class StreamOrder {
 public:
  static StreamOrder& Get();

  // Only exclusive streams have runs. What is on the stream already counts as foreign.
  void Declare(cudaStream_t stream, bool exclusive, bool empty, StreamDriver* driver = nullptr);
  void Foreign(cudaStream_t stream);
  // Work on the legacy default stream: on all streams but those that stand apart from it.
  void ForeignAll();
  // Called before CUDA's call. `driver` marks what stands at the stream's end; null: nothing is
  // marked.
  void Recorded(const void* event, cudaStream_t stream, StreamDriver* driver = nullptr);
  void Awaited(const void* event, cudaStream_t stream, StreamDriver* driver = nullptr);
  void Forgotten(const void* event);
  void Forget(cudaStream_t stream);

  // The unit is the next on its stream.
  void Place(Unit* unit);
  // Its turn has come.
  void Turn(Unit* unit);
  bool HasStarted(const Unit& unit);

  // Deferred operations of a stream that nothing waits for yet.
  void AddDeferred(cudaStream_t stream, const std::shared_ptr<Task>& task);
  std::vector<std::shared_ptr<Task>> TakeDeferred(cudaStream_t stream);
  // One of them uses memory that `reads` or `writes` may not be used beside.
  bool DeferredConflict(cudaStream_t stream, const Range& reads, const Range& writes);

 private:
  struct Stream {
    bool exclusive = false;
    bool foreign = true;  // something else stands at its end
    bool apart = false;
    std::shared_ptr<Run> run;
    std::vector<std::shared_ptr<Task>> deferred;
  };
  struct Point {  // where an event was recorded
    bool clean = false;
    std::shared_ptr<Run> run;  // null: behind nothing
  };
  static bool Started(Run* run);
  static void Mark(Stream* s, cudaStream_t stream, StreamDriver* driver);

  std::mutex mutex_;
  std::map<cudaStream_t, Stream> streams_;
  std::map<const void*, Point> events_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_STREAMS_STREAM_ORDER_H_
