// gordian serve: analyzes several jobs of many nodes at once.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "analyzer/access/access_key.h"
#include "analyzer/fleet/fleet_server.h"
#include "analyzer/fleet/job_folders.h"
#include "analyzer/incidents/incident_book.h"
#include "analyzer/metrics/otlp_push.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/report/report.h"
#include "analyzer/web/gateway.h"
#include "analyzer/web/job_metrics.h"
#include "cli/incidents/alert_commands.h"
#include "cli/incidents/alert_flags.h"
#include "cli/incidents/run_incidents.h"
#include "cli/job/await_delivery.h"
#include "cli/job/job_environment.h"
#include "cli/job/job_identity.h"
#include "cli/job/launcher.h"
#include "cli/job/process_tree.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/run/line_printer.h"
#include "cli/run/otlp_option.h"
#include "cli/run/verdict_policy.h"
#include "cli/verbs.h"
#include "cli/web/fleet_pages.h"
#include "cli/web/page_address.h"
#include "common/clock.h"
#include "common/shell_quote.h"
#include "common/utf8.h"
#include "common/version.h"
#include "dashboard/page_files.h"

namespace gordian::cli {
namespace {

constexpr char kDefaultListen[] = "0.0.0.0:7411";
constexpr char kDefaultSessions[] = "gordian-sessions";

constexpr size_t kMostRemembered = 10'000;
constexpr uint64_t kDeliverNs = 3 * kNsPerSecond;  // alerts, at the end

struct ServeFlags {
  std::string listen = kDefaultListen;
  std::string sessions = kDefaultSessions;
  std::optional<std::string> on_verdict;
  std::optional<std::string> suspect_after;
  std::string http;  // empty: no page
  std::string otlp;  // empty: metrics are not pushed
  access::TlsFiles tls;
  bool insecure = false;  // no tokens, wherever it listens
  AlertFlags alert;
  bool json = false;
};

// The printer's streams.
constexpr size_t kOut = 0, kErr = 1;

std::string DroppedText(uint64_t lines) {
  return "gordian: " + WithCommas(lines) + " lines were dropped here: the reader was too slow\n";
}

std::string DroppedJson(uint64_t lines) {
  return nlohmann::ordered_json{{"dropped_lines", lines}}.dump() + "\n";
}

// Prints what changes, and starts the command of --on-verdict once a job. The server's threads call
// it, in order within a job; jobs wait for it, so it must not block.
class Teller {
 public:
  // `changed` hears of each verdict, after it was told.
  Teller(OnVerdict what, uint64_t suspect_after_ns, bool json, LinePrinter* printer,
         std::function<void(const analyzer::FleetVerdict&)> changed)
      : printer_(printer),
        changed_(std::move(changed)),
        what_(what),
        suspect_after_ns_(suspect_after_ns),
        json_(json),
        width_(TerminalWidth(STDERR_FILENO)),
        color_(WantsColor(STDERR_FILENO)),
        wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Teller() { close(wake_fd_); }

  void Tell(const analyzer::FleetVerdict& news) {
    Print(news);
    changed_(news);
  }

  int wake_fd() const { return wake_fd_; }
  std::vector<std::vector<Variable>> TakeWanted() {
    uint64_t count = 0;
    if (read(wake_fd_, &count, sizeof count) < 0) {
      // The counter was zero already.
    }
    const std::lock_guard lock(mutex_);
    return std::exchange(wanted_, {});
  }

 private:
  void Print(const analyzer::FleetVerdict& news) {
    const std::lock_guard lock(mutex_);
    const model::Verdict& verdict = news.update.verdict;
    const model::Finding& main = verdict.main;
    if (json_) {
      const nlohmann::ordered_json line = {
          {"job", news.job},
          {"folder", news.folder},
          {"revision", news.update.revision},
          {"job_ended", news.update.job_ended},
          {"verdict", model::Name(main.verdict)},
          {"confidence", model::Name(main.confidence)},
          {"summary", main.summary},
          {"culprit_ranks", main.culprit_ranks},
      };
      printer_->Say(
          kOut, line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    }
    // Prints again when the kind changes, or the confidence of trouble. Details grow in the files.
    const std::string key = std::string(model::Name(main.verdict)) + "/" + main.check + "/" +
                            (model::SaysTrouble(main.verdict) ? model::Name(main.confidence) : "");
    if (said_.size() > kMostRemembered) {  // drops jobs that ended long ago
      said_.clear();
      policies_.clear();
    }
    std::string& said = said_[news.folder];
    if (said != key) {
      said = key;
      std::string headline = analyzer::Headline(main, {.color = color_, .width = width_});
      const std::string prefix = "gordian: ";
      const size_t at = headline.find(prefix);
      if (at != std::string::npos) {
        headline.insert(at + prefix.size(), "job " + Printable(news.job) + ": ");
      }
      std::string text = headline + "\n";
      if (model::SaysTrouble(main.verdict)) {
        text += "gordian: next: gordian explain " + ShownQuote(news.folder) + "\n";
      }
      printer_->Say(kErr, std::move(text));
    }
    if (what_ != OnVerdict::kExec) {
      return;
    }
    auto [policy, is_new] = policies_.try_emplace(
        news.folder,
        VerdictPolicy::Options{.on_verdict = what_, .suspect_after_ns = suspect_after_ns_});
    policy->second.Judge(verdict, /*interrupted=*/false);
    if (policy->second.ActNow(0, news.update.revision, /*unfinished=*/true)) {
      wanted_.push_back(VerdictVariables(main));
      wanted_.back().emplace_back("GORDIAN_SESSION", news.folder);
      wanted_.back().emplace_back("GORDIAN_JOB", news.job);
      const uint64_t one = 1;  // the main thread starts the command, since it reaps the children
      if (write(wake_fd_, &one, sizeof one) < 0) {
        // The counter is full, so the descriptor is readable already.
      }
    }
  }

  LinePrinter* const printer_;
  const std::function<void(const analyzer::FleetVerdict&)> changed_;
  const OnVerdict what_;
  const uint64_t suspect_after_ns_;
  const bool json_;
  const int width_;
  const bool color_;
  const int wake_fd_;
  std::mutex mutex_;
  std::map<std::string, std::string> said_;
  std::map<std::string, VerdictPolicy> policies_;
  std::vector<std::vector<Variable>> wanted_;
};

bool WantsToken(const ServeFlags& flags, const std::string& listen) {
  return !flags.insecure && !listen.empty() && !IsLoopback(listen);
}

// Null: no listener wants a token.
StatusOr<std::shared_ptr<const access::AccessKey>> KeyOf(const ServeFlags& flags) {
  if (!WantsToken(flags, flags.listen) && !WantsToken(flags, flags.http)) {
    return std::shared_ptr<const access::AccessKey>();
  }
  const StatusOr<OwnedFolder> folder = OutputFolder(flags.sessions);
  GORDIAN_RETURN_IF_ERROR(folder.status());
  StatusOr<access::AccessKey> key = access::AccessKey::Open(*folder);
  GORDIAN_RETURN_IF_ERROR(key.status());
  return std::make_shared<const access::AccessKey>(std::move(key).value());
}

incidents::BookOptions BookOf(const ServeFlags& flags, const AlertConfig& alerts,
                              AlertCommands* commands, LinePrinter* printer) {
  incidents::BookOptions options =
      CommonBookOptions(alerts, commands, [printer](const std::string& line) {
        printer->Say(kErr, "gordian: " + Printable(line) + "\n");
      });
  options.open_folder = [sessions = flags.sessions] { return OwnedFolder::Adopt(sessions); };
  options.sessions_dir = flags.sessions;
  return options;
}

// Goes on with the incidents of a server that ran here before.
void ResumeIncidents(analyzer::FleetServer* fleet, incidents::IncidentBook* book) {
  book->OpenStore();
  for (const analyzer::FleetServer::JobStatus& job : fleet->jobs()) {
    fleet->LookAt(job.folder, [&](analyzer::Analysis& analysis) {
      const analyzer::Analysis::Stats stats = analysis.stats();
      book->Resume({.job = job.name,
                    .session = analyzer::LeafOf(job.folder),
                    .revision = stats.revision,
                    .job_ended = stats.job_ended,
                    .killed_by_gordian = stats.killed_by_gordian},
                   analysis.Current());
    });
  }
  book->Resumed();
}

// Returns the page's address.
StatusOr<std::string> ServePage(const ServeFlags& flags,
                                const std::shared_ptr<const access::AccessKey>& key,
                                const std::shared_ptr<web::JobSource>& jobs,
                                const std::shared_ptr<web::JobMetrics>& job_metrics,
                                LinePrinter* printer, web::Gateway* gateway) {
  web::GatewayOptions options;
  options.listen = flags.http;
  options.files = dashboard::EmbeddedPage();
  options.jobs = jobs;
  options.metrics = job_metrics;
  options.on_refused = [printer](const std::string& line) {
    printer->Say(kErr, "gordian: " + Printable(line) + "\n");
  };
  options.tls = flags.tls;
  options.any_host = flags.insecure;
  options.may_change = [sessions = flags.sessions](std::string_view shown) {
    const StatusOr<OwnedFolder> folder = OwnedFolder::Adopt(sessions);
    return folder.ok() ? MayChange(*folder, sessions, shown) : folder.status();
  };
  std::string token;
  if (WantsToken(flags, flags.http)) {
    token = key->ViewerToken();
    options.may_view = [key](std::string_view shown) { return key->MayView(shown); };
  }
  GORDIAN_RETURN_IF_ERROR(gateway->Start(std::move(options)));
  return PageAddress(flags.http, gateway->port(), flags.tls.on(), token);
}

// `gateway`: null, if there is no page.
metrics::OtlpPushOptions PushOf(metrics::OtlpTarget target,
                                const std::shared_ptr<web::JobMetrics>& job_metrics,
                                const web::Gateway* gateway, LinePrinter* printer) {
  metrics::OtlpPushOptions options;
  options.target = std::move(target);
  options.collect = [job_metrics, gateway] {
    return job_metrics->Now(gateway != nullptr ? std::optional(gateway->Http()) : std::nullopt);
  };
  options.on_line = [printer](const std::string& line) {
    printer->Say(kErr, "gordian: " + Printable(line) + "\n");
  };
  return options;
}

int Serve(const ServeFlags& flags) {
  OnVerdict what = OnVerdict::kReport;
  std::string command;
  int most_restarts = 0;  // of runs alone
  double suspect_after_s = 5;
  Status status = CheckAddress("--listen", flags.listen, /*zero_port_allowed=*/true);
  if (status.ok() && flags.tls.on() != !flags.tls.key.empty()) {
    status = Status::InvalidArgument("--tls-cert and --tls-key need each other");
  }
  if (status.ok() && !flags.tls.ca.empty() && !flags.tls.on()) {
    status = Status::InvalidArgument("--tls-ca needs --tls-cert and --tls-key");
  }
  if (status.ok() && !flags.http.empty()) {
    status = CheckAddress("--http", flags.http, /*zero_port_allowed=*/true);
  }
  if (status.ok() && flags.on_verdict) {
    status = ParseOnVerdict("--on-verdict", *flags.on_verdict, &what, &command, &most_restarts);
    if (status.ok() && what != OnVerdict::kReport && what != OnVerdict::kExec) {
      status = Status::InvalidArgument(
          "--on-verdict of serve takes report or exec:CMD; to end a job, give the option on its "
          "nodes: gordian "
          "run --on-verdict " +
          *flags.on_verdict);
    }
  }
  if (status.ok() && flags.suspect_after) {
    const StatusOr<double> seconds = ParseSeconds("--suspect-after", *flags.suspect_after);
    status = seconds.status();
    if (seconds.ok()) {
      suspect_after_s = *seconds;
      if (suspect_after_s < 0.1 || suspect_after_s > 1e6) {
        status = Status::InvalidArgument("--suspect-after takes between 0.1 and 1000000 seconds");
      }
    }
  }
  StatusOr<AlertConfig> alerts = ReadAlertFlags(flags.alert);
  if (status.ok()) status = alerts.status();
  StatusOr<metrics::OtlpTarget> otlp = ReadOtlpOption(flags.otlp);
  if (status.ok()) status = otlp.status();
  if (!status.ok()) {
    PrintError(status.message() + " (try: gordian serve --help)");
    return kExitUsage;
  }
  SignalInbox signals;  // block the signals before any thread starts
  const uint64_t suspect_after_ns = static_cast<uint64_t>(suspect_after_s * 1e9);
  LinePrinter printer({{.fd = STDOUT_FILENO, .dropped = flags.json ? DroppedJson : DroppedText},
                       {.fd = STDERR_FILENO, .dropped = DroppedText}});
  AlertCommands commands;
  incidents::IncidentBook book(BookOf(flags, *alerts, &commands, &printer));
  analyzer::FleetServer fleet;
  FleetPages pages(&fleet, &book);
  // Gateway and pusher are stopped before the jobs go.
  const std::shared_ptr<web::JobSource> jobs_of_pages(&pages, [](web::JobSource*) {});
  const auto job_metrics = std::make_shared<web::JobMetrics>(jobs_of_pages);
  web::Gateway gateway;
  std::atomic<bool> serves_page = false;
  std::mutex push_mutex;
  std::unique_ptr<metrics::OtlpPush> push;  // null: metrics are not pushed, or not yet
  const auto changed = [&](const analyzer::FleetVerdict& news) {
    book.OnVerdict({.job = news.job,
                    .session = analyzer::LeafOf(news.folder),
                    .revision = news.update.revision,
                    .job_ended = news.update.job_ended,
                    .killed_by_gordian = news.update.killed_by_gordian},
                   news.update.verdict);
    pages.WriteSoon(news.folder);
    if (serves_page) gateway.Wake();
    const std::lock_guard lock(push_mutex);
    if (push != nullptr) push->Wake();
  };
  Teller teller(what, suspect_after_ns, flags.json, &printer, changed);
  analyzer::FleetOptions options;
  options.listen = flags.listen;
  options.sessions_dir = flags.sessions;
  if (const std::optional<ProcessStat> self = ReadProcessStat(getpid())) {
    options.process_start = self->key.start;
  }
  options.model.suspect_after_ns = suspect_after_ns;
  options.on_verdict = [&teller](const analyzer::FleetVerdict& news) { teller.Tell(news); };
  options.on_warning = [&printer](const std::string& text) {
    printer.Say(kErr, "gordian: " + Printable(text) + "\n");
  };
  const StatusOr<std::shared_ptr<const access::AccessKey>> key = KeyOf(flags);
  status = key.status();
  const bool nodes_need_token = WantsToken(flags, flags.listen);
  if (status.ok() && nodes_need_token) {
    options.may_write = [key = *key](std::string_view token, std::string_view job) {
      return key->MayWrite(token, job);
    };
    options.may_view = [key = *key](std::string_view token) { return key->MayView(token); };
  }
  options.tls = flags.tls;
  if (status.ok()) status = fleet.Start(std::move(options));
  std::string page;
  if (status.ok() && !flags.http.empty()) {
    const StatusOr<std::string> address =
        ServePage(flags, *key, jobs_of_pages, job_metrics, &printer, &gateway);
    status = address.status();
    if (address.ok()) page = *address;
    book.SetPage(page.substr(0, page.find('#')));  // without the token
    serves_page = address.ok();
  }
  if (status.ok() && *otlp) {
    const std::lock_guard lock(push_mutex);
    push = std::make_unique<metrics::OtlpPush>(
        PushOf(*std::move(otlp), job_metrics, serves_page ? &gateway : nullptr, &printer));
  }
  if (status.ok()) ResumeIncidents(&fleet, &book);
  if (!status.ok()) {
    pages.Stop();
    fleet.Stop();
    PrintError(status.message());
    return kExitOwnFailure;
  }
  const std::string host = flags.listen.substr(0, flags.listen.rfind(':'));
  const std::string address = host + ":" + std::to_string(fleet.port());
  const auto jobs = fleet.jobs();
  size_t live = 0;
  for (const auto& job : jobs) {
    live += job.live ? 1 : 0;
  }
  std::string first =
      flags.json
          ? nlohmann::ordered_json{{"listening", address},
                                   {"sessions", flags.sessions},
                                   {"page", page},
                                   {"jobs_resumed", live},
                                   {"nodes_need_token", nodes_need_token},
                                   {"gordian_version", kVersion}}
                    .dump() +
                "\n"
          : "gordian: listening on " + address + ", sessions in " + ShownQuote(flags.sessions) +
                (live > 0 ? ", continuing " + std::to_string(live) + " jobs" : "") + "\n" +
                (page.empty() ? "" : "gordian: page: " + page + "\n") +
                (nodes_need_token ? "gordian: nodes need a token: gordian token --job NAME " +
                                        ShownQuote(flags.sessions) + "\n"
                                  : "");
  printer.Start(kOut, std::move(first));
  const auto reap = [&commands] {
    int wait_status = 0;
    for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      (void)commands.Reaped(pid, wait_status);
    }
  };
  bool end = false;
  while (!end) {
    pollfd waits[3] = {{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                       {.fd = teller.wake_fd(), .events = POLLIN, .revents = 0},
                       {.fd = commands.wake_fd(), .events = POLLIN, .revents = 0}};
    poll(waits, 3, -1);
    commands.LaunchWanted(signals);
    while (const std::optional<SignalInbox::Received> signal = signals.Next()) {
      end |= signal->number == SIGINT || signal->number == SIGTERM;
    }
    for (const std::vector<Variable>& variables : teller.TakeWanted()) {
      const Launched launched = Launch({.path = "/bin/sh",
                                        .argv = {"sh", "-c", command},
                                        .environment = FullEnvironment(variables),
                                        .aside = true},
                                       signals);
      if (launched.error != 0) {
        printer.Say(kErr, "gordian: " + DescribeExecError("/bin/sh", launched.error) + "\n");
      }
    }
    reap();
  }
  if (push != nullptr) {  // while the jobs are still there
    push->Finish();
    AwaitDelivery(
        {.done = [&] { return push->Finished(); }, .limit_ns = kLastPushNs, .meanwhile = reap},
        signals);
    push->Stop();
  }
  gateway.Stop();
  pages.Stop();
  fleet.Stop();
  DeliverAlerts(book, &commands, signals, kDeliverNs, reap);
  commands.Stop();
  book.Stop();  // alerts that wait are sent after the next start
  return kExitOk;
}

}  // namespace

void AddServeVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* verb =
      app.add_subcommand("serve", "Analyze jobs of many nodes, which run gordian run --analyzer");
  verb->add_option("--listen", flags->listen,
                   std::string("Address to listen at; port 0: any free port (default: ") +
                       kDefaultListen + ")")
      ->type_name("HOST:PORT");
  verb->add_option("--sessions", flags->sessions,
                   std::string("Folder with a folder for each job; jobs found in it go on "
                               "(default: ") +
                       kDefaultSessions + ")")
      ->type_name("DIR");
  verb->add_option("--on-verdict", flags->on_verdict,
                   "report: print it (default); exec:CMD: also run a shell command, once a job")
      ->type_name("WHAT");
  verb->add_option(
          "--suspect-after", flags->suspect_after,
          "Suspect a hang after so long without progress or proof (default: 5); after 3 times "
          "that where the ranks that others wait for work, or a collective that all have "
          "called runs on, 10 times behind a long kernel, 12 times in calls that make or "
          "destroy communicators")
      ->type_name("SECONDS");
  verb->add_option("--http", flags->http,
                   "Serve the live page of all jobs, and /metrics, at this address (port 0: any "
                   "free port); beyond this machine it wants a token (gordian token)")
      ->type_name("HOST:PORT");
  verb->add_option("--tls-cert", flags->tls.cert,
                   "Use TLS on both addresses, with this certificate (PEM, with its chain); a file "
                   "that is renewed is used for later connections")
      ->type_name("FILE");
  verb->add_option("--tls-key", flags->tls.key, "The key of --tls-cert (PEM)")->type_name("FILE");
  verb->add_option("--tls-ca", flags->tls.ca,
                   "Take only clients whose certificate this authority (PEM) has signed")
      ->type_name("FILE");
  verb->add_flag(
      "--insecure", flags->insecure,
      "Want no tokens, also beyond this machine: whoever reaches the ports may join jobs "
      "and see them");
  AddOtlpOption(verb, &flags->otlp);
  AddAlertOptions(verb, &flags->alert);
  verb->add_flag("--json", flags->json,
                 "Print one JSON object a line: the address, then each verdict");
  verb->footer(
      "Ends on SIGINT or SIGTERM; jobs that still run are kept by their nodes until the next "
      "start.\n"
      "Beyond this machine nodes and viewers need tokens (gordian token --help).\n"
      "Example: gordian serve --listen 0.0.0.0:7411 --http 0.0.0.0:7412 --sessions /shared/gordian "
      "--tls-cert head.pem --tls-key head.key");
  verb->callback([=] {
    // A command that runs at a verdict may need what serve does not.
    bool runs_command = flags->on_verdict && flags->on_verdict->starts_with("exec:");
    for (const std::string& alert : flags->alert.targets) {
      runs_command |= alert.starts_with("exec:");
    }
    if (!runs_command) context->needs = Needs{.network = true};
    context->chosen = [=] { return Serve(*flags); };
  });
}

}  // namespace gordian::cli
