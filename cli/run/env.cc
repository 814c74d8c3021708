// gordian env: prints the variables that `run` would set.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/job/install_paths.h"
#include "cli/job/job_environment.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "common/shell_quote.h"

namespace gordian::cli {
namespace {

struct EnvFlags {
  std::optional<std::string> ring_dir;
  std::optional<std::string> session;
  bool emulator = false;
  bool graph_markers = false;
  bool nccl_profiler = false;
  bool cupti = false;
  bool stub_compute = false;
  std::vector<std::string> stub_keep, stub_skip;
  bool json = false;
};

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

int Env(const EnvFlags& flags) {
  const InstallPaths paths = FindInstallPaths();
  const Environment environment = ProcessEnvironment();
  JobEnvironmentOptions options;
  options.emulator = flags.emulator;
  options.graph_markers = flags.graph_markers;
  options.nccl_profiler = flags.nccl_profiler;
  options.cupti = flags.cupti;
  options.stub_compute = flags.stub_compute;
  for (const auto& [flag, patterns, list] :
       {std::tuple("--stub-keep", &flags.stub_keep, &options.stub_keep),
        std::tuple("--stub-skip", &flags.stub_skip, &options.stub_skip)}) {
    if (const Status added = AddStubPatterns(flag, *patterns, flags.stub_compute, list);
        !added.ok()) {
      PrintError(added.message());
      return kExitUsage;
    }
  }
  if (flags.session) {
    options.session_dir = AbsolutePath(*flags.session);
    if (!flags.ring_dir) {
      const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(*flags.session);
      if (!manifest.ok()) {
        PrintError(manifest.status().message() + "; give --ring-dir DIR too");
        return kExitUsage;
      }
      const auto ring_dir = manifest->find("ring_dir");
      if (ring_dir != manifest->end() && ring_dir->is_string()) {
        options.ring_dir = ring_dir->get<std::string>();
      }
      if (access(options.ring_dir.c_str(), W_OK) != 0) {
        PrintError("session " + *flags.session + " is not running any more; give --ring-dir DIR");
        return kExitUsage;
      }
    }
  }
  if (flags.ring_dir) {
    options.ring_dir = AbsolutePath(*flags.ring_dir);
    struct stat info {};
    if (stat(options.ring_dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      PrintError("there is no folder " + options.ring_dir + " (try: mkdir -m 700 " +
                 ShownQuote(options.ring_dir) + ")");
      return kExitUsage;
    }
  } else if (options.ring_dir.empty()) {
    options.ring_dir = environment("GORDIAN_RING_DIR").value_or("");
  }
  if (options.ring_dir.empty()) {
    PrintNote("without --ring-dir DIR the shim is loaded but records nothing");
  }

  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::string text;
  for (const auto& [name, value] : JobVariables(paths, options, environment)) {
    json[name] = value;
    text += "export " + name + "=" + ShellQuote(value) + "\n";
  }
  return PrintOut(flags.json ? json.dump(2) + "\n" : text) ? kExitOk : kExitUsage;
}

}  // namespace

void AddEnvVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<EnvFlags>();
  CLI::App* verb = app.add_subcommand(
      "env", "Print the variables that run sets, for use in a launcher of your own");
  verb->add_option("--ring-dir", flags->ring_dir,
                   "Folder for ring files: on a tmpfs, owned by you, mode 700")
      ->type_name("DIR");
  verb->add_option("--session", flags->session,
                   "Use the ring folder of this running session, so that its gordian sees the job")
      ->type_name("DIR");
  verb->add_flag("--emulator", flags->emulator, "Put the emulated CUDA and NCCL libraries first");
  verb->add_flag("--nccl-profiler", flags->nccl_profiler, "As for run");
  verb->add_flag("--cupti", flags->cupti, "As for run");
  verb->add_flag("--graph-markers", flags->graph_markers, "As for run");
  verb->add_flag("--stub-compute", flags->stub_compute, "As for run");
  verb->add_option("--stub-keep", flags->stub_keep, "As for run")->type_name("GLOB");
  verb->add_option("--stub-skip", flags->stub_skip, "As for run")->type_name("GLOB");
  verb->add_flag("--json", flags->json, "Print JSON instead of export lines");
  verb->footer("Example: eval \"$(gordian env --ring-dir /dev/shm/mine)\" && ./train");
  verb->callback([=] { context->chosen = [=] { return Env(*flags); }; });
}

}  // namespace gordian::cli
