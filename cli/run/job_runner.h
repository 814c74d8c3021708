// Runs and observes the job once: analyzer and collector in this process, the job as a child, and
// all that happens until the job has ended.
#ifndef GORDIAN_CLI_RUN_JOB_RUNNER_H_
#define GORDIAN_CLI_RUN_JOB_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/metrics/otlp_target.h"
#include "analyzer/model/verdict/verdict.h"
#include "cli/incidents/alert_flags.h"
#include "cli/job/install_paths.h"
#include "cli/job/job_identity.h"
#include "cli/job/launcher.h"
#include "cli/job/process_tree.h"
#include "cli/run/guardian.h"
#include "cli/run/restarts.h"
#include "cli/run/run_page.h"
#include "common/config.h"
#include "common/owned_folder.h"

namespace gordian::collector {
class Collector;
class RecoveryRun;
}  // namespace gordian::collector
namespace gordian::analyzer {
class EmbeddedServer;
}

namespace gordian::cli {

class RemoteVerdicts;
class RunIncidents;
class VerdictDesk;

struct JobOptions {
  std::vector<std::string> command;  // as typed
  std::string program;               // path of command[0]
  RunConfig config;
  JobIdentity identity;     // for config.analyzer
  std::string session_dir;  // as people type it; empty: none
  std::string absolute_session_dir;
  std::shared_ptr<const OwnedFolder> session_folder;  // that very folder; null: none
  std::string ring_dir;                               // empty: gordian does not observe the job
  std::vector<std::string> environment_that_matters;
  MakeRunPage make_page;  // empty: no page
  AlertConfig alerts;
  std::string http;  // HOST:PORT of the live page; empty: none
  PageTls http_tls;
  std::string metrics_file;  // empty: none
  metrics::OtlpTarget otlp;  // empty: metrics are not pushed
  RestartCounts restarts;    // with those of the sessions before
  bool color = false;
  int width = 100;
};

struct JobOutcome {
  int exec_error = 0;  // errno: the job could not be started
  pid_t pid = 0;
  int wait_status = 0;             // of the job's first process
  bool killed_by_gordian = false;  // for a verdict
  bool restart_wanted = false;     // gordian ended it for a launcher above to start it again
  RestartCounts restarts;          // as the job has ended
  bool problem = false;            // by the last verdict
  std::vector<std::string>
      foreign_libraries;  // with --emulator: gordian ended the job because it mapped these
  model::Verdict verdict;
  std::string analyzed_at;  // HOST:PORT; empty: here
  bool observed = false;    // the fields above are known
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
  struct BeforeRestart;
  struct Decision;

  void StartObserving();
  Status ObserveFromHere();
  Status ObserveFromAfar();
  void StopObserving();
  void TakeRemoteVerdict(const Status& delivered);
  bool Unfinished() const;
  bool AwaitsStacks() const;
  bool MayEnd(const std::vector<std::string>& rings) const;
  std::string SpoolDir() const;
  void Loop();
  void HandleSignals();
  void Reap();
  void PassSignalOn();
  std::vector<pid_t> Spared() const;  // children of gordian that are not the job's
  void TellNews();
  std::string JobName() const;
  void OpenIncidents();
  void OpenPage();
  void ServePage(const std::function<void(const std::string&)>& on_line);
  void WritePage();
  void WriteMetrics();
  void Recover();
  void TellRecovered(const std::vector<std::string>& operations, double ms);
  void ActOnVerdict();
  std::unique_ptr<Decision> Decide() const;
  BeforeRestart RingsNow() const;
  void CheckLibraries();
  void RunUserCommand();
  void KillJob();
  std::vector<ProcessKey> RanksElsewhere() const;
  void HaveRanksElsewhereEnded();
  void Restart();
  void EndRanks(const std::vector<ProcessKey>& ranks);
  void NoteComeback();
  std::vector<ProcessKey> Named(const std::vector<std::string>& rings) const;
  void KeepVerdict() const;
  void EndTree();
  void NoteDegradedSession();
  void NoteUnseenRanks();
  void Say(const std::string& text) const;
  int PollTimeout() const;

  const JobOptions& options_;
  const InstallPaths& paths_;
  const InheritedDescriptors& inherited_;
  SignalInbox& signals_;
  Guardian& guardian_;

  std::unique_ptr<VerdictDesk> desk_;
  std::unique_ptr<RunIncidents> incidents_;           // of `server_`
  std::unique_ptr<analyzer::EmbeddedServer> server_;  // or
  std::unique_ptr<RemoteVerdicts> remote_;
  std::unique_ptr<RunPage> page_;  // of `server_`; null: none
  uint64_t page_revision_ = 0;     // the verdict that report.html holds
  uint64_t metrics_written_ns_ = 0;
  bool metrics_failed_ = false;
  std::string spool_dir_;
  std::unique_ptr<collector::Collector> collector_;

  std::unique_ptr<collector::RecoveryRun> recovery_;  // that runs, or ran last
  // How often a cycle was recovered, by the lines at which its ranks waited; of `recovery_`'s thread.
  std::map<std::set<std::string>, int> recoveries_;

  JobOutcome outcome_;
  bool root_gone_ = false;
  bool end_announced_ = false;
  std::optional<uint64_t> first_signal_ns_;
  int sent_signal_ = 0;     // SIGINT or SIGTERM, sent to us by a process
  bool passed_on_ = false;  // to the processes that outlived the job's first one
  std::unique_ptr<Decision> decision_;
  bool acted_ = false;
  // What had rings when gordian decided to end the ranks; until another process has one.
  std::unique_ptr<BeforeRestart> before_restart_;
  std::vector<pid_t> user_commands_;              // commands of exec: that still run
  std::map<ProcessKey, uint64_t> checked_since_;  // since when, by process
  uint64_t started_ns_ = 0;
  bool degraded_said_ = false;
  uint64_t unseen_looked_ns_ = 0;  // when for ranks that gordian does not see; 0: not yet
  bool unseen_said_ = false;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_JOB_RUNNER_H_
