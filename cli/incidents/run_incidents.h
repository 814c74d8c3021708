// The incidents of `gordian run`: in a store of the user's that all runs share, and as alerts.
#ifndef GORDIAN_CLI_INCIDENTS_RUN_INCIDENTS_H_
#define GORDIAN_CLI_INCIDENTS_RUN_INCIDENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "analyzer/incidents/incident_book.h"
#include "analyzer/session/analysis.h"
#include "cli/incidents/alert_commands.h"
#include "cli/incidents/alert_flags.h"
#include "cli/job/launcher.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

// $XDG_STATE_HOME/gordian, or ~/.local/state/gordian. Errors: there is no home; it is not there and
// not to be `made`; it cannot be opened.
StatusOr<OwnedFolder> StateFolder(bool made);

// What the books of `run` and `serve` have in common. `commands` must outlive the book.
incidents::BookOptions CommonBookOptions(const AlertConfig& alerts, AlertCommands* commands,
                                         std::function<void(const std::string&)> on_line);

// This process.
incidents::Writer ThisWriter();
// Whether that process still runs, if it is one of this host.
bool Runs(const incidents::Writer& writer);

// Waits until all is stored and all alerts are sent, until the limit, or until a signal comes that
// ends jobs. Runs the commands of exec: meanwhile, on the main thread; `reap` reaps children.
void DeliverAlerts(const incidents::IncidentBook& book, AlertCommands* commands,
                   SignalInbox& signals, uint64_t limit_ns, const std::function<void()>& reap);

// Of one job. Construct it before the job starts.
class RunIncidents {
 public:
  // `on_line`: a line for people, from any thread.
  RunIncidents(const AlertConfig& alerts, std::string job, std::string session,
               std::function<void(const std::string&)> on_line);

  // On the analyzer's threads; quick.
  void OnVerdict(const analyzer::VerdictUpdate& update, bool interrupted);
  void SetPage(const std::string& address) { book_.SetPage(address); }
  std::string Json() const { return book_.Json(session_); }
  uint64_t changes() const { return book_.changes(); }  // 0: there was no incident
  StatusOr<std::string> Acknowledge(const std::string& id, const incidents::Acknowledgement& by) {
    return book_.Acknowledge(session_, id, by);
  }

  AlertCommands& commands() { return commands_; }

  // After the last verdict: DeliverAlerts, of ten seconds at most. Gives up what is left.
  void Finish(SignalInbox& signals, const std::function<void()>& reap);

 private:
  const std::string job_, session_;
  const std::function<void(const std::string&)> on_line_;
  AlertCommands commands_;
  incidents::IncidentBook book_;  // its threads use the above
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_INCIDENTS_RUN_INCIDENTS_H_
