// gordian bench collectives: samples for the cost model, measured on this machine.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/job/install_paths.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/verbs.h"

extern char** environ;

namespace gordian::cli {
namespace {

constexpr int kExitNotLoaded = 127;  // ld.so: a library is missing

struct BenchFlags {
  int ranks = 0;
  std::string operation = "all_gather";
  uint64_t from = 8 << 10;
  uint64_t to = 64 << 20;
  std::string output;
  bool emulator = false;
  bool json = false;
};

// Forces rings, because the samples are of rings, and keeps the rest of the job's environment.
std::vector<std::string> Environment(const InstallPaths& paths, bool emulator) {
  std::vector<std::string> out;
  std::string libraries = emulator ? paths.emulator_dir : "";
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (emulator && variable.starts_with("LD_LIBRARY_PATH=")) {
      libraries += ":" + variable.substr(std::strlen("LD_LIBRARY_PATH="));
    } else if (!variable.starts_with("NCCL_ALGO=")) {
      out.push_back(variable);
    }
  }
  if (emulator) out.push_back("LD_LIBRARY_PATH=" + libraries);
  out.push_back("NCCL_ALGO=Ring");
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Passes each line to `each` as it comes. Returns the exit status; -1 if the program could not be
// started or a signal killed it.
template <typename Each>
int RunMeasuring(std::vector<std::string> arguments, std::vector<std::string> environment,
                 const Each& each) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0].c_str(), &actions, nullptr,
                                Pointers(&arguments).data(), Pointers(&environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::FILE* const lines = error == 0 ? fdopen(ends[0], "r") : nullptr;
  if (lines == nullptr) {
    close(ends[0]);
    errno = error;
    return -1;
  }
  char line[256];
  while (std::fgets(line, sizeof line, lines) != nullptr) each(std::string(line));
  std::fclose(lines);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int Collectives(const BenchFlags& flags) {
  const InstallPaths paths = FindInstallPaths();
  std::string program = paths.lib_dir + "/gordian-measure-collectives";
  if (access(program.c_str(), X_OK) != 0) {  // of a build
    program =
        (std::filesystem::path(paths.executable).parent_path() / "gordian-measure-collectives")
            .string();
  }
  if (access(program.c_str(), X_OK) != 0) {
    PrintError("bench collectives needs " + program + ", which is missing; build it");
    return kExitOwnFailure;
  }
  if (flags.from > flags.to) {
    PrintError("--from " + std::to_string(flags.from) + " is above --to " +
               std::to_string(flags.to));
    return kExitUsage;
  }
  int file = -1;
  if (!flags.output.empty()) {
    const StatusOr<OutputFile> output = OutputFile::Open(flags.output);
    file = output.ok() ? output->Begin() : -1;
    if (file < 0) {
      PrintError(output.ok() ? "cannot write " + flags.output + ": " + std::strerror(errno)
                             : output.status().message());
      return kExitUsage;
    }
  }
  bool written = true;
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  const bool shown = isatty(STDERR_FILENO) != 0 && !flags.output.empty();
  const int status =
      RunMeasuring({program, "--ranks", std::to_string(flags.ranks), "--operation", flags.operation,
                    "--from", std::to_string(flags.from), "--to", std::to_string(flags.to)},
                   Environment(paths, flags.emulator), [&](const std::string& line) {
                     if (file >= 0) written &= WriteAll(file, line);
                     if (file < 0 && !flags.json) PrintOut(line);
                     if (shown) std::fputs(line.c_str(), stderr);
                     std::istringstream fields(line);
                     std::string plan, ranks, bytes, us;
                     std::getline(fields, plan, ',');
                     std::getline(fields, ranks, ',');
                     std::getline(fields, bytes, ',');
                     std::getline(fields, us, '\n');
                     if (plan == "plan" || us.empty()) return;
                     samples.push_back({{"plan", plan},
                                        {"ranks", std::stoi(ranks)},
                                        {"bytes", std::stoull(bytes)},
                                        {"us", std::stod(us)}});
                   });
  if (file >= 0) written &= close(file) == 0;
  if (status == kExitNotLoaded) {
    PrintError(
        "gordian-nccl-samples found no NCCL or CUDA runtime (put their folders into "
        "LD_LIBRARY_PATH, or try --emulator)");
    return kExitNotFound;
  }
  if (status != 0) {
    if (status < 0) PrintError(program + " could not be started, or a signal killed it");
    return kExitProblem;
  }
  if (!written) {
    PrintError("cannot write " + flags.output);
    return kExitUsage;
  }
  if (flags.json) {
    PrintOut(nlohmann::ordered_json{{"schema", "gordian.samples.v1"},
                                    {"operation", flags.operation},
                                    {"emulated", flags.emulator},
                                    {"samples", samples}}
                 .dump(2) +
             "\n");
  }
  return kExitOk;
}

}  // namespace

void AddBenchVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* verb =
      app.add_subcommand("bench", "Measure the samples that the cost model is fitted to");
  verb->require_subcommand(1);
  CLI::App* what = verb->add_subcommand("collectives",
                                        "Time NCCL's collectives between the GPUs of this machine, "
                                        "as rings: samples for `gordian plan --samples`");
  what->add_option("--ranks", flags->ranks, "GPUs, one rank each (default: all)")
      ->check(CLI::Range(2, 64));
  what->add_option("--operation", flags->operation, "What to time (default: all_gather)")
      ->check(CLI::IsMember({"all_gather", "reduce_scatter"}));
  what->add_option("--from", flags->from, "Bytes of the smallest buffer (default: 8192)")
      ->check(CLI::Range(uint64_t{4}, uint64_t{1} << 40))
      ->type_name("BYTES");
  what->add_option("--to", flags->to,
                   "Bytes of the largest; each is four times the one before (default: 67108864)")
      ->check(CLI::Range(uint64_t{4}, uint64_t{1} << 40))
      ->type_name("BYTES");
  what->add_option("-o,--output", flags->output,
                   "Write the samples to this file, not to the terminal")
      ->type_name("FILE");
  what->add_flag("--emulator", flags->emulator,
                 "Use the emulated GPUs, to try the command: their times describe no real link");
  what->add_flag("--json", flags->json, "The samples as JSON (schema gordian.samples.v1)");
  what->footer(
      "Example: gordian bench collectives -o samples.csv && gordian plan SESSION --collectives "
      "--samples samples.csv");
  what->callback([=] { context->chosen = [=] { return Collectives(*flags); }; });
}

}  // namespace gordian::cli
