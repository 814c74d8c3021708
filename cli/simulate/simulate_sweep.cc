#include "cli/simulate/simulate_sweep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cli/config_text.h"
#include "cli/job/install_paths.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/verbs.h"
#include "simulator/sweep_svg.h"

namespace gordian::cli {
namespace {

// A file that a sweep writes anew after each stage: a kill leaves the old one or the new one.
class StageFile {
 public:
  // Without a path it writes nothing.
  explicit StageFile(const std::string& path) {
    if (path.empty()) return;
    StatusOr<OutputFile> file = OutputFile::Open(path);
    status_ = file.status();
    if (file.ok()) file_ = std::move(file).value();
  }
  explicit operator bool() const { return file_ || !status_.ok(); }
  bool Write(const std::string& text) {
    if (file_) status_ = file_->Write(text);
    if (!status_.ok()) PrintError(status_.message());
    return status_.ok();
  }

 private:
  std::optional<OutputFile> file_;
  Status status_;
};

}  // namespace

SweepRanks& OwnRanks() {
  static SweepRanks ranks;
  return ranks;
}

int RunSweepCommand(const std::string& name, const nlohmann::json& text,
                    const simulator::SweepOptions& given, const SweepFiles& files) {
  const SweepRanks& own = OwnRanks();
  const bool speaks = own.rank == 0;
  simulator::Sweep sweep;
  std::string wrong = simulator::ParseSweep(text, &sweep);
  simulator::SweepOptions options = given;
  options.ranks = own.ranks;
  options.rank = own.rank;
  simulator::SweepCounts counts;
  if (wrong.empty() && files.resume) {
    const StatusOr<nlohmann::json> earlier = ReadConfigFile(files.checkpoint);
    if (!earlier.ok()) {
      wrong = earlier.status().message();
    } else {
      const std::string unfit = simulator::ReadCheckpoint(*earlier, sweep, options, &counts);
      wrong = unfit.empty() ? "" : files.checkpoint + " " + unfit;
    }
  }
  if (!wrong.empty()) {
    if (speaks) {
      PrintError(name + ": " + wrong);
    }
    return kExitUsage;
  }
  bool written = true;
  StageFile checkpoint(speaks ? files.checkpoint : ""), csv(speaks ? files.csv : ""),
      svg(speaks ? files.svg : "");
  const auto write = [&](const simulator::SweepCounts& now) {
    if (!speaks) {
      return;
    }
    if (checkpoint) {
      written &= checkpoint.Write(CheckpointOf(sweep, options, now).dump() + "\n");
    }
    if (csv) {
      written &= csv.Write(SweepToCsv(sweep, options, now));
    }
    if (svg) {
      written &= svg.Write(SweepToSvg(sweep, options, now));
    }
    if (isatty(STDERR_FILENO) == 1) {
      PrintNote("stage " + std::to_string(now.stage) + " of " +
                std::to_string(simulator::kSweepStages));
    }
  };
  const auto alone = [](std::vector<int64_t>*) { return true; };
  wrong = simulator::RunSweep(sweep, options, own.exchange ? own.exchange : alone, write, &counts);
  if (!speaks) {
    return wrong.empty() && counts.complete() ? kExitOk : kExitInconclusive;
  }
  if (!wrong.empty()) {
    PrintError(name + ": " + wrong);
  }
  if (counts.points.empty() || counts.stage == 0) {
    PrintError(name + ": the time limit ended the sweep before its first stage");
    return kExitInconclusive;
  }
  write(counts);
  if (files.json) {
    written &= PrintOut(SweepToJson(sweep, options, counts).dump(2) + "\n");
  } else if (files.csv.empty()) {
    written &= PrintOut(SweepToCsv(sweep, options, counts));
  }
  if (!written) {
    return kExitUsage;
  }
  if (!counts.complete()) {
    PrintNote(name + ": incomplete after stage " + std::to_string(counts.stage) + " of " +
              std::to_string(simulator::kSweepStages) +
              (files.checkpoint.empty() ? "" : "; continue with --resume"));
    return kExitInconclusive;
  }
  return kExitOk;
}

int BecomeMpiProgram() {
  std::string program = FindInstallPaths().executable;
  program = program.substr(0, program.rfind('/') + 1) + "gordian-simulate-mpi";
  std::ifstream line("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(line, word, '\0');) {
    words.push_back(word);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  PrintError(
      "cannot run " + program + ": " + strerror(errno) +
      (errno == ENOENT ? " (install Open MPI, libopenmpi-dev, and build gordian again)" : ""));
  return errno == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace gordian::cli
