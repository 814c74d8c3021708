// The stream to an analyzer in this process: bounded, so that the caller never waits for ever.
#ifndef GORDIAN_COLLECTOR_UPLINK_UPLINK_H_
#define GORDIAN_COLLECTOR_UPLINK_UPLINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collector/uplink/link.h"
#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::collector {

// Thread-safe. Runs two threads: one writes, one reads.
class Uplink final : public Link {
 public:
  struct Options {
    std::shared_ptr<grpc::Channel> channel;
    v1::Hello hello;
    uint64_t max_queued_bytes = 64ull << 20;
    // The reading thread calls these; they must not block or call Finish.
    std::function<void(uint64_t round)> on_round;
    std::function<void(const v1::StacksRequest&)> on_stacks;  // may be null
    // Called once, by either thread, when the stream has failed.
    std::function<void()> on_failed;
  };

  explicit Uplink(Options options);
  ~Uplink() override;  // cancels the stream, if the owner did not call Finish
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  // Opens the stream and sends Hello. Does not wait for the analyzer.
  void Start() override;

  // Numbers and queues a batch. Returns false and drops the batch if the stream has failed. Never
  // blocks, and takes a batch even when Full().
  bool Send(v1::EventBatch batch) override;

  // More than max_queued_bytes wait to be written.
  bool Full() const override;

  // Writes the queue, closes its side, and waits until the analyzer ends the stream, all within
  // timeout_ns; then cancels. Ok means that the analyzer took everything and said so.
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

#endif  // GORDIAN_COLLECTOR_UPLINK_UPLINK_H_
