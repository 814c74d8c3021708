// The collector of one node: finds the ring files of shimmed processes, drains them, watches the
// processes and their threads, and streams all of it to an analyzer (service Ingest).
//
//   collector::Collector collector(options);
//   GORDIAN_RETURN_IF_ERROR(collector.Start());
//   ... start the job with GORDIAN_RING_DIR = options.ring_dir; for every child that you reap:
//   collector.NoteExit(pid, wait_status);
//   ... after the job:
//   collector.JobEnded(v1::EXIT_KIND_CODE, 0, /*killed_by_gordian=*/false);
//   Status status = collector.Stop();
//
// Threads: the collector runs one thread, the gRPC stream another. Call any method from any thread;
// call Start, JobEnded and Stop once, in this order.
//
// Start installs a SIGBUS handler (ring_file.h says why), which passes on faults that are not the
// collector's.
#ifndef GORDIAN_COLLECTOR_COLLECTOR_H_
#define GORDIAN_COLLECTOR_COLLECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/analyzer_access.h"
#include "common/owned_folder.h"
#include "common/status.h"
#include "gordian/v1/event.pb.h"
#include "gordian/v1/ingest.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gordian::collector {

// How to reach the analyzer of many nodes, `gordian serve`.
struct FleetOptions {
  std::string target;  // HOST:PORT
  AccessFiles access;
  std::string job;              // nodes that give the same name are one job
  std::string node;             // shown to people; empty: the host's name
  uint32_t nodes_expected = 0;  // 0: not known
  int32_t node_rank = -1;       // this node's rank among them; -1: not known
  std::string spool_dir;        // keeps batches while the analyzer is away; empty: memory only
  uint64_t spool_bytes = 4096ull << 20;
  uint64_t deliver_ns = 10'000'000'000;  // Stop gives up after so long without progress
  // Threads of the stream call it; it must not block. fleet_link.h says when.
  std::function<void(const v1::VerdictNews&)> on_verdict;
  std::function<void(bool unfinished)> on_unfinished;
  std::function<void(const std::string& line)> on_notice;
};

class Collector {
 public:
  struct Options {
    // The folder where shimmed processes put their ring files (GORDIAN_RING_DIR). Must exist, and
    // serve only one session.
    std::string ring_dir;
    // The session's folder: the collector links ring files into <session_dir>/rings/ and copies
    // them there when their process has ended. Empty or not writable: it removes ring files without
    // a copy.
    std::string session_dir;
    // That very folder, whatever its path leads to later; null: Start opens it.
    std::shared_ptr<const OwnedFolder> session_folder;
    // Describes this node in Hello, to the analyzer and the trace.
    std::string session;       // name; empty: the last part of session_dir
    std::string host;          // empty: gethostname()
    std::string command_line;  // of the job
    std::vector<std::string>
        environment;  // NAME=value of the variables that matter (NCCL_*, CUDA_*, GORDIAN_*)
    // The analyzer's channel, which must speak Ingest. Shared with the caller.
    std::shared_ptr<grpc::Channel> channel;
    // Instead of `channel`.
    std::optional<FleetOptions> fleet;
    // Time limits and bounds; only tests change them.
    uint64_t round_answer_ns = 100'000'000;  // for all watchers of a round together
    uint64_t stop_ns = 5'000'000'000;  // Stop: to send all and see the analyzer end the stream
    uint64_t exit_status_grace_ns = 50'000'000;  // Stop waiting for NoteExit
    uint64_t unready_ns = 1'000'000'000;         // until an unreadable ring file is refused
    uint64_t uplink_bytes = 64ull << 20;  // unsent batches; above it the collector stops draining
  };

  // Counters of the collector; they only grow.
  struct Stats {
    uint64_t processes = 0;        // ring files adopted
    uint64_t refused_files = 0;    // damaged, of another version, or foreign
    uint64_t records = 0;          // decoded and sent
    uint64_t lost_records = 0;     // the shims' counts, and records overwritten before the drain
    uint64_t skipped_kernels = 0;  // launches that the shims skipped (GORDIAN_STUB_COMPUTE)
    uint64_t bad_records = 0;      // published, but malformed
    uint64_t rounds = 0;
    uint64_t last_round_ns = 0;  // from request to send
    uint64_t batches = 0;
    bool uplink_failed = false;  // Link::failed: the link takes no more batches
    uint64_t acked_batches = 0;  // Options::fleet: in the analyzer's trace
    uint64_t connections = 0;    // Options::fleet: connections that the analyzer accepted
    std::string uplink_error;
  };

  explicit Collector(Options options);
  ~Collector();  // calls Stop() if the owner did not
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Opens the folder and the stream. Errors: no such folder, no channel. An unreachable analyzer is
  // no error here: Stats::uplink_failed and Stop() report it, and the collector still keeps the
  // ring files.
  Status Start();

  // Passes on how a child ended, as waitpid() gave it. Also for processes without a ring.
  void NoteExit(pid_t pid, int wait_status);

  // The caller is about to kill that process for the analyzer's verdict, for a launcher to start it
  // again. `start`: field 22 of /proc/PID/stat.
  void NoteKill(pid_t pid, uint64_t start);

  // Call it when the job's root has ended. Drains and sends everything that dead processes left,
  // then queues JobEnded, and returns (bounded by the analyzer's pace and Options::stop_ns).
  void JobEnded(v1::ExitKind kind, int value, bool killed_by_gordian);

  // Drains the rest, salvages all ring files, closes the stream and waits for the analyzer to end
  // it. Errors: the analyzer refused, went away, or did not end the stream within stop_ns. With
  // Options::fleet it waits up to FleetOptions::deliver_ns; the spool keeps undelivered batches.
  Status Stop();

  Stats stats() const;

  // True while the collector still owes the analyzer stacks.
  bool TakingStacks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_COLLECTOR_H_
