// One start of the job under observation: analyzer and collector in this process, the job as a
// child, and everything that happens until it has ended.
#ifndef GORDIAN_CLI_JOB_RUNNER_H_
#define GORDIAN_CLI_JOB_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/graph/verdict.h"
#include "cli/guardian.h"
#include "cli/install_paths.h"
#include "cli/job_identity.h"
#include "cli/launcher.h"
#include "cli/process_tree.h"
#include "common/config.h"

namespace gordian::collector {
class Collector;
}
namespace gordian::server {
class EmbeddedServer;
}

namespace gordian::cli {

class RemoteVerdicts;
class VerdictDesk;

struct JobOptions {
  std::vector<std::string> command;  // as typed
  std::string program;               // path of command[0]
  RunConfig config;
  JobIdentity identity;     // for config.analyzer
  std::string session_dir;  // as people type it; empty: none
  std::string absolute_session_dir;
  std::string ring_dir;  // empty: not observed
  std::vector<std::string> environment_that_matters;
  bool color = false;
  int width = 100;
};

struct JobOutcome {
  int exec_error = 0;  // errno: the job could not be started
  pid_t pid = 0;
  int wait_status = 0;             // of the job's first process
  bool killed_by_gordian = false;  // for a verdict
  bool problem = false;            // by the last verdict
  std::vector<std::string>
      foreign_libraries;  // with --emulator: the job was ended because of these
  graph::Verdict verdict;
  std::string analyzed_at;  // HOST:PORT; empty: here
  bool observed = false;    // the fields above say something about calls
  uint64_t records = 0, lost_records = 0, skipped_kernels = 0, processes = 0, refused_files = 0;
};

// Use once, from one thread.
class JobRunner {
 public:
  // All references must outlive this object.
  JobRunner(const JobOptions& options, const InstallPaths& paths,
            const InheritedDescriptors& inherited, SignalInbox& signals, Guardian& guardian);
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  // Returns when the job has ended and its verdict is final. `preload_emulator`: see
  // JobEnvironmentOptions.
  JobOutcome Run(bool preload_emulator);

 private:
  void StartObserving();
  Status ObserveFromHere();
  Status ObserveFromAfar();
  void StopObserving();
  void TakeRemoteVerdict(const Status& delivered);
  bool Unfinished() const;
  bool AwaitsStacks() const;
  std::string SpoolDir() const;
  void Loop();
  void HandleSignals();
  void Reap();
  void PassSignalOn();
  std::vector<pid_t> Spared() const;  // children of ours that are no part of the job
  void TellNews();
  void ActOnVerdict();
  void CheckLibraries();
  void RunUserCommand();
  void EndTree();
  void NoteDegradedSession();
  void Say(const std::string& text) const;
  int PollTimeout() const;

  const JobOptions& options_;
  const InstallPaths& paths_;
  const InheritedDescriptors& inherited_;
  SignalInbox& signals_;
  Guardian& guardian_;

  std::unique_ptr<VerdictDesk> desk_;
  std::unique_ptr<server::EmbeddedServer> server_;  // or
  std::unique_ptr<RemoteVerdicts> remote_;
  std::string spool_dir_;
  std::unique_ptr<collector::Collector> collector_;

  JobOutcome outcome_;
  bool root_gone_ = false;
  bool end_announced_ = false;
  std::optional<uint64_t> first_signal_ns_;
  int sent_signal_ = 0;                   // SIGINT or SIGTERM, sent to us by a process
  bool passed_on_ = false;                // to what outlived the job's first process
  std::optional<uint64_t> acting_since_;  // the verdict is to be acted upon
  bool acted_ = false;
  std::vector<pid_t> user_commands_;              // of exec:, still running
  std::map<ProcessKey, uint64_t> checked_since_;  // libraries are looked at for a while
  uint64_t started_ns_ = 0;
  bool degraded_said_ = false;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_RUNNER_H_
