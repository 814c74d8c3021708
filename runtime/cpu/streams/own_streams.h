// Streams without CUDA: a thread each, which runs what is enqueued one after the other. It carries
// the operations of its stream, and helps others while they are not ready. Who waits for a stream
// without a deadline does its work itself, as long as the thread is not at it: that saves two
// changes of threads a call.
//
// Threads: any. A stream ends with Destroy, which waits for what is on it.
#ifndef GORDIAN_RUNTIME_CPU_STREAMS_OWN_STREAMS_H_
#define GORDIAN_RUNTIME_CPU_STREAMS_OWN_STREAMS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "runtime/cpu/streams/stream_driver.h"

namespace gordian::runtime {

class OwnStreams : public StreamDriver {
 public:
  grtResult_t Enqueue(const std::shared_ptr<Unit>& unit) override;
  void Release(const std::shared_ptr<Unit>& unit) override;
  bool Carries() const override { return true; }
  int CurrentDevice() override { return 0; }
  bool IsCapturing(cudaStream_t) override { return false; }

  grtResult_t Create(cudaStream_t* stream);
  grtResult_t Launch(cudaStream_t stream, std::function<void()> work);
  grtResult_t Synchronize(cudaStream_t stream, uint64_t timeout_ns);
  grtResult_t Destroy(cudaStream_t stream);

 private:
  struct Stream;
  // Null: no stream of ours.
  Stream* Find(cudaStream_t stream);
  static void ThreadMain(Stream* stream);

  std::mutex mutex_;
  std::set<Stream*> streams_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_STREAMS_OWN_STREAMS_H_
