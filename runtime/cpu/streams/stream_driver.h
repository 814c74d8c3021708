// What the runtime needs of streams: CUDA's, or its own.
//
// Threads: any. A driver lives as long as its process.
#ifndef GORDIAN_RUNTIME_CPU_STREAMS_STREAM_DRIVER_H_
#define GORDIAN_RUNTIME_CPU_STREAMS_STREAM_DRIVER_H_

#include <cstdint>
#include <memory>

#include "runtime/cpu/task.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime {

// A point on a stream.
class StreamMarker {
 public:
  virtual ~StreamMarker() = default;
  // All that was enqueued before it is done. Does not block.
  virtual bool Reached() = 0;
};

class StreamDriver {
 public:
  virtual ~StreamDriver() = default;

  // Neither waits for the legacy default stream nor that for it.
  virtual bool StandsApart(cudaStream_t) { return false; }
  // The end of the stream as it is now. Null: this driver has no means that adds no dependency, or
  // the stream is being captured.
  virtual std::shared_ptr<StreamMarker> Mark(cudaStream_t) { return nullptr; }

  // Puts `unit` on its stream: once all earlier work is done, Engine::Turn(unit) is called. If the
  // unit is strict, later work waits until Release(unit), else it does not.
  virtual grtResult_t Enqueue(const std::shared_ptr<Unit>& unit) = 0;
  // The unit is finished (perhaps before its turn). Does not block.
  virtual void Release(const std::shared_ptr<Unit>& unit) = 0;
  // Threads of the driver's own work on the units of its streams; else a resident worker is needed.
  virtual bool Carries() const = 0;
  // Of the calling thread.
  virtual int CurrentDevice() = 0;
  // Work on this stream is being noted down for a graph, not run.
  virtual bool IsCapturing(cudaStream_t stream) = 0;
};

// The driver of this process: CUDA's where its libraries are loaded (or were given), else our own.
StreamDriver& TheDriver();

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_STREAMS_STREAM_DRIVER_H_
