// The stream to an analyzer: bounded, and never a reason for the caller to wait for ever.
#ifndef GORDIAN_COLLECTOR_UPLINK_H_
#define GORDIAN_COLLECTOR_UPLINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collector/link.h"
#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::collector {

// Thread-safe. Two threads of its own: one writes, one reads.
class Uplink final : public Link {
 public:
  struct Options {
    std::shared_ptr<grpc::Channel> channel;
    v1::Hello hello;
    uint64_t max_queued_bytes = 64ull << 20;
    // Called by the reading thread; must not block and must not call the uplink's Finish.
    std::function<void(uint64_t round)> on_round;
    std::function<void(const v1::StacksRequest&)> on_stacks;  // likewise; may be null
    // Called once, by either thread, when the stream has failed.
    std::function<void()> on_failed;
  };

  explicit Uplink(Options options);
  ~Uplink() override;  // cancels, if Finish was not called
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  // Opens the stream and sends Hello. Does not wait for the analyzer.
  void Start() override;

  // Queues a batch and numbers it. False: the stream has failed; the batch is dropped. Never blocks
  // and never refuses for want of room: who has a choice asks Full() first.
  bool Send(v1::EventBatch batch) override;

  // More than max_queued_bytes wait to be written.
  bool Full() const override;

  // Writes what is queued, says that nothing more comes, and waits until the analyzer has ended the
  // stream, all within timeout_ns; then cancels. Ok: the analyzer took everything and said so.
  Status Finish(uint64_t timeout_ns) override;

  bool failed() const override;
  Status status() const override;     // why it failed
  uint64_t batches() const override;  // sent or queued
  uint64_t acked() const;             // highest number the analyzer has acknowledged

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_H_
