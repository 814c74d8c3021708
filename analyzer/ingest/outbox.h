// What goes to one collector, written by a thread of its own: a write may wait until the other side
// reads, and neither the rounds of other nodes nor the reading of this one may wait for that.
//
// Holds one of each kind, however slow the other side is: a newer request, number or verdict takes
// the place of the one that was not written yet. So a collector that never reads costs its thread
// and the last verdict, whatever happens.
#ifndef GORDIAN_ANALYZER_INGEST_OUTBOX_H_
#define GORDIAN_ANALYZER_INGEST_OUTBOX_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "analyzer/ingest/ingest_stream.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::analyzer {

// A verdict as it travels. Shared by all nodes of a job.
using SharedVerdict = std::shared_ptr<const v1::VerdictNews>;

// Thread-safe. `stream` must outlive it.
class Outbox {
 public:
  explicit Outbox(IngestStream* stream) : stream_(stream), thread_([this] { Run(); }) {}
  ~Outbox() { Finish(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void Request(const v1::RoundRequest& request);
  void Acknowledge(uint64_t batch);
  void Tell(SharedVerdict verdict);
  void AskForStacks(v1::StacksRequest request);
  // At most so many unanswered ones are kept; a collector that asks faster gets no answer.
  static constexpr size_t kMostPongs = 16;
  void Answer(const v1::Ping& ping, uint64_t received_ns);

  // Writes what is left, apart from requests, which no node would answer. Returns when it is written
  // or the stream has broken.
  void Finish();

 private:
  void Run();

  IngestStream* const stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<v1::RoundRequest> round_;
  uint64_t acknowledged_ = 0;
  SharedVerdict verdict_;
  std::optional<v1::StacksRequest> stacks_;
  std::deque<v1::Pong> pongs_;
  bool finish_ = false;
  std::thread thread_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_OUTBOX_H_
