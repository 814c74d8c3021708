#include "cli/simulate/simulate_sweep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/config_text.h"
#include "cli/job/install_paths.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "common/owned_folder.h"
#include "simulator/sweep_svg.h"

namespace gordian::cli {
namespace {

// Replaces the file atomically, so that a kill leaves the old one or the new one.
bool WriteFile(const std::string& path, const std::string& text) {
  const Status status = ReplaceFile(path, text);
  if (!status.ok()) PrintError(status.message());
  return status.ok();
}

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
    const StatusOr<nlohmann::json> checkpoint = ReadConfigFile(files.checkpoint);
    if (!checkpoint.ok()) {
      wrong = checkpoint.status().message();
    } else {
      const std::string unfit = simulator::ReadCheckpoint(*checkpoint, sweep, options, &counts);
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
  const auto write = [&](const simulator::SweepCounts& now) {
    if (!speaks) {
      return;
    }
    if (!files.checkpoint.empty()) {
      written &= WriteFile(files.checkpoint, CheckpointOf(sweep, options, now).dump() + "\n");
    }
    if (!files.csv.empty()) {
      written &= WriteFile(files.csv, SweepToCsv(sweep, options, now));
    }
    if (!files.svg.empty()) {
      written &= WriteFile(files.svg, SweepToSvg(sweep, options, now));
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
