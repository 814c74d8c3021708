// The variables that make a job observable: what `run` gives to its child and `env` prints.
#ifndef GORDIAN_CLI_JOB_ENVIRONMENT_H_
#define GORDIAN_CLI_JOB_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/install_paths.h"
#include "common/config.h"
#include "common/status.h"

namespace gordian::cli {

struct JobEnvironmentOptions {
  std::string ring_dir;     // empty: the shim records nothing
  std::string session_dir;  // absolute; empty: not told
  bool emulator = false;
  // The emulated libraries in LD_PRELOAD too, for programs whose own search path comes before
  // LD_LIBRARY_PATH.
  bool preload_emulator = false;
  bool graph_markers = false;
  // Collectives go to our own runtime; what it shares between processes is named by `ring_dir`.
  bool preemptive_collectives = false;
  // Launches of kernels are left out; patterns as the shim takes them, empty: none.
  bool stub_compute = false;
  std::string stub_keep, stub_skip;
  // The shim as NCCL's profiler plugin; one that NCCL_PROFILER_PLUGIN names already is kept behind
  // it.
  bool nccl_profiler = false;
  // The shim as what the CUDA driver opens, to be told of its calls by CUPTI. Nothing where
  // something else is opened already.
  bool cupti = false;
};

// Puts `patterns` onto the list that the shim is given (interpose/stub_compute.h). Errors:
// kInvalidArgument, naming `flag`: an empty one, more than fit, or `stubs` (whether kernels are
// left out at all) is false.
Status AddStubPatterns(const std::string& flag, const std::vector<std::string>& patterns,
                       bool stubs, std::string* list);

using Variable = std::pair<std::string, std::string>;

// Name and value of each variable that differs from `before`. LD_PRELOAD and LD_LIBRARY_PATH keep
// what they had: the shim goes behind it, the emulator's folder before it.
std::vector<Variable> JobVariables(const InstallPaths& paths, const JobEnvironmentOptions& options,
                                   const Environment& before);

// What CUDA_INJECTION64_PATH names, if that is not the shim; else empty. The driver opens one
// library.
std::string OtherInjection(const InstallPaths& paths, const Environment& before);

// libcupti in the places of a CUDA toolkit, for where the loader would not find it by its name.
// Empty: in none.
std::string FindCupti(const Environment& environment);

// This process's environment with `variables` put in: NAME=value entries.
std::vector<std::string> FullEnvironment(const std::vector<Variable>& variables);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_ENVIRONMENT_H_
