// gordian replay: a small program that hangs as a recorded job did.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/install_paths.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "replayer/buffers.h"
#include "replayer/cxx_writer.h"
#include "replayer/extract.h"
#include "replayer/verifier.h"
#include "replayer/witness.h"

namespace gordian::cli {
namespace {

constexpr char kSource[] = "replay.cc";
constexpr char kBinary[] = "replay";
constexpr int kMostRuns = 1000;

struct ReplayFlags {
  std::string path;
  std::string output;
  int verify = 0;
  bool minimize = false;
  bool free_running = false;
  bool json = false;
};

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? Status::Ok() : Status::Unavailable("cannot write " + path);
}

// As patient as the run was that recorded it.
replayer::ExtractOptions OptionsOf(const std::string& path) {
  replayer::ExtractOptions options;
  const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(path);
  if (manifest.ok() && manifest->contains("suspect_after_s") && (*manifest)["suspect_after_s"].is_number()) {
    const double seconds = std::clamp((*manifest)["suspect_after_s"].get<double>(), 0.1, 1e6);
    options.model.suspect_after_ns = static_cast<uint64_t>(seconds * 1e9);
  }
  return options;
}

bool HoldsHeader(const std::string& folder, const char* name) { return access((folder + "/" + name).c_str(), R_OK) == 0; }

std::vector<std::string> IncludeDirs() {
  std::vector<std::string> candidates;
  for (const char* const name : {"CUDA_HOME", "CUDA_PATH", "NCCL_HOME"}) {
    const char* const value = getenv(name);
    if (value != nullptr && *value != 0) candidates.push_back(std::string(value) + "/include");
  }
  candidates.insert(candidates.end(), {GORDIAN_CUDA_INCLUDE, GORDIAN_NCCL_INCLUDE, "/usr/local/cuda/include"});
  std::vector<std::string> found;
  for (const char* const header : {"cuda_runtime.h", "nccl.h"}) {
    for (const std::string& folder : candidates) {
      if (!HoldsHeader(folder, header)) continue;
      if (std::find(found.begin(), found.end(), folder) == found.end()) found.push_back(folder);
      break;
    }
  }
  return found;
}

replayer::VerifyTools Tools(const replayer::Schedule& schedule) {
  const InstallPaths paths = FindInstallPaths();
  replayer::VerifyTools tools;
  if (const char* const compiler = getenv("CXX"); compiler != nullptr && *compiler != 0) tools.compiler = compiler;
  tools.include_dirs = IncludeDirs();
  tools.library_dir = paths.emulator_dir;
  tools.gordian = paths.executable;
  // A suspicion needs time, and some of them more than one round.
  if (schedule.origin.confidence != "confirmed") tools.patience_s = 4;
  return tools;
}

class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  void Say(const std::string& text) {
    if (shown_) WriteAll(STDERR_FILENO, "\r\033[K" + text);
  }
  void Clear() { Say(""); }

 private:
  const bool shown_;
};

// What one schedule came to.
struct Attempt {
  replayer::Schedule schedule;
  std::optional<replayer::Verified> verified;
  bool Holds() const { return !verified || verified->same == static_cast<int>(verified->runs.size()); }
};

StatusOr<Attempt> Try(replayer::Schedule schedule, const ReplayFlags& flags, Progress* progress) {
  const std::string source = flags.output + "/" + kSource;
  Attempt attempt{.schedule = std::move(schedule), .verified = {}};
  if (const std::vector<std::string> problems = replayer::Check(attempt.schedule); !problems.empty()) {
    return Status::Internal("the schedule makes no sense: " + problems.front());
  }
  replayer::CxxOptions options{.file = kSource, .verified = ""};
  GORDIAN_RETURN_IF_ERROR(WriteText(source, replayer::WriteCxx(attempt.schedule, options)));
  if (flags.verify == 0) return attempt;
  const replayer::VerifyTools tools = Tools(attempt.schedule);
  const std::string binary = flags.output + "/" + kBinary;
  progress->Say("compiling " + source);
  GORDIAN_RETURN_IF_ERROR(replayer::CompileReplay(source, binary, tools));
  progress->Say("run 0 of " + std::to_string(flags.verify));
  StatusOr<replayer::Verified> verified =
      replayer::VerifyReplay(binary, attempt.schedule.origin.signature, flags.verify, flags.free_running, tools,
                             [&](int done) { progress->Say("run " + std::to_string(done) + " of " + std::to_string(flags.verify)); });
  progress->Clear();
  GORDIAN_RETURN_IF_ERROR(verified.status());
  options.verified = replayer::Describe(*verified, attempt.schedule.origin.signature) + (flags.free_running ? " (--free)" : "");
  attempt.verified = std::move(*verified);
  GORDIAN_RETURN_IF_ERROR(WriteText(source, replayer::WriteCxx(attempt.schedule, options)));
  return attempt;
}

nlohmann::ordered_json ToJson(const replayer::Signature& signature) {
  return {{"verdict", signature.verdict}, {"edges", signature.edges}};
}

int Refuse(const ReplayFlags& flags, const std::vector<std::string>& reasons) {
  if (flags.json) {
    const nlohmann::ordered_json json = {{"schema", "gordian.replay.v1"}, {"replayed", false}, {"refused", reasons}};
    if (!PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n")) return kExitUsage;
  }
  for (const std::string& reason : reasons) PrintError("cannot be replayed: " + reason);
  return kExitInconclusive;
}

int Report(const ReplayFlags& flags, const Attempt& attempt) {
  const replayer::Origin& origin = attempt.schedule.origin;
  const std::string source = flags.output + "/" + kSource;
  if (flags.json) {
    nlohmann::ordered_json json = {{"schema", "gordian.replay.v1"},
                                   {"replayed", true},
                                   {"program", source},
                                   {"signature", ToJson(origin.signature)},
                                   {"ranks", {{"recorded", origin.ranks}, {"replay", attempt.schedule.ranks.size()}}},
                                   {"operations", {{"recorded", origin.operations}, {"replay", replayer::CountOperations(attempt.schedule)}}},
                                   {"notes", origin.notes}};
    if (attempt.verified) {
      nlohmann::ordered_json told = nlohmann::ordered_json::array();
      for (const replayer::VerifyRun& run : attempt.verified->runs) {
        told.push_back({{"exit_code", run.exit_code}, {"signature", ToJson(run.signature)}});
      }
      json["verified"] = {{"runs", attempt.verified->runs.size()}, {"hung", attempt.verified->hung},
                          {"same", attempt.verified->same}, {"told", told}};
    }
    if (!PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n")) return kExitUsage;
  } else {
    std::string text = source + ": " + std::to_string(attempt.schedule.ranks.size()) + " of " + std::to_string(origin.ranks) + " ranks, " +
                       std::to_string(replayer::CountOperations(attempt.schedule)) + " of " + WithCommas(origin.operations) +
                       " operations; to be told as " + Describe(origin.signature) + "\n";
    if (attempt.verified) text += "verified: " + Describe(*attempt.verified, origin.signature) + "\n";
    for (const std::string& note : origin.notes) text += "note: " + note + "\n";
    if (!PrintOut(text)) return kExitUsage;
  }
  if (attempt.Holds()) return kExitOk;
  for (const replayer::VerifyRun& run : attempt.verified->runs) {
    if (run.signature == origin.signature && run.exit_code == replayer::kReproduced) continue;
    PrintError("a run that did not reproduce it said:\n" + run.output);
    break;
  }
  return kExitProblem;
}

int Replay(const ReplayFlags& flags) {
  Progress progress(flags.json);
  progress.Say("reading " + flags.path);
  StatusOr<replayer::Extracted> extracted = replayer::Extract(flags.path, OptionsOf(flags.path));
  progress.Clear();
  if (!extracted.ok()) {
    PrintError(extracted.status().message());
    return kExitUsage;
  }
  if (!extracted->refused.empty()) return Refuse(flags, extracted->refused);
  std::error_code error;
  std::filesystem::create_directories(flags.output, error);
  if (error) {
    PrintError("cannot make " + flags.output + ": " + error.message());
    return kExitUsage;
  }
  replayer::Schedule& whole = extracted->schedule;
  replayer::ShrinkBuffers(&whole);
  StatusOr<Attempt> attempt = Try(flags.minimize ? replayer::CutToWitness(whole) : whole, flags, &progress);
  if (attempt.ok() && flags.minimize && !attempt->Holds()) {
    whole.origin.notes.push_back("what the verdict names alone does not hang in the same way: all that was unfinished is here");
    attempt = Try(std::move(whole), flags, &progress);
  }
  if (!attempt.ok()) {
    progress.Clear();
    PrintError(attempt.status().message());
    return kExitUsage;
  }
  return Report(flags, *attempt);
}

}  // namespace

void AddReplayVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* verb = app.add_subcommand("replay", "Write a small program that hangs as a recorded job did");
  verb->add_option("path", flags->path, "A session, or a .gtrace file")->required()->type_name("PATH");
  verb->add_option("-o,--output", flags->output, "Folder for the program")->required()->type_name("DIR");
  verb->add_flag("--minimize", flags->minimize, "Only what the verdict names");
  verb->add_option("--verify", flags->verify, "Compile it and run it so many times under the emulator: each run must hang and be told as the same")
      ->type_name("RUNS")
      ->check(CLI::Range(1, kMostRuns));
  verb->add_flag("--free", flags->free_running, "Verify without forcing the recorded order between threads");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.replay.v1)");
  verb->footer("Exit code: 0 written (and verified); 1 written, but some run did not hang in the same way; 2 unreadable input; 3 "
               "cannot be replayed, with the reason.\n"
               "Example: gordian replay latest -o hang --minimize --verify 2");
  verb->callback([=] { context->chosen = [=] { return Replay(*flags); }; });
}

}  // namespace gordian::cli
