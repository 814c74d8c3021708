// An analyzer for many nodes and several jobs at once, over TCP: the core of `gordian serve`.
//
// Nodes that give the same job name are one job, with one folder (live_job.h) in the folder of
// sessions. The server closes a job that has ended, or whose nodes have all been away for long; its
// name is then free again. It still takes back a collector that was part of a closed job.
//
// Bounds: the server reads a stream only as fast as it analyses its job, and queues a constant
// number of messages for it (outbox.h), so a stream costs a fixed amount of memory whatever its
// peer does. A job's model grows with the job's unfinished operations, as with one node.
#ifndef GORDIAN_ANALYZER_FLEET_FLEET_SERVER_H_
#define GORDIAN_ANALYZER_FLEET_FLEET_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/access/tls_context.h"
#include "analyzer/ingest/round_pace.h"
#include "analyzer/ingest/stream_guard.h"
#include "analyzer/session/analysis.h"
#include "common/status.h"

namespace gordian::analyzer {

struct FleetVerdict {
  const std::string& job;     // as the nodes name it
  const std::string& folder;  // of its files
  const VerdictUpdate& update;
};

struct FleetOptions {
  std::string listen;        // HOST:PORT, port 0: any
  std::string sessions_dir;  // created if missing
  model::ModelOptions model;
  RoundPace pace;
  StreamLimits streams;  // of all jobs together
  access::TlsFiles tls;  // without: no encryption; renewed files are used for later connections
  // Whether this token lets a node send records for this job, and whether it lets a viewer ask.
  // Null: no token is wanted.
  std::function<bool(std::string_view token, std::string_view job)> may_write;
  std::function<bool(std::string_view token)> may_view;
  uint64_t process_start = 0;   // of this process, as /proc says it; for the manifests
  std::string gordian_version;  // empty: this one; the server refuses collectors of another
  std::chrono::milliseconds forget_after{
      600'000};  // closes a job whose nodes are all away for so long
  // Start reports problems with the folder, or with a job in it that the server cannot continue.
  std::function<void(const std::string&)> on_warning;
  // Receives each change of each job's verdict, on threads of the server, for several jobs at once.
  // Must not block: jobs wait for it.
  std::function<void(const FleetVerdict&)> on_verdict;
};

// Call any method from any thread; call Start once.
class FleetServer {
 public:
  FleetServer();
  ~FleetServer();  // calls Stop(), if the owner did not
  FleetServer(const FleetServer&) = delete;
  FleetServer& operator=(const FleetServer&) = delete;

  // Continues the jobs of the folder that are not closed, then listens. Errors: the folder cannot
  // be made, another server uses it, the address cannot be bound. Names a job that it cannot
  // continue (on_warning, and the log) and leaves it as it is.
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
  // Looks at the analysis of the job in this folder (JobStatus::folder), which stays in memory
  // meanwhile. False: it is not in memory.
  bool LookAt(const std::string& folder, const std::function<void(Analysis&)>& look);
  size_t streams() const;  // open now

  // Ends all streams; closes every trace in order before it returns. No LookAt may run any more.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_FLEET_FLEET_SERVER_H_
