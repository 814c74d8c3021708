#include "cli/job/job_environment.h"

#include <unistd.h>

#include <algorithm>

#include "cli/job/collectives.h"

namespace gordian::cli {
namespace {

// LD_PRELOAD's entries are separated by colons or spaces.
bool Lists(std::string_view list, std::string_view entry) {
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(": "), list.size());
    if (list.substr(0, end) == entry) {
      return true;
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

void Append(std::string* list, const std::string& entry) {
  if (Lists(*list, entry)) {
    return;
  }
  if (!list->empty()) {
    *list += ':';
  }
  *list += entry;
}

}  // namespace

std::vector<Variable> JobVariables(const InstallPaths& paths, const JobEnvironmentOptions& options,
                                   const Environment& before) {
  std::vector<Variable> variables;
  std::string preload = before("LD_PRELOAD").value_or("");
  Append(&preload, paths.shim);
  if (options.emulator && options.preload_emulator) {
    for (const char* name : kEmulatedLibraries) {
      Append(&preload, paths.emulator_dir + "/" + name);
    }
  }
  variables.emplace_back("LD_PRELOAD", preload);
  if (options.emulator) {
    const std::string old = before("LD_LIBRARY_PATH").value_or("");
    const bool first = old == paths.emulator_dir || old.starts_with(paths.emulator_dir + ":");
    variables.emplace_back("LD_LIBRARY_PATH", first         ? old
                                              : old.empty() ? paths.emulator_dir
                                                            : paths.emulator_dir + ":" + old);
  }
  if (!options.ring_dir.empty()) {
    variables.emplace_back("GORDIAN_RING_DIR", options.ring_dir);
  }
  if (!options.session_dir.empty()) {
    variables.emplace_back("GORDIAN_SESSION", options.session_dir);
  }
  // Without it the shim takes NCCL's threads for the program's, and gordian can never prove a wait
  // for a word in memory, since one of those threads might write it. The variable only names
  // threads.
  if (!options.emulator && !before("NCCL_SET_THREAD_NAME")) {
    variables.emplace_back("NCCL_SET_THREAD_NAME", "1");
  }
  if (!paths.python.empty() && before("GORDIAN_TORCH").value_or("1") != "0") {
    const std::string old = before("PYTHONPATH").value_or("");
    const bool first = old == paths.python || old.starts_with(paths.python + ":");
    variables.emplace_back("PYTHONPATH", first         ? old
                                         : old.empty() ? paths.python
                                                       : paths.python + ":" + old);
  }
  if (options.graph_markers) {
    variables.emplace_back("GORDIAN_GRAPH_MARKERS", "1");
  }
  if (options.recovery) {
    variables.emplace_back("GORDIAN_RECOVERY", "1");
    variables.emplace_back("GORDIAN_COLLECTIVES_LIBRARY",
                           options.emulator ? paths.runtime : paths.runtime_cuda);
    variables.emplace_back("GRT_SESSION", SharedMemoryTag(options.ring_dir));
  }
  if (options.preemptive_collectives) {
    // Emulated devices are the host's processors.
    variables.emplace_back("GORDIAN_COLLECTIVES_LIBRARY",
                           options.emulator ? paths.runtime : paths.runtime_cuda);
    std::string names;
    for (const std::string& name : options.preemptive_names)
      names += (names.empty() ? "" : ",") + name;
    variables.emplace_back("GORDIAN_COLLECTIVES_NAMES", names);
    variables.emplace_back("GRT_SESSION", SharedMemoryTag(options.ring_dir));
    // The runtime now serves the program's warm-up. Operations captured in graphs stay with NCCL,
    // and must not be the first use that connects the members: captures in different orders would
    // hang.
    if (options.emulator && !before("NCCL_RUNTIME_CONNECT")) {
      variables.emplace_back("NCCL_RUNTIME_CONNECT", "0");
    }
  }
  if (options.stub_compute) {
    variables.emplace_back("GORDIAN_STUB_COMPUTE", "1");
    variables.emplace_back("GORDIAN_STUB_COMPUTE_KEEP", options.stub_keep);
    variables.emplace_back("GORDIAN_STUB_COMPUTE_SKIP", options.stub_skip);
  }
  if (options.cupti && OtherInjection(paths, before).empty()) {
    variables.emplace_back("GORDIAN_CUPTI", "1");
    variables.emplace_back("CUDA_INJECTION64_PATH", paths.shim);
    if (const std::string library = FindCupti(before);
        !library.empty() && !before("GORDIAN_CUPTI_LIBRARY")) {
      variables.emplace_back("GORDIAN_CUPTI_LIBRARY", library);
    }
  }
  if (options.nccl_profiler) {
    const std::string own = before("NCCL_PROFILER_PLUGIN").value_or("");
    if (!own.empty() && own != "none" && own != paths.shim) {
      variables.emplace_back("GORDIAN_NCCL_PROFILER_PLUGIN", own);
    }
    variables.emplace_back("NCCL_PROFILER_PLUGIN", paths.shim);
  }
  return variables;
}

std::string OtherInjection(const InstallPaths& paths, const Environment& before) {
  const std::string other = before("CUDA_INJECTION64_PATH").value_or("");
  return other == paths.shim ? "" : other;
}

std::string FindCupti(const Environment& environment) {
  std::vector<std::string> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto root = environment(name); root && !root->empty()) roots.push_back(*root);
  }
  roots.emplace_back("/usr/local/cuda");
  for (const std::string& root : roots) {
    for (const char* folder : {"/extras/CUPTI/lib64", "/lib64"}) {
      for (const char* name : {"/libcupti.so.13", "/libcupti.so.12", "/libcupti.so"}) {
        const std::string path = root + folder + name;
        if (access(path.c_str(), R_OK) == 0) return path;
      }
    }
  }
  return "";
}

Status AddStubPatterns(const std::string& flag, const std::vector<std::string>& patterns,
                       bool stubs, std::string* list) {
  constexpr size_t kMostBytes = 1000;
  if (!patterns.empty() && !stubs) return Status::InvalidArgument(flag + " needs --stub-compute");
  for (const std::string& pattern : patterns) {
    if (pattern.empty())
      return Status::InvalidArgument(flag + " is empty; give it a pattern of kernel names");
    *list += (list->empty() ? "" : ":") + pattern;
  }
  if (stubs && list->size() > kMostBytes)
    return Status::InvalidArgument(flag +
                                   ": the patterns together exceed 1,000 bytes; use shorter ones");
  return Status::Ok();
}

std::vector<std::string> FullEnvironment(const std::vector<Variable>& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const Variable& v) { return v.first == name; });
    if (!replaced) {
      all.emplace_back(text);
    }
  }
  for (const auto& [name, value] : variables) {
    all.push_back(name + "=" + value);
  }
  return all;
}

}  // namespace gordian::cli
