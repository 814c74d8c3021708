#include "cli/run/job_runner.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "analyzer/ingest/ingest_service.h"
#include "analyzer/report/report.h"
#include "cli/incidents/run_incidents.h"
#include "cli/job/await_delivery.h"
#include "cli/job/emulator_check.h"
#include "cli/job/job_environment.h"
#include "cli/job/own_limits.h"
#include "cli/job/ring_folder.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/run/otlp_option.h"
#include "cli/run/remote_verdicts.h"
#include "cli/run/verdict_desk.h"
#include "cli/run/verdict_policy.h"
#include "collector/collector.h"
#include "collector/recovery/recovery.h"
#include "common/clock.h"
#include "common/shell_quote.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

// A kill of the whole group and our forwarding may both deliver one signal; a repeat within this
// time is no second signal.
constexpr uint64_t kSameSignalNs = 250 * kNsPerMs;
// How long processes with rings may outlive the job's first process before gordian ends them.
constexpr uint64_t kStragglersNs = 500 * kNsPerMs;
// How long gordian watches a process's libraries after its first intercepted call: a process may
// load NCCL later than CUDA.
constexpr uint64_t kLibraryWatchNs = 3 * kNsPerSecond;
constexpr std::chrono::milliseconds kKillLimit{5000};
// How long a verdict that ends the job waits for the stacks of its threads.
constexpr uint64_t kStacksNs = 1 * kNsPerSecond;
// When `run` says that it does not see all ranks, in multiples of --suspect-after.
constexpr double kUnseenAfter = 4;
constexpr double kUnseenUntil = 12;
constexpr uint64_t kUserCommandNs = 10 * kNsPerSecond;
constexpr uint64_t kMetricsEveryNs = 5 * kNsPerSecond;

std::string JoinCommand(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    line += (line.empty() ? "" : " ") + ShellQuote(word);
  }
  return line;
}

collector::Collector::Options CollectorOptions(const JobOptions& options) {
  collector::Collector::Options collect;
  collect.ring_dir = options.ring_dir;
  collect.session_dir = options.session_dir;
  collect.session_folder = options.session_folder;
  collect.command_line = JoinCommand(options.command);
  collect.environment = options.environment_that_matters;
  return collect;
}

}  // namespace

struct JobRunner::BeforeRestart {
  uint64_t seen = 0;  // as Collector::Stats::processes
  std::vector<ProcessKey> rings;
};

// gordian decides to act on a verdict, and does so once it has the stacks. Until then the gordian of
// another node may end its ranks, and all launchers start theirs again.
struct JobRunner::Decision {
  uint64_t since_ns = 0;
  VerdictDesk::Acting acting;
  std::vector<ProcessKey> ranks;  // which the verdict names, and that lived
  BeforeRestart before;
};

JobRunner::JobRunner(const JobOptions& options, const InstallPaths& paths,
                     const InheritedDescriptors& inherited, SignalInbox& signals,
                     Guardian& guardian)
    : options_(options),
      paths_(paths),
      inherited_(inherited),
      signals_(signals),
      guardian_(guardian),
      desk_(std::make_unique<VerdictDesk>(options)) {}

JobRunner::~JobRunner() = default;

void JobRunner::Say(const std::string& text) const {
  if (!options_.config.quiet) {
    WriteAll(STDERR_FILENO, text);
  }
}

JobOutcome JobRunner::Run(bool preload_emulator) {
  outcome_.restarts = options_.restarts;
  StartObserving();
  const std::vector<Variable> variables =
      JobVariables(paths_,
                   {.ring_dir = collector_ != nullptr ? options_.ring_dir : "",
                    .session_dir = options_.absolute_session_dir,
                    .emulator = options_.config.emulator,
                    .preload_emulator = preload_emulator,
                    .graph_markers = options_.config.graph_markers,
                    .preemptive_collectives = options_.config.preemptive_collectives,
                    .preemptive_names = options_.config.preemptive_names,
                    .recovery = options_.config.on_verdict == OnVerdict::kRecover,
                    .stub_compute = options_.config.stub_compute,
                    .stub_keep = options_.config.stub_keep,
                    .stub_skip = options_.config.stub_skip,
                    .nccl_profiler = options_.config.nccl_profiler,
                    .cupti = options_.config.cupti},
                   ProcessEnvironment());
  inherited_.KeepOthersFromChildren();
  const Launched launched = Launch({.path = options_.program,
                                    .argv = options_.command,
                                    .environment = FullEnvironment(variables)},
                                   signals_);
  started_ns_ = MonoNs();
  outcome_.exec_error = launched.error;
  outcome_.pid = launched.pid;
  if (launched.error == 0) {
    if (const std::optional<ProcessStat> stat = ReadProcessStat(launched.pid)) {
      guardian_.SetJob(stat->key);
    }
    spdlog::info("started {} as pid {}", JoinCommand(options_.command), launched.pid);
    Loop();
  }
  StopObserving();
  return std::move(outcome_);
}

void JobRunner::StartObserving() {
  if (options_.ring_dir.empty()) {
    return;
  }
  // The standard library throws when memory or a thread is not to be had.
  Status status = RoomToObserve();
  if (status.ok()) {
    try {
      status = options_.config.analyzer.empty() ? ObserveFromHere() : ObserveFromAfar();
    } catch (const std::exception& error) {
      status = Status::Unavailable(std::string("cannot watch the job (") + error.what() +
                                   "; raise the limits on memory and processes, see ulimit -a)");
    }
  }
  if (!status.ok()) {
    collector_.reset();
    page_.reset();
    server_.reset();
    remote_.reset();
    incidents_.reset();
    PrintError(status.message() + ": the job runs on, unobserved");
  }
  outcome_.observed = collector_ != nullptr;
  if (!outcome_.observed) return;
  if (const std::string why = WhyNoRing(options_.ring_dir); !why.empty()) {
    PrintError("cannot watch the job's calls: " + why);
    if (server_ != nullptr) server_->analysis()->SetWhyNothingSeen(why);
  }
}

Status JobRunner::ObserveFromHere() {
  OpenIncidents();
  server_ = std::make_unique<analyzer::EmbeddedServer>();
  analyzer::ServerOptions server_options;
  server_options.analysis.session_dir = options_.session_dir;
  server_options.analysis.folder = options_.session_folder;
  server_options.socket = kStatusSocket;
  server_options.analysis.model.suspect_after_ns =
      static_cast<uint64_t>(options_.config.suspect_after_s * 1e9);
  // The first operation of a job may stand in a cycle before gordian knows whose it is.
  if (options_.config.preemptive_collectives)
    server_options.pace.confirming = server_options.pace.confirming_runtime;
  server_options.analysis.on_verdict = [this](const analyzer::VerdictUpdate& update) {
    desk_->OnVerdict(update);
    incidents_->OnVerdict(update, desk_->interrupted());
    if (page_ != nullptr) page_->OnVerdict();
  };
  GORDIAN_RETURN_IF_ERROR(server_->Start(std::move(server_options)));
  OpenPage();
  collector::Collector::Options collect = CollectorOptions(options_);
  collect.channel = server_->InProcessChannel();
  collector_ = std::make_unique<collector::Collector>(std::move(collect));
  return collector_->Start();
}

std::string JobRunner::JobName() const {
  const std::string& named =
      options_.session_dir.empty() ? options_.program : options_.absolute_session_dir;
  return std::filesystem::path(named).filename();
}

void JobRunner::OpenIncidents() {
  const bool asked = !options_.alerts.targets.empty();
  const auto on_line = [this, asked](const std::string& line) {
    if (asked || !options_.config.quiet) desk_->OnNotice("gordian: " + Printable(line) + "\n");
  };
  incidents_ = std::make_unique<RunIncidents>(
      options_.alerts, options_.identity.named ? options_.identity.job : JobName(),
      options_.absolute_session_dir, on_line);
}

// Before the collector begins, so before any verdict. A page that cannot be served is no reason not
// to watch the job.
void JobRunner::OpenPage() {
  if (!options_.make_page) return;
  page_ = options_.make_page({.analysis = server_->analysis(),
                              .job = JobName(),
                              .session_dir = options_.session_dir,
                              .session_folder = options_.session_folder,
                              .incidents = incidents_.get()});
  const auto on_line = [desk = desk_.get()](const std::string& line) {
    desk->OnNotice("gordian: " + Printable(line) + "\n");
  };
  if (!options_.http.empty()) ServePage(on_line);
  if (options_.otlp) page_->PushMetrics(options_.otlp, on_line);
}

void JobRunner::ServePage(const std::function<void(const std::string&)>& on_line) {
  const StatusOr<std::string> address = page_->Serve(options_.http, options_.http_tls, on_line);
  if (address.ok()) {
    Say("gordian: page: " + *address + "\n");
    // Without the token, which is behind the "#".
    incidents_->SetPage(address->substr(0, address->find('#')));
  } else {
    PrintError(address.status().message() + ": there is no live page; the job runs on");
  }
}

void JobRunner::WritePage() {
  if (page_ == nullptr || server_ == nullptr) return;
  const uint64_t revision = server_->analysis()->stats().revision;
  if (revision != page_revision_) {
    page_revision_ = revision;
    page_->WriteReport();
    metrics_written_ns_ = 0;
  }
  WriteMetrics();
}

void JobRunner::WriteMetrics() {
  if (options_.metrics_file.empty() || MonoNs() - metrics_written_ns_ < kMetricsEveryNs) return;
  metrics_written_ns_ = MonoNs();
  const Status written = WriteOutput(options_.metrics_file, page_->Metrics());
  if (!written.ok() && !std::exchange(metrics_failed_, true)) {
    PrintError(written.message() + ": the metrics are not written; the job runs on");
  }
}

Status JobRunner::ObserveFromAfar() {
  desk_ = std::make_unique<VerdictDesk>(
      options_, [this](const std::vector<std::string>& rings) { return MayEnd(rings); });
  remote_ = std::make_unique<RemoteVerdicts>(
      options_.session_dir, options_.session_folder,
      [desk = desk_.get()](const analyzer::VerdictUpdate& update) { desk->OnVerdict(update); });
  collector::FleetOptions fleet;
  fleet.target = options_.config.analyzer;
  fleet.access = options_.config.access;
  fleet.job = options_.identity.job;
  fleet.node = options_.identity.node;
  fleet.nodes_expected = options_.identity.nodes_expected;
  fleet.node_rank = options_.identity.node_rank;
  fleet.spool_dir = spool_dir_ = SpoolDir();
  fleet.spool_bytes = options_.config.spool_mb << 20;
  fleet.deliver_ns = static_cast<uint64_t>(options_.config.deliver_s * 1e9);
  fleet.on_verdict = [remote = remote_.get()](const v1::VerdictNews& news) {
    remote->OnNews(news);
  };
  fleet.on_unfinished = [remote = remote_.get()](bool unfinished) {
    remote->OnUnfinished(unfinished);
  };
  fleet.on_notice = [desk = desk_.get()](const std::string& line) {
    desk->OnNotice("gordian: " + line + "\n");
  };
  collector::Collector::Options collect = CollectorOptions(options_);
  collect.fleet = std::move(fleet);
  collector_ = std::make_unique<collector::Collector>(std::move(collect));
  outcome_.analyzed_at = options_.config.analyzer;
  return collector_->Start();
}

// A verdict from elsewhere may be about another job by the same name, or made up: it ends the job
// only where it names a process of it that lives.
bool JobRunner::MayEnd(const std::vector<std::string>& rings) const {
  return TrustsAnalyzer(options_.config) && !Named(rings).empty();
}

// The living processes of this job that have these ring files.
std::vector<ProcessKey> JobRunner::Named(const std::vector<std::string>& rings) const {
  if (rings.empty()) return {};
  const std::vector<ProcessKey> ours = Descendants(getpid(), {});
  std::vector<ProcessKey> all;
  for (const std::string& ring : rings) {
    ProcessKey named;
    if (ParseRingFileName(ring, &named) && std::binary_search(ours.begin(), ours.end(), named))
      all.push_back(named);
  }
  return all;
}

// Each start of the job gets its own folder: a restart has another collector with other batches.
std::string JobRunner::SpoolDir() const {
  if (options_.session_dir.empty()) {
    return "";
  }
  std::string dir = options_.session_dir + "/spool";
  for (int number = 2; access(dir.c_str(), F_OK) == 0; ++number) {
    dir = options_.session_dir + "/spool." + std::to_string(number);
  }
  return dir;
}

bool JobRunner::Unfinished() const {
  return remote_ != nullptr ? remote_->unfinished() : server_->analysis()->HasUnfinished();
}

bool JobRunner::AwaitsStacks() const {
  return remote_ != nullptr ? collector_->TakingStacks() : server_->analysis()->AwaitsStacks();
}

void JobRunner::Loop() {
  std::optional<uint64_t> root_gone_ns;
  while (true) {
    const int commands_fd = incidents_ != nullptr ? incidents_->commands().wake_fd() : -1;
    pollfd waits[3] = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                       {.fd = desk_->wake_fd(), .events = POLLIN, .revents = 0},
                       {.fd = commands_fd, .events = POLLIN, .revents = 0}};
    poll(waits, 3, root_gone_ns ? 5 : PollTimeout());
    if (incidents_ != nullptr) incidents_->commands().LaunchWanted(signals_);
    HandleSignals();
    desk_->ClearWake();
    TellNews();
    NoteComeback();
    if (!root_gone_) {
      Recover();
      ActOnVerdict();
      CheckLibraries();
      continue;
    }
    if (!root_gone_ns) {
      root_gone_ns = MonoNs();
    }
    const uint64_t since = MonoNs() - *root_gone_ns;
    if (LivingRingProcesses(options_.ring_dir).empty() || since >= 2 * kStragglersNs ||
        (since >= kStragglersNs && !passed_on_)) {
      return;
    }
    if (since >= kStragglersNs / 2 && sent_signal_ != 0 && !passed_on_) {
      PassSignalOn();
    }
  }
}

int JobRunner::PollTimeout() const {
  if (options_.config.emulator && outcome_.observed &&
      (MonoNs() - started_ns_ < kLibraryWatchNs || !checked_since_.empty())) {
    return 50;
  }
  if (decision_ && !acted_) {
    return 5;
  }
  return desk_->WantsTicks() || before_restart_ ? 100 : 1000;
}

void JobRunner::HandleSignals() {
  while (const std::optional<SignalInbox::Received> signal = signals_.Next()) {
    if (signal->number == SIGCHLD) {
      continue;  // one SIGCHLD may stand for several children: Reap looks at all
    }
    spdlog::info("signal {}{}", signal->number, signal->from_kernel ? " of the terminal" : "");
    if (root_gone_) {
      continue;
    }
    const bool ends = signal->number == SIGINT || signal->number == SIGTERM;
    if (ends || signal->number == SIGHUP || signal->number == SIGQUIT) {
      desk_->SetInterrupted();
    }
    if (ends && first_signal_ns_ && MonoNs() - *first_signal_ns_ >= kSameSignalNs) {
      Say("gordian: second signal, killing the job\n");
      desk_->Close();
      EndTree();
      continue;
    }
    if (ends && !first_signal_ns_) {
      first_signal_ns_ = MonoNs();
    }
    // The kernel sends a terminal's SIGHUP to the session leader only.
    const bool hangup_for_us = signal->number == SIGHUP && getsid(0) == getpid();
    if (!signal->from_kernel || hangup_for_us) {
      kill(outcome_.pid, signal->number);
      sent_signal_ = ends ? signal->number : sent_signal_;
    }
  }
  Reap();
}

// The signal killed the job's first process alone, as it does a launcher without a handler. gordian
// passes it on to the rest, which would otherwise hold their devices, perhaps for ever.
void JobRunner::PassSignalOn() {
  passed_on_ = true;
  for (const ProcessKey& process : Descendants(getpid(), Spared())) {
    if (IsAlive(process)) {
      kill(process.pid, sent_signal_);
    }
  }
}

std::vector<pid_t> JobRunner::Spared() const {
  std::vector<pid_t> spared = user_commands_;
  if (incidents_ != nullptr) {
    for (const pid_t pid : incidents_->commands().pids()) spared.push_back(pid);
  }
  if (guardian_.pid() > 0) {
    spared.push_back(guardian_.pid());
  }
  return spared;
}

void JobRunner::Reap() {
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      return;
    }
    if (WIFSTOPPED(status)) {
      continue;  // a thread of some process whose stack gordian is reading
    }
    if (pid == guardian_.pid()) {
      spdlog::warn("the guardian ended");
      continue;
    }
    if (incidents_ != nullptr && incidents_->commands().Reaped(pid, status)) continue;
    const auto command = std::find(user_commands_.begin(), user_commands_.end(), pid);
    if (command != user_commands_.end()) {
      user_commands_.erase(command);
      if (const int code = ExitCodeOfStatus(status); code != 0) {
        PrintError("the command of --on-verdict ended with exit code " + std::to_string(code));
      }
      continue;
    }
    if (pid == outcome_.pid) {
      outcome_.wait_status = status;
      root_gone_ = true;
    }
    if (collector_ != nullptr) {
      collector_->NoteExit(pid, status);
    }
  }
}

void JobRunner::TellNews() {
  for (const std::string& text : desk_->TakeNotices()) {
    WriteAll(STDERR_FILENO, text);  // also with --quiet: gordian does not do what it was asked to
  }
  for (const std::string& text : desk_->TakeNews()) {
    Say(text);
  }
  NoteDegradedSession();
  NoteUnseenRanks();
  WritePage();
}

// A verdict on a part of the job reads like one on the whole.
void JobRunner::NoteUnseenRanks() {
  const uint64_t now_ns = MonoNs();
  const double age = static_cast<double>(now_ns - started_ns_) * 1e-9 /
                     std::max(options_.config.suspect_after_s, 0.1);
  if (unseen_said_ || root_gone_ || started_ns_ == 0 || age < kUnseenAfter || age > kUnseenUntil ||
      now_ns - unseen_looked_ns_ < kNsPerSecond) {
    return;
  }
  unseen_looked_ns_ = now_ns;
  std::optional<model::Verdict> verdict;
  if (remote_ != nullptr) {
    verdict = remote_->latest();
  } else if (server_ != nullptr && server_->analysis() != nullptr) {
    verdict = server_->analysis()->Current();
  }
  // Verdicts on problems say what was not seen.
  if (!verdict || verdict->main.verdict != model::VerdictKind::kHealthy) return;
  if (const std::string line = analyzer::UnseenRanksText(verdict->main, {.width = options_.width});
      !line.empty()) {
    unseen_said_ = true;
    Say(line);
  }
}

void JobRunner::NoteDegradedSession() {
  if (remote_ != nullptr && !degraded_said_ && !remote_->problem().empty()) {
    degraded_said_ = true;
    PrintError(remote_->problem() + ": the job runs on and is still watched");
  }
  if (degraded_said_ || server_ == nullptr || server_->analysis() == nullptr ||
      !server_->analysis()->stats().session_degraded) {
    return;
  }
  degraded_said_ = true;
  std::string why;
  for (const std::string& note : server_->analysis()->Current().main.evidence.not_visible) {
    if (note.starts_with("the session's files are not complete")) {
      why = note;
    }
  }
  PrintError((why.empty() ? "the session's files are not complete" : why) +
             "; the job runs on and is still watched");
}

// Looks at the analysis of this machine alone, on which the ranks are.
void JobRunner::Recover() {
  if (options_.config.on_verdict != OnVerdict::kRecover || server_ == nullptr) return;
  if (recovery_ != nullptr && !recovery_->over()) return;
  recovery_.reset();
  const std::optional<model::Recovery> wanted = desk_->TakeRecovery();
  if (!wanted) return;
  collector::RecoveryRun::Options run;
  run.session_dir = options_.absolute_session_dir;
  std::vector<model::Site> sites;
  for (const model::RecoveryUnit& unit : wanted->units) {
    run.units.push_back({.pid = unit.pid,
                         .rank = unit.rank,
                         .communicator = unit.communicator,
                         .comm = unit.comm,
                         .stream = unit.stream,
                         .sequence = unit.sequence,
                         .ordinal = unit.ordinal,
                         .early = unit.early,
                         .after = unit.after,
                         .operation = unit.operation});
    sites.push_back(unit.site);
  }
  for (const model::RecoveryMember& member : wanted->members) {
    run.members.push_back({member.pid, member.rank, member.communicator, member.comm});
  }
  v1::Event event;
  for (const std::string& operation : wanted->operations)
    event.mutable_recovery()->add_operations(operation);
  analyzer::Analysis* const analysis = server_->analysis();
  run.on_begin = [analysis, event]() mutable {
    event.mutable_recovery()->set_step(v1::RECOVERY_STEP_BEGUN);
    analysis->OnEvent(event);
  };
  run.on_end = [this, analysis, event, sites](const collector::RecoveryOutcome& outcome) mutable {
    using How = collector::RecoveryOutcome::How;
    v1::Recovery& to = *event.mutable_recovery();
    to.set_step(outcome.how == How::kRecovered ? v1::RECOVERY_STEP_DONE
                : outcome.how == How::kRefused ? v1::RECOVERY_STEP_REFUSED
                                               : v1::RECOVERY_STEP_FAILED);
    to.set_refused(outcome.condition);
    to.set_why(outcome.why);
    to.set_rank(outcome.rank);
    to.set_ms(outcome.ms);
    if (outcome.unit < sites.size()) {
      to.set_process(sites[outcome.unit].process);
      to.set_site(sites[outcome.unit].address);
    }
    analysis->OnEvent(event);
    if (outcome.how == How::kRecovered) {
      TellRecovered({event.recovery().operations().begin(), event.recovery().operations().end()},
                    outcome.ms);
    } else {
      desk_->OnNotice(
          "gordian: " +
          std::string(outcome.how == How::kRefused ? "not recovered (" : "the recovery failed (") +
          outcome.condition + "): " + Printable(outcome.why) + "\n");
    }
  };
  recovery_ = std::make_unique<collector::RecoveryRun>(std::move(run));
}

// A cycle that comes back at the same lines, on communicators that were made anew, is no accident.
void JobRunner::TellRecovered(const std::vector<std::string>& operations, double ms) {
  constexpr int kNoAccident = 3;
  std::string line = fmt::format("gordian: recovered in {:.1f} ms: the job goes on\n", ms);
  const model::Verdict verdict = server_->analysis()->Current();
  const auto is_of_it = [&](const model::Finding& finding) {
    return finding.recovery.recovered && finding.recovery.operations == operations;
  };
  const auto further = std::find_if(verdict.findings.begin(), verdict.findings.end(), is_of_it);
  const model::Finding* const finding = is_of_it(verdict.main)              ? &verdict.main
                                        : further != verdict.findings.end() ? &*further
                                                                            : nullptr;
  if (finding != nullptr) {
    std::set<std::string> lines;
    for (const model::WaitEdge& edge : finding->cycle)
      lines.insert(server_->analysis()->sites()(edge.site));
    if (++recoveries_[lines] == kNoAccident) {
      line += fmt::format(
          "gordian: this was the third recovery of a cycle at {}: the program is wrong; what to "
          "change: {}\n",
          Printable(fmt::format("{}", fmt::join(lines, ", "))), Printable(finding->advice));
    }
  }
  desk_->OnNotice(std::move(line));
}

void JobRunner::ActOnVerdict() {
  if (collector_ == nullptr) {
    return;
  }
  if (acted_) {
    return;
  }
  if (!decision_) {
    if (!desk_->ActNow(collector_->stats().records, Unfinished())) {
      return;
    }
    decision_ = Decide();
  }
  // The stacks cannot be read after the kill.
  if (AwaitsStacks() && MonoNs() - decision_->since_ns < kStacksNs) {
    return;
  }
  acted_ = true;
  TellNews();
  if (options_.config.on_verdict == OnVerdict::kExec) {
    RunUserCommand();
    return;
  }
  if (IsRestart(options_.config.on_verdict)) {
    Restart();
  } else {
    KillJob();
  }
}

std::unique_ptr<JobRunner::Decision> JobRunner::Decide() const {
  auto made = std::make_unique<Decision>();
  Decision& decision = *made;
  decision.since_ns = MonoNs();
  if (!IsRestart(options_.config.on_verdict)) return made;
  decision.acting = desk_->acting();
  decision.ranks = Named(decision.acting.rings);
  decision.before = RingsNow();
  return made;
}

JobRunner::BeforeRestart JobRunner::RingsNow() const {
  BeforeRestart now;
  now.seen = collector_->stats().processes;
  for (const RingFileEntry& ring : ListRings(options_.ring_dir)) now.rings.push_back(ring.process);
  return now;
}

void JobRunner::KillJob() {
  spdlog::info("ending the job for its verdict");
  desk_->Close();
  outcome_.problem = true;
  outcome_.killed_by_gordian = true;
  // The analyzer must know why the processes end before they do.
  end_announced_ = true;
  collector_->JobEnded(v1::EXIT_KIND_SIGNAL, SIGKILL, /*killed_by_gordian=*/true);
  HaveRanksElsewhereEnded();
  EndTree();
  if (const size_t left = RanksElsewhere().size(); left > 0) {
    PrintError(std::to_string(left) + (left == 1 ? " rank that is" : " ranks that are") +
               " not below gordian, as tasks of srun are not, did not end within 5 s of the "
               "SIGTERM that told the launcher to end them");
  }
}

// A daemon of the launcher's has started these, as Slurm's does for srun.
std::vector<ProcessKey> JobRunner::RanksElsewhere() const {
  std::vector<ProcessKey> ranks = LivingRingProcesses(options_.ring_dir);
  const std::vector<ProcessKey> ours = Descendants(getpid(), {});
  std::erase_if(ranks, [&](const ProcessKey& rank) {
    return std::binary_search(ours.begin(), ours.end(), rank);
  });
  return ranks;
}

// gordian kills no process that is not below it. The launcher that had such a rank started ends it
// on SIGTERM and then gives back what it has of its daemon; after a SIGKILL it could do neither.
void JobRunner::HaveRanksElsewhereEnded() {
  if (RanksElsewhere().empty()) return;
  const auto below = [this] { return Descendants(getpid(), Spared()); };
  for (const ProcessKey& process : below()) kill(process.pid, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kKillLimit;
  while (!below().empty() && std::chrono::steady_clock::now() < deadline) {
    Reap();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A launcher below gordian learns of the ends of its ranks and starts them again, or ends. Where the
// job's first process is a rank, only who started gordian can start the job again.
void JobRunner::Restart() {
  const std::string& cause = decision_->acting.cause;
  std::vector<ProcessKey>& ranks = decision_->ranks;
  int& times = outcome_.restarts.causes[cause];
  if (times >= options_.config.most_restarts) {
    Say("gordian: started again " + std::to_string(times) + (times == 1 ? " time" : " times") +
        " for the same cause, not again: " + Printable(cause) + "\n");
    KillJob();
    return;
  }
  ++times;
  const bool first_is_rank = std::any_of(
      ranks.begin(), ranks.end(), [&](const ProcessKey& rank) { return rank.pid == outcome_.pid; });
  // A verdict from elsewhere counts only where it names living ranks, so these have ended since.
  if ((ranks.empty() && remote_ == nullptr) || first_is_rank) {
    outcome_.restart_wanted = true;
    KillJob();
    return;
  }
  KeepVerdict();
  std::erase_if(ranks, [](const ProcessKey& rank) { return !IsAlive(rank); });
  // What the ranks started since the decision ends with them; their next start may have begun before.
  before_restart_ =
      std::make_unique<BeforeRestart>(ranks.empty() ? std::move(decision_->before) : RingsNow());
  EndRanks(ranks);
  const std::string start = std::to_string(outcome_.restarts.starts);
  Say("gordian: " +
      (ranks.empty() ? "the launcher ended the ranks of start " + start + " before gordian did"
                     : "ended the ranks of start " + start +
                           " for this verdict, so that their launcher starts them again") +
      " (" + std::to_string(times) + " of " + std::to_string(options_.config.most_restarts) +
      " for this cause)\n");
  acted_ = false;
  decision_.reset();
}

// The next start's verdict replaces the session's.
void JobRunner::KeepVerdict() const {
  if (options_.session_folder == nullptr) return;
  const std::string number = std::to_string(outcome_.restarts.starts);
  for (const auto& [from, to] : {std::pair("verdict.json", "verdict." + number + ".json"),
                                 std::pair("report.txt", "report." + number + ".txt")}) {
    if (const Status status = options_.session_folder->CopyFile(from, to); !status.ok())
      PrintError(status.message());
  }
}

// With all that the ranks have started. SIGKILL, since a thread in NCCL hears nothing else.
void JobRunner::EndRanks(const std::vector<ProcessKey>& ranks) {
  spdlog::info("ending {} ranks for their verdict", ranks.size());
  std::vector<ProcessKey> all = ranks;
  for (const ProcessKey& rank : ranks) {
    collector_->NoteKill(rank.pid, rank.start);
    for (const ProcessKey& below : Descendants(rank.pid, Spared())) all.push_back(below);
  }
  const auto find = [&] {
    std::erase_if(all, [](const ProcessKey& process) { return !IsAlive(process); });
    return all;
  };
  if (const size_t left = KillUntilGone(
          find, [this] { Reap(); }, kKillLimit);
      left > 0) {
    PrintError(std::to_string(left) +
               " processes of the ranks did not die within 5 s of SIGKILL (stuck in the kernel?)");
  }
}

// Notices that the launcher has started a rank again, which may have ended since.
void JobRunner::NoteComeback() {
  if (!before_restart_) return;
  const std::vector<ProcessKey>& before = before_restart_->rings;
  const std::vector<RingFileEntry> now = ListRings(options_.ring_dir);
  const bool came = collector_->stats().processes > before_restart_->seen ||
                    std::any_of(now.begin(), now.end(), [&](const RingFileEntry& ring) {
                      return std::find(before.begin(), before.end(), ring.process) == before.end();
                    });
  if (!came) return;
  before_restart_.reset();
  ++outcome_.restarts.starts;
}

void JobRunner::RunUserCommand() {
  const model::Finding finding = desk_->latest();
  std::vector<Variable> variables = VerdictVariables(finding);
  variables.emplace_back("GORDIAN_SESSION", options_.absolute_session_dir);
  const Launched launched = Launch({.path = "/bin/sh",
                                    .argv = {"sh", "-c", options_.config.on_verdict_command},
                                    .environment = FullEnvironment(variables),
                                    .aside = true},
                                   signals_);
  if (launched.error != 0) {
    PrintError(DescribeExecError("/bin/sh", launched.error));
    return;
  }
  user_commands_.push_back(launched.pid);
}

void JobRunner::CheckLibraries() {
  if (!options_.config.emulator || !outcome_.observed || !outcome_.foreign_libraries.empty()) {
    return;
  }
  const uint64_t now = MonoNs();
  for (const ProcessKey& process : LivingRingProcesses(options_.ring_dir)) {
    const uint64_t since = checked_since_.try_emplace(process, now).first->second;
    if (now - since > kLibraryWatchNs) {
      continue;
    }
    outcome_.foreign_libraries = ForeignLibrariesOf(process.pid, paths_.emulator_dir);
    if (!outcome_.foreign_libraries.empty()) {
      spdlog::warn("pid {} mapped {}", process.pid, outcome_.foreign_libraries.front());
      desk_->Close();
      EndTree();
      return;
    }
  }
  std::erase_if(checked_since_, [&](const auto& entry) { return !IsAlive(entry.first); });
}

// Ends every process below gordian but its own helpers. A ring file's name ends none: any process of
// the user can put one there, about any process.
void JobRunner::EndTree() {
  const std::vector<pid_t> spared = Spared();
  const auto find = [&] { return Descendants(getpid(), spared); };
  if (const size_t left = KillUntilGone(
          find, [this] { Reap(); }, kKillLimit);
      left > 0) {
    PrintError(std::to_string(left) +
               " processes of the job did not die within 5 s of SIGKILL (stuck in the kernel?)");
  }
  Reap();
}

void JobRunner::StopObserving() {
  const uint64_t deadline = MonoNs() + kUserCommandNs;
  while (!user_commands_.empty() && MonoNs() < deadline) {
    poll(nullptr, 0, 10);
    Reap();
  }
  if (collector_ == nullptr) {
    return;
  }
  recovery_.reset();
  NoteComeback();
  // The launcher has started nothing again.
  if (before_restart_ && !desk_->interrupted()) {
    outcome_.restart_wanted = true;
    outcome_.problem = true;
    desk_->Close();
    end_announced_ = true;
    collector_->JobEnded(v1::EXIT_KIND_SIGNAL, SIGKILL, /*killed_by_gordian=*/true);
  }
  if (!end_announced_) {
    const bool by_signal = WIFSIGNALED(outcome_.wait_status);
    collector_->JobEnded(
        by_signal ? v1::EXIT_KIND_SIGNAL : v1::EXIT_KIND_CODE,
        by_signal ? WTERMSIG(outcome_.wait_status) : WEXITSTATUS(outcome_.wait_status),
        /*killed_by_gordian=*/false);
  }
  const Status delivered = collector_->Stop();
  if (!delivered.ok()) {
    PrintError(delivered.message() + ": the last verdict may lack what came after");
  }
  if (remote_ != nullptr) {
    TakeRemoteVerdict(delivered);
  } else {
    server_->Stop();
    outcome_.verdict = server_->analysis()->Current();
    if (page_ != nullptr) page_->WriteLastReport();
    page_revision_ = server_->analysis()->stats().revision;
    metrics_written_ns_ = 0;
  }
  TellNews();
  const auto meanwhile = [this] {
    Reap();
    TellNews();
  };
  if (page_ != nullptr) page_->PushLastMetrics();
  if (incidents_ != nullptr) incidents_->Finish(signals_, meanwhile);
  if (page_ != nullptr) {
    AwaitDelivery({.done = [this] { return page_->MetricsPushed(); },
                   .limit_ns = kLastPushNs,
                   .meanwhile = meanwhile},
                  signals_);
  }
  TellNews();
  const collector::Collector::Stats stats = collector_->stats();
  outcome_.records = stats.records;
  outcome_.lost_records = stats.lost_records;
  outcome_.skipped_kernels = stats.skipped_kernels;
  outcome_.processes = stats.processes;
  outcome_.refused_files = stats.refused_files;
  outcome_.problem = outcome_.problem || desk_->problem();
  collector_.reset();
  page_.reset();
  server_.reset();
  incidents_.reset();
}

void JobRunner::TakeRemoteVerdict(const Status& delivered) {
  // The remote analyzer never got anything, so the local spool holds everything.
  if (!delivered.ok() && collector_->stats().acked_batches == 0) {
    model::ModelOptions model;
    model.suspect_after_ns = static_cast<uint64_t>(options_.config.suspect_after_s * 1e9);
    if (remote_->DecideHere(spool_dir_, JoinCommand(options_.command), delivered.message(),
                            model)) {
      outcome_.analyzed_at.clear();
    }
  }
  if (std::optional<model::Verdict> verdict = remote_->latest()) {
    outcome_.verdict = *std::move(verdict);
  } else {
    outcome_.analyzed_at.clear();
  }
}

}  // namespace gordian::cli
