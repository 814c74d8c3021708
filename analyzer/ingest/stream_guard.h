// What one server grants its streams: so many at once, and so long for whatever a peer has to do
// before it has said who it is, or after it has said its last. A stream costs threads; without
// this, a peer that connects and says nothing, or never reads, would keep them for ever.
#ifndef GORDIAN_ANALYZER_INGEST_STREAM_GUARD_H_
#define GORDIAN_ANALYZER_INGEST_STREAM_GUARD_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace gordian::analyzer {

struct StreamLimits {
  size_t most = 4352;  // at once: the nodes of the largest job, and some that come back
  std::chrono::milliseconds patience{15'000};
};

// Thread-safe. Every Place must have gone before it does.
class StreamGuard {
 public:
  explicit StreamGuard(StreamLimits limits);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

  // One stream's, for as long as it is served.
  class Place {
   public:
    // `context` outlives it.
    Place(StreamGuard* guard, grpc::ServerContext* context);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Why it is not granted; empty: it is.
    const std::string& refused() const { return refused_; }
    // The stream is cancelled when this lasts too long: from Hurry until Relax.
    void Hurry();
    void Relax();

   private:
    StreamGuard* const guard_;
    grpc::ServerContext* const context_;
    std::string refused_;
  };

  size_t streams() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Run();

  const StreamLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t streams_ = 0;
  std::map<grpc::ServerContext*, Clock::time_point> hurried_;  // until when
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_STREAM_GUARD_H_
