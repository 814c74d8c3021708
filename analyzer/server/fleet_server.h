// An analyzer for many nodes and several jobs at once, over TCP: what `gordian serve` runs.
//
// Nodes that say the same job are one job, with one folder (live_job.h) in the folder of sessions.
// A job that has ended, or whose nodes all have been away for long, is closed; its name is free
// again. A collector that was part of a closed job and comes back is still taken in there.
//
// Bounds: a stream is read only as fast as its job is analysed, and what is written to it is a
// constant number of messages (outbox.h), so a stream costs a fixed amount of memory whatever the
// other side does. A job's model grows with the job's unfinished operations, as with one node.
#ifndef GORDIAN_ANALYZER_SERVER_FLEET_SERVER_H_
#define GORDIAN_ANALYZER_SERVER_FLEET_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/server/analysis.h"
#include "analyzer/server/round_pace.h"
#include "analyzer/server/stream_guard.h"
#include "common/status.h"

namespace gordian::server {

struct FleetVerdict {
  const std::string& job;     // as the nodes say it
  const std::string& folder;  // of its files
  const VerdictUpdate& update;
};

struct FleetOptions {
  std::string listen;        // HOST:PORT, port 0: any
  std::string sessions_dir;  // made if it is not there
  graph::ModelOptions model;
  RoundPace pace;
  StreamLimits streams;         // of all jobs together
  std::string gordian_version;  // empty: this one; collectors of another are refused
  std::chrono::milliseconds forget_after{600'000};  // all nodes away for so long: closed
  // What is wrong with the folder, or with a job in it that cannot be gone on with; from Start.
  std::function<void(const std::string&)> on_warning;
  // Each change of each job's verdict, from threads of the server; jobs may come at the same time.
  // Must not block: jobs wait for it.
  std::function<void(const FleetVerdict&)> on_verdict;
};

// All methods may be called from any thread; Start once.
class FleetServer {
 public:
  FleetServer();
  ~FleetServer();  // Stop(), if nobody did
  FleetServer(const FleetServer&) = delete;
  FleetServer& operator=(const FleetServer&) = delete;

  // Goes on with the jobs of the folder that were not closed, then listens. Errors: the folder
  // cannot be made; another server has it; the address cannot be listened on. A job that cannot be
  // gone on with is named (on_warning, and the log) and left as it is.
  Status Start(FleetOptions options);

  int port() const;
  struct JobStatus {
    std::string name;
    std::string folder;
    bool live = false;  // in memory
    uint64_t records = 0;
    uint64_t dropped_events = 0;
  };
  std::vector<JobStatus> jobs() const;
  size_t streams() const;  // that are served now

  // Ends all streams; every trace is closed in order when it returns.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_FLEET_SERVER_H_
