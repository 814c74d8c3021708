// The collector of one node: finds the ring files of shimmed processes, drains them, watches the
// processes and their threads, and streams all of it to an analyzer (service Ingest).
//
//   collector::Collector collector(options);
//   GORDIAN_RETURN_IF_ERROR(collector.Start());
//   ... start the job with GORDIAN_RING_DIR = options.ring_dir; on every child that you reap:
//   collector.NoteExit(pid, wait_status);
//   ... the job is over:
//   collector.JobEnded(v1::EXIT_KIND_CODE, 0, /*killed_by_gordian=*/false);
//   Status status = collector.Stop();
//
// Threads: one of its own does the work, one more belongs to the gRPC stream. All methods may be
// called from any thread; Start, JobEnded and Stop once, in this order.
//
// The process gets a SIGBUS handler on Start (ring_file.h says why); it hands on what is not ours.
#ifndef GORDIAN_COLLECTOR_COLLECTOR_H_
#define GORDIAN_COLLECTOR_COLLECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::collector {

// An analyzer elsewhere, for many nodes: `gordian serve`.
struct FleetOptions {
  std::string target;           // HOST:PORT
  std::string job;              // nodes that say the same are one job
  std::string node;             // this one's name for people; empty: the host
  uint32_t nodes_expected = 0;  // 0: not known
  int32_t node_rank = -1;       // place among them; -1: not known
  std::string spool_dir;        // while the analyzer is away; empty: memory only
  uint64_t spool_bytes = 4096ull << 20;
  uint64_t deliver_ns = 10'000'000'000;  // Stop: without any progress for so long, give up
  // From threads of the stream; must not block. fleet_link.h says when.
  std::function<void(const v1::VerdictNews&)> on_verdict;
  std::function<void(bool unfinished)> on_unfinished;
  std::function<void(const std::string& line)> on_notice;
};

class Collector {
 public:
  struct Options {
    // Where shimmed processes put their ring files (GORDIAN_RING_DIR). Must exist; one session
    // each.
    std::string ring_dir;
    // The session: ring files are linked and, when their process has gone, copied to
    // <session_dir>/rings/. Empty, or not writable: ring files are removed without a copy.
    std::string session_dir;
    // For Hello: what an analyzer and a trace say about this node.
    std::string session;       // name; empty: the last part of session_dir
    std::string host;          // empty: gethostname()
    std::string command_line;  // of the job
    std::vector<std::string>
        environment;  // NAME=value, those that matter (NCCL_*, CUDA_*, GORDIAN_*)
    // Where the analyzer is. Not owned exclusively; must speak Ingest.
    std::shared_ptr<grpc::Channel> channel;
    // Instead of `channel`.
    std::optional<FleetOptions> fleet;
    // Bounds; the defaults are right outside of tests.
    uint64_t round_answer_ns = 100'000'000;      // wait for all watchers of a round together
    uint64_t stop_ns = 5'000'000'000;            // Stop: flush to the analyzer and hear its end
    uint64_t exit_status_grace_ns = 50'000'000;  // wait for NoteExit when nobody else knows
    uint64_t unready_ns = 1'000'000'000;         // until a ring file without sense is given up
    uint64_t uplink_bytes = 64ull << 20;         // unsent batches; beyond it draining pauses
  };

  // What the collector has seen; counters only grow.
  struct Stats {
    uint64_t processes = 0;        // ring files adopted
    uint64_t refused_files = 0;    // ring files that are none (damaged, other version, foreign)
    uint64_t records = 0;          // decoded and sent
    uint64_t lost_records = 0;     // the shims' own counts and what was overwritten before we read
    uint64_t skipped_kernels = 0;  // launches that the shims left out (GORDIAN_STUB_COMPUTE)
    uint64_t bad_records = 0;      // published but not understood
    uint64_t rounds = 0;
    uint64_t last_round_ns = 0;  // how long it took from request to send
    uint64_t batches = 0;
    bool uplink_failed = false;  // the analyzer refused us or went away for good
    uint64_t acked_batches = 0;  // Options::fleet: known to be in the analyzer's trace
    uint64_t connections = 0;    // Options::fleet: how often it took us in
    std::string uplink_error;
  };

  explicit Collector(Options options);
  ~Collector();  // Stop(), if nobody did
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Opens the folder and the stream. Errors: no such folder, no channel. An analyzer that cannot be
  // reached is no error here: Stats::uplink_failed and Stop() say so, and ring files are still
  // kept.
  Status Start();

  // Tells how a child ended: the status of waitpid(). Also for processes that have no ring.
  void NoteExit(pid_t pid, int wait_status);

  // The job's root has ended. Everything that dead processes left is drained and sent, then
  // JobEnded. Returns once that is queued (bounded by the analyzer's pace and Options::stop_ns).
  void JobEnded(v1::ExitKind kind, int value, bool killed_by_gordian);

  // Drains what is left, salvages all ring files, closes the stream and waits for the analyzer to
  // end it. Not ok: the analyzer refused, went away, or did not end within stop_ns. With
  // Options::fleet it waits as FleetOptions::deliver_ns says; what was not delivered is in the
  // spool.
  Status Stop();

  Stats stats() const;

  // The analyzer wants stacks that it was not yet sent.
  bool TakingStacks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_COLLECTOR_H_
