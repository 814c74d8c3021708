// gordian run: starts a job, observes it, and reports its verdicts.
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "cli/incidents/alert_flags.h"
#include "cli/job/access_options.h"
#include "cli/job/collectives.h"
#include "cli/job/emulator_check.h"
#include "cli/job/install_paths.h"
#include "cli/job/job_environment.h"
#include "cli/job/job_identity.h"
#include "cli/job/launcher.h"
#include "cli/job/own_limits.h"
#include "cli/job/process_tree.h"
#include "cli/job/ring_folder.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "cli/run/guardian.h"
#include "cli/run/job_runner.h"
#include "cli/run/otlp_option.h"
#include "cli/run/verdict_policy.h"
#include "cli/verbs.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/shell_quote.h"
#include "common/version.h"

namespace gordian::cli {
namespace {

struct RunFlags {
  std::optional<std::string> session;
  bool emulator = false;
  bool graph_markers = false;
  bool nccl_profiler = false;
  bool cupti = false;
  std::optional<std::string> collectives;
  bool stub_compute = false;
  std::vector<std::string> stub_keep, stub_skip;
  std::optional<std::string> on_verdict;
  std::optional<std::string> suspect_after;
  std::optional<std::string> analyzer;
  bool trust_analyzer = false;
  std::string http, metrics_file, otlp;
  PageTls http_tls;
  AccessFiles access;
  JobIdentityFlags identity;
  AlertFlags alert;
  std::optional<int> error_exitcode;
  bool predict = false;
  bool quiet = false;
};

StatusOr<RunConfig> MakeConfig(const RunFlags& flags) {
  StatusOr<RunConfig> from_environment = RunConfig::FromEnvironment(ProcessEnvironment());
  GORDIAN_RETURN_IF_ERROR(from_environment.status());
  RunConfig config = std::move(from_environment).value();
  if (flags.session) {
    config.session = *flags.session;
    if (config.session.empty()) {
      return Status::InvalidArgument("--session is empty; give it a folder");
    }
  }
  config.emulator |= flags.emulator;
  config.graph_markers |= flags.graph_markers;
  config.nccl_profiler |= flags.nccl_profiler;
  config.cupti |= flags.cupti;
  if (flags.collectives) {
    GORDIAN_RETURN_IF_ERROR(ParseCollectives("--collectives", *flags.collectives,
                                             &config.preemptive_collectives,
                                             &config.preemptive_names));
  }
  config.stub_compute |= flags.stub_compute;
  GORDIAN_RETURN_IF_ERROR(
      AddStubPatterns("--stub-keep", flags.stub_keep, config.stub_compute, &config.stub_keep));
  GORDIAN_RETURN_IF_ERROR(
      AddStubPatterns("--stub-skip", flags.stub_skip, config.stub_compute, &config.stub_skip));
  if (config.cupti && config.stub_compute) {
    return Status::InvalidArgument(
        "--cupti observes kernels that run and --stub-compute runs none: give one of them");
  }
  config.quiet |= flags.quiet;
  if (flags.analyzer) {
    config.analyzer = *flags.analyzer;
  }
  config.trust_analyzer |= flags.trust_analyzer;
  config.access = WithOptions(std::move(config.access), flags.access);
  if (!config.analyzer.empty()) {
    GORDIAN_RETURN_IF_ERROR(ReadAccess(config.access).status());
  }
  if (!config.analyzer.empty() || flags.analyzer) {
    GORDIAN_RETURN_IF_ERROR(CheckAddress(flags.analyzer ? "--analyzer" : "GORDIAN_ANALYZER",
                                         config.analyzer, /*zero_port_allowed=*/false));
  }
  if (flags.on_verdict) {
    GORDIAN_RETURN_IF_ERROR(ParseOnVerdict("--on-verdict", *flags.on_verdict, &config.on_verdict,
                                           &config.on_verdict_command, &config.most_restarts));
  }
  if (flags.suspect_after) {
    StatusOr<double> seconds = ParseSeconds("--suspect-after", *flags.suspect_after);
    GORDIAN_RETURN_IF_ERROR(seconds.status());
    config.suspect_after_s = *seconds;
  }
  if (config.suspect_after_s < 0.1 || config.suspect_after_s > 1e6) {
    return Status::InvalidArgument("--suspect-after takes between 0.1 and 1000000 seconds");
  }
  if (config.on_verdict == OnVerdict::kRecover) {
    const char* const with =
        !config.analyzer.empty()        ? "--analyzer: it serves the ranks of one machine"
        : config.preemptive_collectives ? "--collectives=preemptive, which has no such cycles"
        : config.stub_compute           ? "--stub-compute, by which results are wrong anyway"
                                        : nullptr;
    if (with != nullptr) {
      return Status::InvalidArgument(std::string("--on-verdict recover does not go with ") + with);
    }
  }
  return config;
}

// Names the first file that is missing before a job can be started; empty if none is.
// `needs_runtime`: the option that does; null: none.
std::string MissingPiece(const InstallPaths& paths, bool emulator, const char* needs_runtime) {
  if (access(paths.shim.c_str(), R_OK) != 0) {
    return "the shim " + paths.shim + " is missing; build it, or set GORDIAN_LIB_DIR to its folder";
  }
  if (paths.lib_dir.find_first_of(": ") != std::string::npos) {
    return "the shim's folder " + paths.lib_dir +
           " has a colon or space in its name, which LD_PRELOAD cannot hold; install gordian "
           "elsewhere";
  }
  if (needs_runtime != nullptr && emulator && access(paths.runtime.c_str(), R_OK) != 0) {
    return std::string(needs_runtime) + " needs " + paths.runtime + ", which is missing; build it";
  }
  if (needs_runtime != nullptr && !emulator && access(paths.runtime_cuda.c_str(), R_OK) != 0) {
    return std::string(needs_runtime) + " needs " + paths.runtime_cuda +
           " on GPUs, which is missing; build it with ./dev build cuda";
  }
  if (emulator) {
    for (const char* name : kEmulatedLibraries) {
      const std::string path = paths.emulator_dir + "/" + name;
      if (access(path.c_str(), R_OK) != 0) {
        return "--emulator needs " + path + ", which is missing; build it";
      }
    }
  }
  return "";
}

// A file that gordian opens must not become descriptor 0, 1 or 2: the job must still find it
// closed.
void FillStandardDescriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) {
      const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
      if (null >= 0 && null != fd) {
        dup3(null, fd, O_CLOEXEC);
        close(null);
      }
    }
  }
}

nlohmann::ordered_json EnvironmentJson() {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const std::string& entry : RelevantEnvironment()) {
    const size_t equals = entry.find('=');
    json[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return json;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

void DescribeStart(const JobOptions& options, Session* session) {
  const ClockPair now = ReadClockPair();
  nlohmann::ordered_json& manifest = session->manifest();
  std::error_code error;
  manifest["schema"] = "gordian.manifest.v1";
  manifest["gordian_version"] = kVersion;
  manifest["command"] = options.command;
  manifest["program"] = options.program;
  manifest["working_directory"] = std::filesystem::current_path(error).string();
  manifest["host"] = HostName();
  manifest["gordian_pid"] = getpid();
  if (const std::optional<ProcessStat> self = ReadProcessStat(getpid())) {
    manifest["gordian_start"] = self->key.start;
  }
  manifest["ring_dir"] = options.ring_dir;
  if (!options.config.analyzer.empty()) {
    manifest["analyzer"] = options.config.analyzer;
    manifest["job"] = options.identity.job;
    manifest["node"] = options.identity.node;
    manifest["nodes_expected"] = options.identity.nodes_expected;
  }
  manifest["suspect_after_s"] = options.config.suspect_after_s;
  manifest["emulator"] = options.config.emulator;
  manifest["environment"] = EnvironmentJson();
  manifest["clocks"] = {{"start_mono_ns", now.mono_ns}, {"start_real_ns", now.real_ns}};
  manifest["started"] = FormatUtc(now.real_ns);
}

void DescribeEnd(const JobOutcome& outcome, int exit_code, Session* session) {
  nlohmann::ordered_json& manifest = session->manifest();
  const ClockPair now = ReadClockPair();
  manifest["clocks"]["end_mono_ns"] = now.mono_ns;
  manifest["clocks"]["end_real_ns"] = now.real_ns;
  manifest["ended"] = FormatUtc(now.real_ns);
  manifest["job_pid"] = outcome.pid;
  manifest["exit_code"] = exit_code;
  manifest["killed_by_gordian"] = outcome.killed_by_gordian;
  if (!outcome.restarts.causes.empty())
    manifest["restarts"] = RestartsJson(outcome.restarts, outcome.restart_wanted);
  nlohmann::ordered_json processes = nlohmann::ordered_json::array();
  for (const SavedRing& ring : SavedRings(session->dir() + "/rings")) {
    processes.push_back({{"pid", ring.pid}, {"rank", ring.rank}, {"local_rank", ring.local_rank}});
  }
  manifest["processes"] = std::move(processes);
}

std::string ClosingLine(const JobOutcome& outcome, const std::string& session_dir, int job_code) {
  const model::Finding& main = outcome.verdict.main;
  std::string line = "gordian: ";
  const std::string skipped = outcome.skipped_kernels == 0 ? ""
                              : outcome.skipped_kernels == 1
                                  ? ", 1 kernel not run"
                                  : ", " + WithCommas(outcome.skipped_kernels) + " kernels not run";
  if (outcome.problem) {
    line += std::string(model::Name(main.verdict)) + " (" + model::Name(main.confidence) + ")";
    if (main.recovery.recovered) line += ", recovered";
    line += outcome.restart_wanted      ? ", ended to be started again"
            : outcome.killed_by_gordian ? ", job killed"
                                        : ", job ended with " + std::to_string(job_code);
    line += skipped;
    if (!session_dir.empty()) {
      line += "; next: gordian explain " + ShownQuote(session_dir);
    }
    return line + "\n";
  }
  line += job_code == 0 ? "finished" : "ended with " + std::to_string(job_code);
  if (outcome.processes == 0) {
    line += ", no NCCL or CUDA calls seen";
  } else {
    const int ranks = main.evidence.ranks_seen;
    line += ", " + std::to_string(ranks) + (ranks == 1 ? " rank, " : " ranks, ");
    line += WithCommas(main.evidence.nccl_calls) + " NCCL calls";
  }
  line += skipped;
  if (outcome.lost_records > 0) {
    line += ", " + WithCommas(outcome.lost_records) + " records lost";
  }
  if (outcome.refused_files > 0) {
    line += ", " + std::to_string(outcome.refused_files) + " unreadable ring files";
  }
  if (!session_dir.empty()) {
    line += ", session " + ShownQuote(session_dir);
  }
  if (!outcome.analyzed_at.empty()) {
    line += ", analyzed at " + outcome.analyzed_at;
  }
  return line + "\n";
}

// Says which exceptions ended the ranks of a job that has no verdict; "" if none did.
std::string WhatItRaised(const JobOutcome& outcome, int width) {
  const model::Finding& main = outcome.verdict.main;
  if (outcome.problem || main.verdict != model::VerdictKind::kFinished ||
      main.summary.find(", by ") == std::string::npos)
    return "";
  return analyzer::SentenceText(main, {.width = width});
}

// Runs the job, and a second time if the job did not map the emulated libraries.
JobOutcome RunJob(const JobOptions& options, const InstallPaths& paths,
                  const InheritedDescriptors& inherited, SignalInbox& signals, Guardian& guardian) {
  bool preload = false;
  if (options.config.emulator) {
    const std::vector<std::string> environment = FullEnvironment(
        JobVariables(paths, {.ring_dir = "", .emulator = true}, ProcessEnvironment()));
    preload = !ForeignLibrariesAtLoad(options.program, environment, paths.emulator_dir).empty();
  }
  JobOutcome outcome = JobRunner(options, paths, inherited, signals, guardian).Run(preload);
  if (!outcome.foreign_libraries.empty() && !preload) {
    PrintError("the job mapped " + outcome.foreign_libraries.front() +
               " instead of the emulated one; starting it again with that preloaded");
    outcome = JobRunner(options, paths, inherited, signals, guardian).Run(true);
  }
  return outcome;
}

// Runs `gordian predict` on the session; what it prints goes to stderr. Its exit code.
int PredictFrom(const std::string& session, const InstallPaths& paths, const SignalInbox& signals) {
  const Launched launched = Launch({.path = paths.executable,
                                    .argv = {"gordian", "predict", session},
                                    .environment = FullEnvironment({}),
                                    .aside = true},
                                   signals);
  if (launched.error != 0) {
    PrintError(DescribeExecError(paths.executable, launched.error));
    return kExitOwnFailure;
  }
  int status = 0;
  while (waitpid(launched.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return ExitCodeOfStatus(status);
}

Status CheckPageTls(const PageTls& tls, bool has_address) {
  if (tls.cert.empty() != tls.key.empty()) {
    return Status::InvalidArgument("--http-tls-cert and --http-tls-key need each other");
  }
  if (!tls.ca.empty() && tls.cert.empty()) {
    return Status::InvalidArgument("--http-tls-ca needs --http-tls-cert and --http-tls-key");
  }
  if (!tls.cert.empty() && !has_address) {
    return Status::InvalidArgument(
        "--http-tls-cert is for the live page; say where to serve it: --http HOST:PORT");
  }
  return Status::Ok();
}

// What is wrong with the options of the page, if anything.
Status CheckPageFlags(const RunFlags& flags, const RunConfig& config, bool has_page) {
  GORDIAN_RETURN_IF_ERROR(CheckPageTls(flags.http_tls, !flags.http.empty()));
  const char* const option = !flags.http.empty()           ? "--http"
                             : !flags.metrics_file.empty() ? "--metrics-file"
                             : !flags.otlp.empty()         ? "--otlp"
                                                           : nullptr;
  if (option == nullptr) return Status::Ok();
  if (!has_page) {
    return Status::InvalidArgument(std::string(option) + " needs gordian with all its verbs");
  }
  if (!config.analyzer.empty()) {
    return Status::InvalidArgument(std::string(option) + " goes to the gordian serve at " +
                                   config.analyzer + ", which knows the whole job: gordian serve " +
                                   (flags.otlp.empty() ? "--http HOST:PORT" : "--otlp URL"));
  }
  return flags.http.empty() ? Status::Ok()
                            : CheckAddress("--http", flags.http, /*zero_port_allowed=*/true);
}

int Run(const RunFlags& flags, std::vector<std::string> command, const MakeRunPage& make_run_page) {
  if (command.empty()) {
    PrintError("a command is missing (try: gordian run -- ./train)");
    return kExitUsage;
  }
  if (flags.predict && flags.analyzer) {
    PrintError("--predict reads this gordian's session, and --analyzer sends the job elsewhere");
    return kExitUsage;
  }
  const StatusOr<RunConfig> config = MakeConfig(flags);
  if (!config.ok()) {
    PrintError(config.status().message() + " (try: gordian run --help)");
    return kExitUsage;
  }
  if (const Status status = CheckPageFlags(flags, *config, make_run_page != nullptr);
      !status.ok()) {
    PrintError(status.message() + " (try: gordian run --help)");
    return kExitUsage;
  }
  StatusOr<AlertConfig> alerts = ReadAlertFlags(flags.alert);
  if (alerts.ok() && !alerts->targets.empty() && !config->analyzer.empty()) {
    alerts = Status::InvalidArgument("--alert goes to the gordian serve at " + config->analyzer +
                                     ", which knows the whole job: gordian serve --alert URL");
  }
  if (!alerts.ok()) {
    PrintError(alerts.status().message() + " (try: gordian run --help)");
    return kExitUsage;
  }
  StatusOr<metrics::OtlpTarget> otlp = ReadOtlpOption(flags.otlp);
  if (!otlp.ok()) {
    PrintError(otlp.status().message() + " (try: gordian run --help)");
    return kExitUsage;
  }
  if (flags.error_exitcode && (*flags.error_exitcode < 0 || *flags.error_exitcode > 255)) {
    PrintError("--error-exitcode takes 0 to 255");
    return kExitUsage;
  }
  StatusOr<JobIdentity> identity = IdentifyJob(flags.identity, ProcessEnvironment(), HostName(),
                                               getpid(), ReadClockPair().real_ns);
  if (!identity.ok() && !config->analyzer.empty()) {
    PrintError(identity.status().message() + " (try: gordian run --help)");
    return kExitUsage;
  }
  const InheritedDescriptors inherited;
  FillStandardDescriptors();
  const InstallPaths paths = FindInstallPaths();
  if (const std::string missing =
          MissingPiece(paths, config->emulator,
                       config->preemptive_collectives              ? "--collectives=preemptive"
                       : config->on_verdict == OnVerdict::kRecover ? "--on-verdict recover"
                                                                   : nullptr);
      !missing.empty()) {
    PrintError(missing);
    return kExitOwnFailure;
  }
  constexpr size_t kNcclNameLimit = 254;  // NCCL truncates longer names
  if (config->nccl_profiler && paths.shim.size() > kNcclNameLimit) {
    PrintError(
        "the path " + paths.shim +
        " is too long for NCCL to load a profiler plugin from; install gordian in a shorter path");
    return kExitOwnFailure;
  }
  if (const std::string other = OtherInjection(paths, ProcessEnvironment());
      config->cupti && !other.empty()) {
    PrintError("ignoring --cupti: CUDA_INJECTION64_PATH already names " + other);
  }
  const char* search_path = getenv("PATH");
  const Program program =
      FindProgram(command[0], search_path != nullptr ? search_path : "/bin:/usr/bin");
  if (program.error != 0) {
    PrintError(DescribeExecError(command[0], program.error));
    return ExitCodeOfExecError(program.error);
  }
  if (config->emulator && HasStaticCudaRuntime(program.path)) {
    PrintError(program.path +
               " links the CUDA runtime statically, so --emulator cannot replace it; link it "
               "with -cudart shared");
    return kExitOwnFailure;
  }

  SpareAddressSpace();
  SignalInbox signals;
  Session session = Session::Open(config->session, command[0]);
  if (!session.note().empty()) {
    PrintError(session.note());
  }
  JobOptions options;
  options.command = command;
  options.program = program.path;
  options.config = *config;
  if (identity.ok()) {
    options.identity = std::move(identity).value();
  }
  options.session_dir = session.dir();
  options.absolute_session_dir = session.absolute_dir();
  options.session_folder = session.folder();
  options.environment_that_matters = RelevantEnvironment();
  options.alerts = std::move(alerts).value();
  options.make_page = make_run_page;
  options.http = flags.http;
  options.http_tls = flags.http_tls;
  options.metrics_file = flags.metrics_file;
  options.otlp = std::move(otlp).value();
  if (IsRestart(config->on_verdict)) {
    options.restarts = CountsAfter(session.before(), command);
    if (options.restarts.starts > 1 && !config->quiet) {
      WriteAll(STDERR_FILENO, "gordian: start " + std::to_string(options.restarts.starts) +
                                  " of this job; the one before is in " +
                                  ShownQuote(session.before()) + "\n");
    }
  }
  options.color = WantsColor(STDERR_FILENO);
  options.width = TerminalWidth(STDERR_FILENO);
  SweepAbandonedFolders();
  const StatusOr<OwnedFolder> rings = CreateRingFolder(kRingFolderBase, session.absolute_dir());
  if (rings.ok()) {
    options.ring_dir = rings->path();
  } else {
    PrintError(rings.status().message() + ": the job runs on, unobserved");
  }
  // From here on a killed gordian leaves a folder behind, which the guardian removes. Fork the
  // guardian while there is one thread.
  Guardian guardian;
  if (rings.ok()) {
    if (const Status status = guardian.Start(*rings, session.folder().get()); !status.ok()) {
      PrintError(status.message() + ": if gordian is killed, " + options.ring_dir + " stays");
    }
  }
  if (const OnVerdict what = config->on_verdict;
      what != OnVerdict::kReport && what != OnVerdict::kExec && !TrustsAnalyzer(*config)) {
    PrintError("verdicts of " + config->analyzer +
               " come over a network that proves nobody's name, so they will not end this job; "
               "if you trust it, add --trust-analyzer, or use TLS (--tls-ca)");
  }
  // MPICH names no job, for one. The first task says so for all of them.
  const JobIdentity& own = options.identity;
  if (!config->analyzer.empty() && own.one_of_tasks && !own.named && own.node_rank == 0) {
    PrintError("the launcher started " + std::to_string(own.nodes_expected) +
               " tasks and gives their job no name, so " + config->analyzer +
               " takes each for a job of its own; give all of them one --job NAME");
  }
  if (config->on_verdict == OnVerdict::kRecover && !config->quiet) {
    WriteAll(STDERR_FILENO,
             "gordian: armed for recovery: behind each operation stand an event and a gate, and "
             "before one in place a copy of its input, some microseconds each "
             "(docs/recovery.md#what-it-costs)\n");
  }
  DescribeStart(options, &session);
  if (const Status status = session.WriteManifest(); !status.ok()) {
    PrintError(status.message() +
               ": the job runs on and is watched, but its session will not be complete");
  }

  prctl(PR_SET_CHILD_SUBREAPER, 1);  // gordian reaps the processes that the job leaves behind
  if (session.folder() != nullptr) {
    (void)OpenLog(session.folder()->Append("gordian.log"),
                  config->log_level);  // none, on a full disk
  }

  const JobOutcome outcome = RunJob(options, paths, inherited, signals, guardian);

  int exit_code = 0;
  if (outcome.exec_error != 0) {
    PrintError(DescribeExecError(command[0], outcome.exec_error));
    exit_code = ExitCodeOfExecError(outcome.exec_error);
  } else if (!outcome.foreign_libraries.empty()) {
    PrintError("the job still maps " + outcome.foreign_libraries.front() +
               " with the emulated library preloaded; run it without --emulator");
    exit_code = kExitOwnFailure;
  } else {
    const int job_code = ExitCodeOfStatus(outcome.wait_status);
    exit_code = outcome.restart_wanted      ? kExitRestart
                : outcome.killed_by_gordian ? 128 + SIGKILL
                                            : job_code;
    if (outcome.problem && flags.error_exitcode) {
      exit_code = *flags.error_exitcode;
    }
    if (!config->quiet && outcome.observed) {
      WriteAll(STDERR_FILENO, WhatItRaised(outcome, options.width) +
                                  ClosingLine(outcome, session.dir(), job_code));
    }
  }
  if (config->on_verdict == OnVerdict::kRecover) {
    RemoveRecoveryFiles(session.absolute_dir());
    RemoveSharedMemory(SharedMemoryTag(options.ring_dir));
  }
  if (config->preemptive_collectives) {
    const CollectiveCounts counts = SumCollectives(session.absolute_dir());
    if (!config->quiet) WriteAll(STDERR_FILENO, CollectivesLine(counts));
    WriteAll(STDERR_FILENO, UnknownNamesLine(counts, config->preemptive_names));
    RemoveSharedMemory(SharedMemoryTag(options.ring_dir));
  }
  if (rings.ok()) {
    SweepRings(*rings, session.folder().get());
    if (const Status status = RemoveRingFolder(*rings); !status.ok()) PrintError(status.message());
  }
  guardian.Leave();
  DescribeEnd(outcome, exit_code, &session);
  (void)session.WriteManifest();  // a full disk was reported before, or the analysis reports it
  if (flags.predict && outcome.observed && exit_code == 0 && !outcome.problem &&
      PredictFrom(session.absolute_dir(), paths, signals) == kExitProblem && flags.error_exitcode) {
    exit_code = *flags.error_exitcode;
    DescribeEnd(outcome, exit_code, &session);
    (void)session.WriteManifest();
  }
  CloseLog();
  return exit_code;
}

}  // namespace

void AddRunVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* verb =
      app.add_subcommand("run", "Run a job, observe it, and explain why it hangs if it does");
  verb->prefix_command();
  verb->formatter(std::make_shared<FixedUsage>("\nUsage: gordian run [OPTIONS] -- COMMAND..."));
  verb->add_option("--session", flags->session,
                   "Folder for the session (default: gordian-<app>-<UTC>, link `latest`)")
      ->type_name("DIR");
  verb->add_flag("--emulator", flags->emulator,
                 "Run without a GPU, on the emulated CUDA and NCCL libraries");
  verb->add_flag("--nccl-profiler", flags->nccl_profiler,
                 "Observe a statically linked NCCL through its profiler interface");
  verb->add_flag("--cupti", flags->cupti,
                 "Observe calls of the driver that no symbol leads to, through CUPTI's callbacks");
  verb->add_flag(
      "--graph-markers", flags->graph_markers,
      "Put events into captured CUDA graphs, to see which operation a launch has reached");
  verb->add_option(
          "--collectives", flags->collectives,
          "nccl (default), or preemptive: gordian's own runtime, which completes collectives "
          "in any order of calls (limits: docs/runtime.md); preemptive:NAME,...: only those of the "
          "communicators with these names, as verdicts call them")
      ->type_name("WHOSE");
  verb->add_flag(
      "--stub-compute", flags->stub_compute,
      "Skip kernels that take no part in communication; the job's results are then wrong");
  verb->add_option("--stub-keep", flags->stub_keep,
                   "With --stub-compute: still run kernels whose (mangled) names match, as "
                   "*gate*; may be repeated")
      ->type_name("GLOB");
  verb->add_option("--stub-skip", flags->stub_skip,
                   "With --stub-compute: skip only kernels whose names match")
      ->type_name("GLOB");
  verb->add_option(
          "--on-verdict", flags->on_verdict,
          "report: print it and leave the job running (default); recover: let a job that is stuck "
          "by the order of its collectives alone go on (docs/recovery.md); kill: end the job on a "
          "confirmed problem; kill-suspected: on a suspected one too; restart[:N]: end the ranks, "
          "for their launcher to start them again, at most N times for one cause (default: 3), "
          "then "
          "kill; restart-suspected[:N]; exec:CMD: run a shell command")
      ->type_name("WHAT");
  verb->add_option(
          "--suspect-after", flags->suspect_after,
          "Suspect a hang after so long without progress or proof (default: 5); after 3 times "
          "that where the ranks that others wait for work, or a collective that all have "
          "called runs on, 10 times behind a long kernel, 12 times in calls that make or "
          "destroy communicators")
      ->type_name("SECONDS");
  verb->add_option("--analyzer", flags->analyzer,
                   "Send the records to the gordian serve at this address (default: analyze here)")
      ->type_name("HOST:PORT");
  verb->add_flag("--trust-analyzer", flags->trust_analyzer,
                 "Let --on-verdict kill obey an --analyzer on another machine, too: nothing proves "
                 "who answers there");
  AddAccessOptions(verb, &flags->access);
  verb->add_option(
          "--job", flags->identity.job,
          "Name of the job, for alerts; with --analyzer, nodes that give the same name are "
          "one job (default: from Slurm or torchrun)")
      ->type_name("NAME");
  verb->add_option("--node", flags->identity.node,
                   "With --analyzer: name of this node (default: from Slurm, or the host)")
      ->type_name("NAME");
  verb->add_option("--nodes", flags->identity.nodes,
                   "With --analyzer: how many nodes the job has (default: from Slurm)")
      ->type_name("N");
  verb->add_option("--http", flags->http,
                   "Serve the live page of this job, and /metrics, at this address (port 0: any "
                   "free port); beyond this machine it wants a token, which the printed address "
                   "holds")
      ->type_name("HOST:PORT");
  verb->add_option("--http-tls-cert", flags->http_tls.cert,
                   "Serve --http over TLS, with this certificate (PEM, with its chain); a file "
                   "that is renewed is used for later connections")
      ->type_name("FILE");
  verb->add_option("--http-tls-key", flags->http_tls.key, "The key of --http-tls-cert (PEM)")
      ->type_name("FILE");
  verb->add_option("--http-tls-ca", flags->http_tls.ca,
                   "Take only viewers whose certificate this authority (PEM) has signed")
      ->type_name("FILE");
  verb->add_option("--metrics-file", flags->metrics_file,
                   "Write the metrics every 5 s into this file, for node-exporter's textfile "
                   "collector")
      ->type_name("FILE");
  AddOtlpOption(verb, &flags->otlp);
  AddAlertOptions(verb, &flags->alert);
  verb->add_option("--error-exitcode", flags->error_exitcode, "Exit with N if a problem was found")
      ->type_name("N");
  verb->add_flag("--predict", flags->predict,
                 "If the job ends well, also look for deadlocks that other orders of its threads "
                 "would have met (gordian predict); one counts as a problem for --error-exitcode");
  verb->add_flag("--quiet", flags->quiet, "Print nothing on stderr but errors");
  verb->footer(
      "Exit code: the job's own (128 + signal when it was killed); 137 when gordian killed it; 75 "
      "when gordian ended it to be started again, and nothing below gordian did; 125 gordian's own "
      "failure, 126 not executable, 127 not found.\n"
      "Example: gordian run --on-verdict kill -- torchrun --nproc-per-node 8 train.py");
  verb->callback([=] {
    context->chosen = [=] {
      std::vector<std::string> command = context->command;
      // Without "--" the command begins at the first word that is no option.
      const std::vector<std::string> rest = verb->remaining();
      if (!rest.empty() && (rest.front().starts_with("-") || context->has_command_mark)) {
        PrintError(rest.front().starts_with("-")
                       ? "gordian run has no option '" + rest.front() +
                             "' (try: gordian run --help)"
                       : "'" + rest.front() + "' comes before -- (try: gordian run --help)");
        return kExitUsage;
      }
      if (!context->has_command_mark) {
        command = rest;
      }
      return Run(*flags, std::move(command), context->make_run_page);
    };
  });
}

}  // namespace gordian::cli
