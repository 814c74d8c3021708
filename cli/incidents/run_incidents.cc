#include "cli/incidents/run_incidents.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/job/await_delivery.h"
#include "cli/job/process_tree.h"
#include "common/clock.h"

namespace gordian::cli {
namespace {

constexpr uint64_t kDeliverNs = 10 * kNsPerSecond;

incidents::BookOptions BookOf(const AlertConfig& alerts, AlertCommands* commands,
                              std::function<void(const std::string&)> on_line) {
  incidents::BookOptions options = CommonBookOptions(alerts, commands, std::move(on_line));
  options.open_folder = [] { return StateFolder(/*made=*/true); };
  options.node = options.writer.host;
  options.runs = Runs;
  return options;
}

}  // namespace

incidents::BookOptions CommonBookOptions(const AlertConfig& alerts, AlertCommands* commands,
                                         std::function<void(const std::string&)> on_line) {
  incidents::BookOptions options;
  options.writer = ThisWriter();
  options.targets = alerts.targets;
  options.alert_suspected = alerts.suspected;
  options.sender.key = alerts.key;
  options.sender.run_command = [commands](const std::string& command,
                                          const incidents::AlertEnvironment& environment) {
    return commands->Run(command, environment);
  };
  options.on_line = std::move(on_line);
  return options;
}

StatusOr<OwnedFolder> StateFolder(bool made) {
  std::string base;
  if (const char* const state = getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') {
    base = state;
  } else if (const char* const home = getenv("HOME"); home != nullptr && home[0] == '/') {
    base = std::string(home) + "/.local/state";
  } else {
    return Status::NotFound("neither XDG_STATE_HOME nor HOME names a folder");
  }
  if (!made) return OwnedFolder::Open(base + "/gordian");
  std::error_code error;
  std::filesystem::create_directories(base, error);  // if it fails, it cannot be opened below
  const StatusOr<OwnedFolder> held = OwnedFolder::Adopt(base);
  GORDIAN_RETURN_IF_ERROR(held.status());
  return held->MakeFolder("gordian");
}

incidents::Writer ThisWriter() {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  incidents::Writer writer{.host = host, .pid = getpid()};
  if (const std::optional<ProcessStat> self = ReadProcessStat(getpid())) {
    writer.start = self->key.start;
  }
  return writer;
}

bool Runs(const incidents::Writer& writer) {
  return IsAlive({.pid = static_cast<pid_t>(writer.pid), .start = writer.start});
}

void DeliverAlerts(const incidents::IncidentBook& book, AlertCommands* commands,
                   SignalInbox& signals, uint64_t limit_ns, const std::function<void()>& reap) {
  AwaitDelivery({.done = [&] { return book.Idle(); },
                 .limit_ns = limit_ns,
                 .wake_fd = commands->wake_fd(),
                 .meanwhile =
                     [&] {
                       commands->LaunchWanted(signals);
                       reap();
                     }},
                signals);
}

RunIncidents::RunIncidents(const AlertConfig& alerts, std::string job, std::string session,
                           std::function<void(const std::string&)> on_line)
    : job_(std::move(job)),
      session_(std::move(session)),
      on_line_(std::move(on_line)),
      book_(BookOf(alerts, &commands_, on_line_)) {}

void RunIncidents::OnVerdict(const analyzer::VerdictUpdate& update, bool interrupted) {
  book_.OnVerdict({.job = job_,
                   .session = session_,
                   .revision = update.revision,
                   .job_ended = update.job_ended,
                   .killed_by_gordian = update.killed_by_gordian,
                   .interrupted = interrupted},
                  update.verdict);
}

void RunIncidents::Finish(SignalInbox& signals, const std::function<void()>& reap) {
  DeliverAlerts(book_, &commands_, signals, kDeliverNs, reap);
  const size_t unsent = book_.unsent();
  commands_.Stop();
  book_.Stop(/*give_up=*/true);
  if (unsent > 0) {
    on_line_(std::to_string(unsent) + (unsent == 1 ? " alert was" : " alerts were") +
             " not delivered");
  }
}

}  // namespace gordian::cli
