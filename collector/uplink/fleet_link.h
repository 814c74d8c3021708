// The stream to a remote analyzer (`gordian serve`), which may be away at any time: the link drops
// no batch that it took, delivers none twice, and never blocks its caller.
//
// The link numbers a batch when it takes it, and forgets it when the analyzer acknowledges that
// number. In between the batch is in one of three places, oldest first: in memory (sent, or about
// to be; a window of some MiB), in the spool on disk, or, when the disk is full, in memory after
// the spool. After a cut the analyzer's Welcome says how far it has come, and the link sends the
// rest again. The incarnation, a random number, identifies the same collector to the analyzer.
//
//   FleetLink link(options);  link.Start();  ... link.Send(batch) ...;  link.Finish(timeout);
#ifndef GORDIAN_COLLECTOR_UPLINK_FLEET_LINK_H_
#define GORDIAN_COLLECTOR_UPLINK_FLEET_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collector/uplink/clock_sync.h"
#include "collector/uplink/link.h"
#include "common/analyzer_access.h"
#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::collector {

// Thread-safe. Runs two threads: one connects and writes, one reads.
class FleetLink final : public Link {
 public:
  struct Options {
    std::string target;     // HOST:PORT
    AccessFiles access;     // read before each connection
    v1::Hello hello;        // job, node and so on; the link sets backlog, and incarnation if 0
    std::string spool_dir;  // empty: no disk, only memory_bytes
    uint64_t spool_bytes = 4096ull << 20;
    uint64_t window_bytes = 16ull << 20;  // sent and not acknowledged
    uint64_t memory_bytes = 64ull << 20;  // without a spool: not sent yet
    // At the end, after delivery: how long to wait for the job's end on the other nodes, and so for
    // the last verdict.
    uint64_t linger_ns = 3'000'000'000;
    // The link's threads call these; they must not block or call Finish.
    std::function<void(uint64_t round)> on_round;
    std::function<void(const v1::StacksRequest&)> on_stacks;
    std::function<void(bool unfinished)> on_unfinished;  // with each round
    std::function<void(const v1::VerdictNews&)> on_verdict;
    // Receives one line for people on each change: unreachable, refused, connected again, spool
    // full.
    std::function<void(const std::string&)> on_notice;
    // For tests; empty: TCP to `target`.
    std::function<std::shared_ptr<grpc::Channel>()> make_channel;
  };

  explicit FleetLink(Options options);
  ~FleetLink() override;  // calls Finish(0), if the owner did not
  FleetLink(const FleetLink&) = delete;
  FleetLink& operator=(const FleetLink&) = delete;

  void Start() override;
  // Returns false only after Finish.
  bool Send(v1::EventBatch batch) override;
  // True when the spool is full (without one: memory_bytes), and the collector must stop draining.
  bool Full() const override;
  // As the analyzer asks, which serves many; longer while batches cannot go out at once.
  uint64_t GatherNs() const override;

  // Delivers the rest. Gives up when the analyzer neither acknowledges nor reconnects for
  // timeout_ns; the status then says so, and the spool holds every undelivered batch.
  Status Finish(uint64_t timeout_ns) override;

  bool failed() const override { return false; }  // the link keeps trying
  Status status() const override;  // why the analyzer is away, or which batches were not delivered
  uint64_t batches() const override;

  struct Stats {
    bool connected = false;
    uint64_t acked = 0;
    uint64_t connections = 0;  // welcomed
    uint64_t spooled_bytes = 0;
    uint64_t most_spooled_bytes = 0;
    bool has_clock = false;
    ClockSync::Reading clock;
  };
  Stats stats() const;
  uint64_t incarnation() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_FLEET_LINK_H_
