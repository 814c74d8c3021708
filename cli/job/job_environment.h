// The variables that make a job observable: `run` gives them to its child, `env` prints them.
#ifndef GORDIAN_CLI_JOB_JOB_ENVIRONMENT_H_
#define GORDIAN_CLI_JOB_JOB_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/job/install_paths.h"
#include "common/config.h"
#include "common/status.h"

namespace gordian::cli {

struct JobEnvironmentOptions {
  std::string ring_dir;     // empty: the shim records nothing
  std::string session_dir;  // absolute; empty: not passed on
  bool emulator = false;
  // Preloads the emulated libraries too, for programs whose own search path precedes
  // LD_LIBRARY_PATH.
  bool preload_emulator = false;
  bool graph_markers = false;
  // Routes collectives to gordian's runtime, whose shared memory is named after `ring_dir`.
  bool preemptive_collectives = false;
  std::vector<std::string> preemptive_names;  // of communicators; empty: all
  // Keeps that runtime for the operations of a job that is stuck.
  bool recovery = false;
  // Skips launches of kernels; patterns in the shim's syntax, empty: none.
  bool stub_compute = false;
  std::string stub_keep, stub_skip;
  // Loads the shim as NCCL's profiler plugin; the shim calls the plugin that NCCL_PROFILER_PLUGIN
  // already names.
  bool nccl_profiler = false;
  // Has the CUDA driver open the shim, which then receives the driver's calls from CUPTI. Does
  // nothing when the driver already opens another library.
  bool cupti = false;
};

// Appends `patterns` to the list for the shim (interpose/sources/stub_compute.h). Errors:
// kInvalidArgument, naming `flag`, for an empty pattern, too many bytes, or `stubs` false (no
// kernels are skipped).
Status AddStubPatterns(const std::string& flag, const std::vector<std::string>& patterns,
                       bool stubs, std::string* list);

using Variable = std::pair<std::string, std::string>;

// Returns each variable that differs from `before`. LD_PRELOAD and LD_LIBRARY_PATH keep their
// entries: the shim goes behind them, the emulator's folder before them.
std::vector<Variable> JobVariables(const InstallPaths& paths, const JobEnvironmentOptions& options,
                                   const Environment& before);

// The library in CUDA_INJECTION64_PATH, if it is not the shim; else empty. The driver opens only
// one.
std::string OtherInjection(const InstallPaths& paths, const Environment& before);

// The path of libcupti in a CUDA toolkit's usual places, for when the loader does not find it by
// name. Empty: not found.
std::string FindCupti(const Environment& environment);

// This process's environment with `variables` put in: NAME=value entries.
std::vector<std::string> FullEnvironment(const std::vector<Variable>& variables);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_JOB_ENVIRONMENT_H_
