// gordian replay: writes a small program that hangs as a recorded job did.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "analyzer/importers/rank_traces.h"
#include "analyzer/importers/sources.h"
#include "cli/analyze/recorded.h"
#include "cli/end_signal.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/verbs.h"
#include "cli/verify_tools.h"
#include "common/utf8.h"
#include "replayer/record/buffers.h"
#include "replayer/record/extract.h"
#include "replayer/record/from_flight_recorder.h"
#include "replayer/record/from_rank_traces.h"
#include "replayer/record/not_reached.h"
#include "replayer/reduce/fixes.h"
#include "replayer/reduce/fold.h"
#include "replayer/reduce/minimizer.h"
#include "replayer/verify/verifier.h"
#include "replayer/verify/witness.h"
#include "replayer/write/cxx_writer.h"
#include "replayer/write/torch_writer.h"

namespace gordian::cli {
namespace {

constexpr char kSource[] = "replay.cc";
constexpr char kBinary[] = "replay";
constexpr char kScript[] = "replay.py";
constexpr char kBenchSource[] = "bench.cc";
constexpr char kBenchBinary[] = "bench";
constexpr int kMostRuns = 1000;
constexpr size_t kManyCalls = 10'000;
constexpr double kMinimizeSeconds = 30;  // then --minimize keeps the smallest schedule found so far

struct ReplayFlags {
  std::string path;
  std::string output;
  int verify = 0;
  bool minimize = false;
  std::string format = "cxx";
  bool fix = false;
  bool free_running = false;
  bool json = false;
  std::string all_steps;   // "", "A..B"
  bool benchmark = false;  // --all-steps was given
  std::vector<std::string> folds;
  // Not flags: whether the path held dumps; `output`, whatever its path leads to by then.
  bool from_dumps = false;
  std::shared_ptr<const OwnedFolder> folder;

  Status Write(const std::string& name, const std::string& text) const {
    return folder->ReplaceFile(name, text, kOutputMode);
  }
};

// Suspects after the same time as the run that recorded the job.
replayer::ExtractOptions OptionsOf(const std::string& path) {
  replayer::ExtractOptions options;
  const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(path);
  if (manifest.ok() && manifest->contains("suspect_after_s") &&
      (*manifest)["suspect_after_s"].is_number()) {
    const double seconds = std::clamp((*manifest)["suspect_after_s"].get<double>(), 0.1, 1e6);
    options.model.suspect_after_ns = static_cast<uint64_t>(seconds * 1e9);
  }
  return options;
}

// Parses "3", "3..5" or nothing.
StatusOr<replayer::StepRange> StepsOf(const std::string& text) {
  replayer::StepRange range;
  if (text.empty()) return range;
  range.all = false;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  range.last = range.first;
  std::from_chars_result rest = first;
  if (first.ec == std::errc() &&
      std::string_view(first.ptr, static_cast<size_t>(end - first.ptr)).starts_with("..")) {
    rest = std::from_chars(first.ptr + 2, end, range.last);
  }
  if (first.ec == std::errc() && rest.ec == std::errc() && rest.ptr == end &&
      range.first <= range.last)
    return range;
  return Status::InvalidArgument("--all-steps takes steps as 3 or as 3..5, not " + text);
}

// Applies each "NAME=MEMBERS" of --fold.
Status FoldAll(const std::vector<std::string>& folds, replayer::Schedule* schedule) {
  for (const std::string& fold : folds) {
    const size_t sign = fold.rfind('=');
    size_t members = 0;
    const char* const end = fold.data() + fold.size();
    if (sign == std::string::npos ||
        std::from_chars(fold.data() + sign + 1, end, members).ptr != end ||
        sign + 1 == fold.size()) {
      return Status::InvalidArgument("--fold takes NAME=MEMBERS, as dp=2, not " + fold);
    }
    StatusOr<replayer::Schedule> folded = replayer::Fold(*schedule, fold.substr(0, sign), members);
    GORDIAN_RETURN_IF_ERROR(folded.status());
    *schedule = std::move(*folded);
  }
  return Status::Ok();
}

// The name of a file or folder, for people.
std::string SourceName(std::filesystem::path path) {
  if (!path.has_filename()) path = path.parent_path();  // "dumps/"
  return path.filename();
}

// Makes a schedule of all that traces of PyTorch's profiler hold as a whole.
StatusOr<replayer::Extracted> BenchmarkOfTraces(const ReplayFlags& flags) {
  if (!flags.all_steps.empty()) {
    replayer::Extracted refused;
    refused.refused.push_back("--all-steps " + flags.all_steps +
                              ": gordian knows no steps of traces of PyTorch's "
                              "profiler: name none, and it takes all that they hold");
    return refused;
  }
  const StatusOr<importers::SourceFiles> files = importers::FindSources(flags.path);
  GORDIAN_RETURN_IF_ERROR(files.status());
  const StatusOr<std::vector<importers::RankTrace>> traces = importers::ReadRankTraces(*files);
  GORDIAN_RETURN_IF_ERROR(traces.status());
  return replayer::ScheduleRankTraces(*traces, SourceName(flags.path));
}

// Recognises the kind of path as `gordian analyze` does, and extracts a schedule from it.
StatusOr<replayer::Extracted> ExtractFrom(const ReplayFlags& flags, bool* from_dumps) {
  const std::string& path = flags.path;
  const StatusOr<RecordedBy> who = WhoRecorded(path);
  GORDIAN_RETURN_IF_ERROR(who.status());
  if (*who == RecordedBy::kGordian) {
    replayer::ExtractOptions options = OptionsOf(path);
    if (flags.benchmark) {
      const StatusOr<replayer::StepRange> steps = StepsOf(flags.all_steps);
      GORDIAN_RETURN_IF_ERROR(steps.status());
      options.steps = *steps;
    }
    return replayer::Extract(path, options);
  }
  const bool profiled = *who == RecordedBy::kKineto || *who == RecordedBy::kExecution;
  if (flags.benchmark && profiled) return BenchmarkOfTraces(flags);
  if (flags.benchmark) {
    replayer::Extracted refused;
    refused.refused.push_back("--all-steps needs a session or trace of gordian: " + path +
                              " holds " + FilesOf(*who));
    return refused;
  }
  if (*who != RecordedBy::kFlightRecorder) {
    replayer::Extracted refused;
    const bool traces = profiled || *who == RecordedBy::kChakra;
    refused.refused.push_back(
        path + ": " + FilesOf(*who) +
        (!traces ? " hold no order of calls"
                 : " hold calls that were made, and no hang to repeat: record the job with gordian "
                   "run, or take its Flight Recorder dumps") +
        (profiled ? " (--all-steps writes a benchmark of them)" : ""));
    return refused;
  }
  *from_dumps = true;
  const StatusOr<std::vector<importers::FlightDump>> dumps = importers::ReadFlightDumps(path);
  GORDIAN_RETURN_IF_ERROR(dumps.status());
  return replayer::ScheduleFlightDumps(*dumps, SourceName(path));
}

// Dumps describe a hang less exactly than a run of it does, so the first run's verdict becomes the
// signature that all other runs must show.
void LearnSignature(replayer::Signature* wanted, replayer::Verified* verified) {
  const auto hangs = [&](const replayer::VerifyRun& run) {
    return run.exit_code == replayer::kReproduced &&
           replayer::IsHangOfDumps(run.signature, *wanted);
  };
  const auto first = std::find_if(verified->runs.begin(), verified->runs.end(), hangs);
  if (first == verified->runs.end()) return;
  *wanted = first->signature;
  verified->same = static_cast<int>(std::count_if(
      verified->runs.begin(), verified->runs.end(), [&](const replayer::VerifyRun& run) {
        return run.exit_code == replayer::kReproduced && run.signature == *wanted;
      }));
}

replayer::VerifyTools Tools(const replayer::Schedule& schedule) {
  replayer::VerifyTools tools = FindVerifyTools();
  tools.stopped = [] { return EndSignal() != 0; };
  // A suspicion needs time, and some suspicions more than one round.
  if (schedule.origin.confidence != "confirmed") tools.patience_s = 4;
  return tools;
}

class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  void Say(const std::string& text) {
    if (shown_) WriteAll(STDERR_FILENO, "\r\033[K" + Printable(text));
  }
  void Clear() { Say(""); }

 private:
  const bool shown_;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns nothing when the model finds no hang in `schedule`: there is then nothing to compare a
// smaller one with.
std::optional<replayer::Schedule> Minimized(const replayer::Schedule& schedule,
                                            Progress* progress) {
  const double begin = Now();
  replayer::MinimizeOptions options;
  options.progress = [&](const replayer::MinimizeProgress& now) {
    if (now.candidates % 64 == 0) {
      progress->Say("minimizing: " + std::string(now.step) + ", " + std::to_string(now.ranks) +
                    " ranks, " + std::to_string(now.operations) + " operations");
    }
    return EndSignal() == 0 && Now() - begin < kMinimizeSeconds;
  };
  replayer::MinimizeReport report = replayer::Minimize(schedule, options);
  progress->Clear();
  if (!report.refused.empty()) return std::nullopt;
  if (!report.minimal) {
    report.schedule.origin.notes.push_back("minimized for " +
                                           std::to_string(static_cast<int>(kMinimizeSeconds)) +
                                           " s, the limit: a smaller program may exist");
  }
  return std::move(report.schedule);
}

// The run ended by itself, and gordian's verdict agrees.
bool HasEnded(const replayer::VerifyRun& run) {
  return run.exit_code == 0 &&
         (run.signature.verdict == "finished" || run.signature.verdict == "healthy");
}
int Ended(const replayer::Verified& verified) {
  return static_cast<int>(std::count_if(verified.runs.begin(), verified.runs.end(), HasEnded));
}

// Compiles `source` and runs it --verify times; both are names in the output's folder.
StatusOr<replayer::Verified> CompileAndRun(const ReplayFlags& flags, const std::string& source,
                                           const std::string& binary,
                                           const replayer::Schedule& schedule, Progress* progress) {
  const replayer::VerifyTools tools = Tools(schedule);
  progress->Say("compiling " + source);
  GORDIAN_RETURN_IF_ERROR(replayer::CompileReplay(*flags.folder, source, binary, tools));
  const auto say = [&](int done) {
    progress->Say("run " + std::to_string(done) + " of " + std::to_string(flags.verify));
  };
  say(0);
  StatusOr<replayer::Verified> verified =
      replayer::VerifyReplay(flags.output + "/" + binary, schedule.origin.signature, flags.verify,
                             flags.free_running, tools, say);
  progress->Clear();
  return verified;
}

bool PrintJson(const nlohmann::ordered_json& json) {
  return PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// What became of one schedule.
struct Attempt {
  replayer::Schedule schedule;
  std::optional<replayer::Verified> verified;
  std::vector<std::string> no_script;  // why no script for torchrun was written
  struct Tried {
    std::string name, what,
        program;  // the fixed program; empty when some run did not end, and the file is removed
    int runs = 0, ended = 0;
  };
  std::vector<Tried> fixes;
  bool Holds() const {
    return !verified || verified->same == static_cast<int>(verified->runs.size());
  }
};

// Writes the script for torchrun beside the C++ program; only the C++ program was verified.
Status WriteScript(const ReplayFlags& flags, const std::string& verified, Attempt* attempt) {
  if (flags.format != "torch") return Status::Ok();
  replayer::TorchProgram script = replayer::WriteTorch(
      attempt->schedule,
      {.file = kScript, .verified = verified.empty() ? "" : "as replay.cc: " + verified});
  attempt->no_script = std::move(script.refused);
  return attempt->no_script.empty() ? flags.Write(kScript, script.text) : Status::Ok();
}

StatusOr<Attempt> Try(replayer::Schedule schedule, const ReplayFlags& flags, Progress* progress) {
  Attempt attempt{.schedule = std::move(schedule), .verified = {}, .no_script = {}};
  replayer::AddNotReached(&attempt.schedule);
  if (const std::vector<std::string> problems = replayer::Check(attempt.schedule);
      !problems.empty()) {
    return Status::Internal("the schedule is inconsistent: " + problems.front());
  }
  replayer::CxxOptions options{.file = kSource, .verified = ""};
  GORDIAN_RETURN_IF_ERROR(flags.Write(kSource, replayer::WriteCxx(attempt.schedule, options)));
  if (flags.verify == 0) {
    GORDIAN_RETURN_IF_ERROR(WriteScript(flags, "", &attempt));
    return attempt;
  }
  StatusOr<replayer::Verified> verified =
      CompileAndRun(flags, kSource, kBinary, attempt.schedule, progress);
  GORDIAN_RETURN_IF_ERROR(verified.status());
  if (flags.from_dumps) LearnSignature(&attempt.schedule.origin.signature, &*verified);
  options.verified = replayer::Describe(*verified, attempt.schedule.origin.signature) +
                     (flags.free_running ? " (--free)" : "");
  attempt.verified = std::move(*verified);
  GORDIAN_RETURN_IF_ERROR(flags.Write(kSource, replayer::WriteCxx(attempt.schedule, options)));
  GORDIAN_RETURN_IF_ERROR(WriteScript(flags, options.verified, &attempt));
  return attempt;
}

// Writes a program for each change that lets the schedule end, and runs each as often as the replay
// itself.
Status TryFixes(const ReplayFlags& flags, Progress* progress, Attempt* attempt) {
  const replayer::VerifyTools tools = Tools(attempt->schedule);
  const int runs = std::max(flags.verify, 1);
  for (const replayer::Fix& fix : replayer::ProposeFixes(attempt->schedule)) {
    const std::string binary = "fix-" + fix.name, source = binary + ".cc";
    Attempt::Tried tried{
        .name = fix.name, .what = fix.what, .program = flags.output + "/" + source, .runs = runs};
    replayer::CxxOptions options{.file = source, .fix = fix.what, .verified = ""};
    GORDIAN_RETURN_IF_ERROR(flags.Write(source, replayer::WriteCxx(fix.schedule, options)));
    progress->Say("trying " + fix.name);
    GORDIAN_RETURN_IF_ERROR(replayer::CompileReplay(*flags.folder, source, binary, tools));
    const StatusOr<replayer::Verified> verified =
        replayer::VerifyReplay(flags.output + "/" + binary, attempt->schedule.origin.signature,
                               runs, flags.free_running, tools, {});
    progress->Clear();
    GORDIAN_RETURN_IF_ERROR(verified.status());
    tried.ended = Ended(*verified);
    flags.folder->RemoveFile(binary);
    if (tried.ended == runs) {
      options.verified =
          std::to_string(runs) + " of " + std::to_string(runs) + " runs under the emulator ended";
      GORDIAN_RETURN_IF_ERROR(flags.Write(source, replayer::WriteCxx(fix.schedule, options)));
    } else {
      flags.folder->RemoveFile(source);
      tried.program.clear();
    }
    attempt->fixes.push_back(std::move(tried));
  }
  return Status::Ok();
}

nlohmann::ordered_json ToJson(const replayer::Signature& signature) {
  return {{"verdict", signature.verdict}, {"edges", signature.edges}};
}

int Refuse(const ReplayFlags& flags, const std::vector<std::string>& reasons) {
  if (flags.json) {
    const nlohmann::ordered_json json = {
        {"schema", "gordian.replay.v1"}, {"replayed", false}, {"refused", reasons}};
    if (!PrintJson(json)) return kExitUsage;
  }
  for (const std::string& reason : reasons) PrintError("cannot be replayed: " + reason);
  return kExitInconclusive;
}

int Report(const ReplayFlags& flags, const Attempt& attempt) {
  const replayer::Origin& origin = attempt.schedule.origin;
  const std::string source = flags.output + "/" + kSource;
  if (flags.json) {
    nlohmann::ordered_json json = {
        {"schema", "gordian.replay.v1"},
        {"replayed", true},
        {"program", source},
        {"signature", ToJson(origin.signature)},
        {"ranks", {{"recorded", origin.ranks}, {"replay", attempt.schedule.ranks.size()}}},
        {"operations",
         {{"recorded", origin.operations},
          {"replay", replayer::CountOperations(attempt.schedule)}}},
        {"notes", origin.notes}};
    if (flags.fix) {
      json["fixes"] = nlohmann::ordered_json::array();
      for (const Attempt::Tried& fix : attempt.fixes) {
        json["fixes"].push_back(
            {{"name", fix.name},
             {"what", fix.what},
             {"runs", fix.runs},
             {"ended", fix.ended},
             {"program", fix.program.empty() ? nlohmann::ordered_json()
                                             : nlohmann::ordered_json(fix.program)}});
      }
    }
    if (flags.format == "torch") {
      json["script"] = attempt.no_script.empty()
                           ? nlohmann::ordered_json(flags.output + "/" + kScript)
                           : nlohmann::ordered_json();
      json["no_script"] = attempt.no_script;
    }
    if (attempt.verified) {
      nlohmann::ordered_json told = nlohmann::ordered_json::array();
      for (const replayer::VerifyRun& run : attempt.verified->runs) {
        told.push_back({{"exit_code", run.exit_code}, {"signature", ToJson(run.signature)}});
      }
      json["verified"] = {{"runs", attempt.verified->runs.size()},
                          {"hung", attempt.verified->hung},
                          {"same", attempt.verified->same},
                          {"told", told}};
    }
    if (!PrintJson(json)) return kExitUsage;
  } else {
    std::string text = source + ": " + std::to_string(attempt.schedule.ranks.size()) + " of " +
                       std::to_string(origin.ranks) + " ranks, " +
                       std::to_string(replayer::CountOperations(attempt.schedule)) + " of " +
                       WithCommas(origin.operations) +
                       " operations; expected verdict: " + Describe(origin.signature) + "\n";
    if (attempt.verified)
      text += "verified: " + Describe(*attempt.verified, origin.signature) + "\n";
    for (const std::string& note : origin.notes) text += "note: " + note + "\n";
    for (const Attempt::Tried& fix : attempt.fixes) {
      text += (fix.program.empty() ? "no fix: " : fix.program + ": ") + fix.what + "; " +
              std::to_string(fix.ended) + " of " + std::to_string(fix.runs) + " runs ended\n";
    }
    if (flags.fix && attempt.fixes.empty())
      text += "no fix: it still hangs with each of the changes that gordian tries\n";
    if (flags.format == "torch" && attempt.no_script.empty())
      text += flags.output + "/" + kScript + ": the same for torchrun\n";
    if (!PrintText(text)) return kExitUsage;
  }
  for (const std::string& reason : attempt.no_script)
    PrintError("no script for torchrun: " + reason);
  if (attempt.Holds()) return attempt.no_script.empty() ? kExitOk : kExitInconclusive;
  for (const replayer::VerifyRun& run : attempt.verified->runs) {
    if (run.signature == origin.signature && run.exit_code == replayer::kReproduced) continue;
    PrintErrorLines("a run that did not reproduce the hang printed:\n" + run.output);
    break;
  }
  return kExitProblem;
}

// Writes a benchmark: the job's steps, repeated, timed, and with checked results.
StatusOr<std::optional<replayer::Verified>> WriteBenchmark(const ReplayFlags& flags,
                                                           const replayer::Schedule& schedule,
                                                           Progress* progress) {
  if (const std::vector<std::string> problems = replayer::Check(schedule); !problems.empty()) {
    return Status::Internal("the schedule is inconsistent: " + problems.front());
  }
  replayer::CxxOptions options{.file = kBenchSource, .fix = "", .verified = "", .benchmark = true};
  GORDIAN_RETURN_IF_ERROR(flags.Write(kBenchSource, replayer::WriteCxx(schedule, options)));
  std::optional<replayer::Verified> verified;
  if (flags.verify == 0) return verified;
  StatusOr<replayer::Verified> runs =
      CompileAndRun(flags, kBenchSource, kBenchBinary, schedule, progress);
  GORDIAN_RETURN_IF_ERROR(runs.status());
  options.verified = std::to_string(Ended(*runs)) + " of " + std::to_string(runs->runs.size()) +
                     " runs under the emulator ended, with right results";
  GORDIAN_RETURN_IF_ERROR(flags.Write(kBenchSource, replayer::WriteCxx(schedule, options)));
  verified = std::move(*runs);
  return verified;
}

int Benchmark(const ReplayFlags& flags, const replayer::Schedule& schedule, Progress* progress) {
  const StatusOr<std::optional<replayer::Verified>> written =
      WriteBenchmark(flags, schedule, progress);
  if (!written.ok()) {
    progress->Clear();
    PrintErrorLines(written.status().message());
    return kExitUsage;
  }
  const std::optional<replayer::Verified>& verified = *written;
  const replayer::Origin& origin = schedule.origin;
  const std::string source = flags.output + "/" + kBenchSource;
  const size_t operations = replayer::CountOperations(schedule);
  const int ended = verified ? Ended(*verified) : 0;
  if (flags.json) {
    nlohmann::ordered_json json = {
        {"schema", "gordian.replay.v1"},
        {"replayed", true},
        {"benchmark", source},
        {"ranks", {{"recorded", origin.ranks}, {"replay", schedule.ranks.size()}}},
        {"operations", {{"recorded", origin.operations}, {"replay", operations}}},
        {"notes", origin.notes}};
    if (verified) json["verified"] = {{"runs", verified->runs.size()}, {"ended", ended}};
    if (!PrintJson(json)) return kExitUsage;
  } else {
    std::string text = source + ": " + std::to_string(schedule.ranks.size()) + " of " +
                       std::to_string(origin.ranks) + " ranks, " + WithCommas(operations) + " of " +
                       WithCommas(origin.operations) + " operations a repetition\n";
    for (const std::string& note : origin.notes) text += "note: " + note + "\n";
    if (verified) {
      text += std::to_string(ended) + " of " + std::to_string(verified->runs.size()) +
              " runs under the emulator ended, with right results\n";
    }
    if (!PrintText(text)) return kExitUsage;
  }
  if (!verified || ended == static_cast<int>(verified->runs.size())) return kExitOk;
  const auto bad = std::find_if(verified->runs.begin(), verified->runs.end(),
                                [](const replayer::VerifyRun& run) { return !HasEnded(run); });
  PrintErrorLines("a run that failed printed:\n" + bad->output);
  return kExitProblem;
}

int Replay(ReplayFlags flags) {
  Progress progress(flags.json);
  progress.Say("reading " + flags.path);
  StatusOr<replayer::Extracted> extracted = ExtractFrom(flags, &flags.from_dumps);
  progress.Clear();
  if (!extracted.ok()) {
    PrintError(extracted.status().message());
    return kExitUsage;
  }
  if (!extracted->refused.empty()) return Refuse(flags, extracted->refused);
  StatusOr<OwnedFolder> folder = OutputFolder(flags.output);
  if (!folder.ok()) {
    PrintError(folder.status().message());
    return kExitUsage;
  }
  flags.folder = std::make_shared<const OwnedFolder>(std::move(folder).value());
  replayer::Schedule& whole = extracted->schedule;
  if (const Status folded = FoldAll(flags.folds, &whole); !folded.ok()) {
    PrintError(folded.message());
    return kExitUsage;
  }
  if (flags.benchmark) {
    flags.free_running = false;  // a benchmark has no marks to force an order by
    if (const size_t calls = replayer::CountCalls(whole); calls > kManyCalls) {
      whole.origin.notes.push_back(
          WithCommas(calls) +
          " calls, which take long to compile; for fewer steps use --all-steps A..B");
    }
    return Benchmark(flags, whole, &progress);
  }
  if (const std::vector<std::string> problems = replayer::Check(whole); !problems.empty()) {
    PrintError("the schedule is inconsistent: " + problems.front());
    return kExitUsage;
  }
  replayer::ShrinkBuffers(&whole);
  // Tries the smallest schedule first, and the next when it does not hang in the same way.
  std::vector<replayer::Schedule> sizes;
  if (flags.minimize) {
    replayer::Schedule witness = replayer::CutToWitness(whole);
    if (std::optional<replayer::Schedule> minimized = Minimized(witness, &progress))
      sizes.push_back(std::move(*minimized));
    sizes.push_back(std::move(witness));
    whole.origin.notes.push_back(
        "no smaller program hangs in the same way: this one holds everything that was unfinished");
  }
  sizes.push_back(std::move(whole));
  StatusOr<Attempt> attempt = Try(std::move(sizes.front()), flags, &progress);
  for (size_t i = 1; i < sizes.size() && attempt.ok() && !attempt->Holds(); ++i) {
    attempt = Try(std::move(sizes[i]), flags, &progress);
  }
  if (!attempt.ok()) {
    progress.Clear();
    PrintErrorLines(attempt.status().message());
    return kExitUsage;
  }
  if (flags.fix && attempt->Holds()) {
    if (const Status fixed = TryFixes(flags, &progress, &*attempt); !fixed.ok()) {
      progress.Clear();
      PrintErrorLines(fixed.message());
      return kExitUsage;
    }
  }
  return Report(flags, *attempt);
}

}  // namespace

void AddReplayVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* verb = app.add_subcommand(
      "replay", "Write a small program that hangs in the way that a recorded job did");
  verb->add_option("path", flags->path,
                   "A session, a .gtrace file, a file or folder of Flight Recorder dumps, or, with "
                   "--all-steps, a folder of traces of PyTorch's profiler or of its "
                   "ExecutionTraceObserver, one a rank")
      ->required()
      ->type_name("PATH");
  verb->add_option("-o,--output", flags->output, "Folder for the program")
      ->required()
      ->type_name("DIR");
  verb->add_flag(
      "--minimize", flags->minimize,
      "Reduce ranks, operations, threads and streams to the fewest that hang in the same way");
  verb->add_option("--format", flags->format,
                   "cxx (default), or torch: a script for torchrun as well")
      ->check(CLI::IsMember({"cxx", "torch"}));
  verb->add_option(
          "--verify", flags->verify,
          "Compile it and run it so many times under the emulator: each run must hang, and "
          "get the same verdict")
      ->type_name("RUNS")
      ->check(CLI::Range(1, kMostRuns));
  verb->add_flag("--fix", flags->fix,
                 "Also write variants that end, verified as often as the replay: one order, waits "
                 "hoisted, grouped, NCCL_LAUNCH_ORDER_IMPLICIT");
  verb->add_option("--all-steps", flags->all_steps,
                   "Not the hang but a benchmark: the operations of these steps of the job (all: "
                   "none named), repeated, timed, and with checked results")
      ->type_name("[A..B]")
      ->expected(0, 1);
  verb->add_option(
          "--fold", flags->folds,
          "Reduce ranks: keep only so many members of each communicator of that name (dp=2)")
      ->type_name("NAME=MEMBERS");
  verb->add_flag("--free", flags->free_running,
                 "Verify without forcing the recorded order between threads");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.replay.v1)");
  verb->footer(
      "Exit code: 0 written (and verified); 1 written, but some run did not hang in the same way; "
      "2 unreadable input; 3 "
      "cannot be replayed, or not as a script; the reason is printed.\n"
      "Example: gordian replay latest -o hang --minimize --verify 2\n"
      "         gordian replay latest -o steps --all-steps 3..5 --fold dp=2");
  verb->callback([=, all_steps = verb->get_option("--all-steps")] {
    flags->benchmark = all_steps->count() > 0;
    context->chosen = [=] {
      TakeEndSignals(SecondSignal::kWaits);
      const int code = Replay(*flags);
      return EndSignal() == 0 ? code : 128 + EndSignal();
    };
  });
}

}  // namespace gordian::cli
