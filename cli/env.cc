// gordian env: the variables that `run` would set.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/install_paths.h"
#include "cli/job_environment.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/verbs.h"

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
                 ShellQuote(options.ring_dir) + ")");
      return kExitUsage;
    }
  } else if (options.ring_dir.empty()) {
    options.ring_dir = environment("GORDIAN_RING_DIR").value_or("");
  }
  if (options.ring_dir.empty()) {
    PrintNote("no --ring-dir: the shim would be loaded, but record nothing");
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
      "env", "Print the variables that run sets, for those who own their launcher");
  verb->add_option("--ring-dir", flags->ring_dir,
                   "Folder for ring files, on a tmpfs, of your own (mode 700)")
      ->type_name("DIR");
  verb->add_option("--session", flags->session,
                   "A running session: its ring folder is used, so that its gordian sees the job")
      ->type_name("DIR");
  verb->add_flag("--emulator", flags->emulator, "The emulated CUDA and NCCL libraries first");
  verb->add_flag("--nccl-profiler", flags->nccl_profiler, "As of run");
  verb->add_flag("--cupti", flags->cupti, "As of run");
  verb->add_flag("--graph-markers", flags->graph_markers, "As of run");
  verb->add_flag("--stub-compute", flags->stub_compute, "As of run");
  verb->add_option("--stub-keep", flags->stub_keep, "As of run")->type_name("GLOB");
  verb->add_option("--stub-skip", flags->stub_skip, "As of run")->type_name("GLOB");
  verb->add_flag("--json", flags->json, "As JSON instead of export lines");
  verb->footer("Example: eval \"$(gordian env --ring-dir /dev/shm/mine)\" && ./train");
  verb->callback([=] { context->chosen = [=] { return Env(*flags); }; });
}

}  // namespace gordian::cli
