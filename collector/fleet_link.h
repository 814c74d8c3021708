// The stream to an analyzer elsewhere (`gordian serve`), which may be away at any time: nothing
// that was taken is dropped, nothing is delivered twice, and the caller never waits.
//
// A batch is numbered when it is taken and forgotten when the analyzer has acknowledged its number.
// In between it is in one of three places, oldest first: in memory (sent, or about to be; a window
// of some MiB), in the spool on disk, and, only when the disk takes no more, in memory behind that.
// After a cut the analyzer says in its Welcome how far it has come; what is behind that is sent
// again. The incarnation, a random number, tells the analyzer that it is still the same collector.
//
//   FleetLink link(options);  link.Start();  ... link.Send(batch) ...;  link.Finish(timeout);
#ifndef GORDIAN_COLLECTOR_FLEET_LINK_H_
#define GORDIAN_COLLECTOR_FLEET_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collector/clock_sync.h"
#include "collector/link.h"
#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::collector {

// Thread-safe. Two threads of its own: one connects and writes, one reads.
class FleetLink final : public Link {
 public:
  struct Options {
    std::string target;     // HOST:PORT
    v1::Hello hello;        // job, node and the rest; incarnation, if 0, and backlog are set here
    std::string spool_dir;  // empty: no disk, only memory_bytes
    uint64_t spool_bytes = 4096ull << 20;
    uint64_t window_bytes = 16ull << 20;  // sent and not acknowledged
    uint64_t memory_bytes = 64ull << 20;  // without a spool: what waits
    // At the end, when all is delivered: wait so long for the job's end at the other nodes, and
    // with it for the last verdict.
    uint64_t linger_ns = 3'000'000'000;
    // Called by the link's threads; must not block and must not call Finish.
    std::function<void(uint64_t round)> on_round;
    std::function<void(const v1::StacksRequest&)> on_stacks;
    std::function<void(bool unfinished)> on_unfinished;  // with each round
    std::function<void(const v1::VerdictNews&)> on_verdict;
    // One line for a person, on each change: not reachable, refused, back, spool full.
    std::function<void(const std::string&)> on_notice;
    // For tests; empty: TCP to `target`, without encryption.
    std::function<std::shared_ptr<grpc::Channel>()> make_channel;
  };

  explicit FleetLink(Options options);
  ~FleetLink() override;  // Finish(0), if nobody did
  FleetLink(const FleetLink&) = delete;
  FleetLink& operator=(const FleetLink&) = delete;

  void Start() override;
  // False only after Finish.
  bool Send(v1::EventBatch batch) override;
  // The spool is full (or, without one, the memory for it): draining should pause.
  bool Full() const override;
  bool Direct() const override;

  // Delivers what is left. Gives up when the analyzer has acknowledged nothing and not come back
  // for timeout_ns; then what was not delivered is in the spool, all of it, and the status says so.
  Status Finish(uint64_t timeout_ns) override;

  bool failed() const override { return false; }  // it keeps trying
  Status status() const override;                 // why it is away now, or what was not delivered
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

#endif  // GORDIAN_COLLECTOR_FLEET_LINK_H_
