// CUDA's streams, for operations that the host's processors execute: a host function tells a unit's
// turn, and a wait for a value in pinned memory keeps later work back. The host function does not
// block: one that does would keep the device's other host functions back, and with them operations
// that could go on.
//
// The value of a stream's word is the number of its first units that are all finished, so that
// units may finish in any order. A default stream is that of the communicator's device, whichever
// is current, and each thread's own where it is one: their handles are the same on all devices and
// threads, and their words must not be, or one would be held up by another's operations.
//
// A marker is an event: it adds no dependency, as a host function would. Events are made and asked
// in relaxed capture mode, so that no other thread's capture ends by that.
//
// Threads: any. Lives as long as its process.
#ifndef GORDIAN_RUNTIME_CPU_STREAMS_CUDA_STREAMS_H_
#define GORDIAN_RUNTIME_CPU_STREAMS_CUDA_STREAMS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime {

class CudaStreams : public StreamDriver {
 public:
  explicit CudaStreams(const grtCudaFunctions_t& functions) : cuda_(functions) {}

  grtResult_t Enqueue(const std::shared_ptr<Unit>& unit) override;
  void Release(const std::shared_ptr<Unit>& unit) override;
  bool Carries() const override { return false; }
  int CurrentDevice() override;
  bool IsCapturing(cudaStream_t stream) override;
  bool StandsApart(cudaStream_t stream) override;
  std::shared_ptr<StreamMarker> Mark(cudaStream_t stream) override;

 private:
  class Marker;
  class Relaxed;
  class OnDevice;
  struct Key {
    cudaStream_t handle;
    int device;       // of default streams; else 0
    uint64_t thread;  // of per-thread ones; else 0
    auto operator<=>(const Key&) const = default;
  };
  struct Stream {
    uint64_t* word = nullptr;  // pinned
    uint64_t next = 1;
    uint64_t released = 0;      // so many from the first on
    std::set<uint64_t> beyond;  // and these
  };
  uint64_t* NewWord();
  void* TakeEvent(int device);

  const grtCudaFunctions_t cuda_;
  std::mutex mutex_;
  std::map<Key, Stream> streams_;
  uint64_t* words_ = nullptr;
  size_t words_left_ = 0;
  std::mutex events_mutex_;
  std::map<int, std::vector<void*>> events_;  // spare ones, by device
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_STREAMS_CUDA_STREAMS_H_
