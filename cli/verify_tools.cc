#include "cli/verify_tools.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/job/install_paths.h"

namespace gordian::cli {
namespace {

bool HoldsHeader(const std::string& folder, const char* name) {
  return access((folder + "/" + name).c_str(), R_OK) == 0;
}

std::vector<std::string> IncludeDirs() {
  std::vector<std::string> candidates;
  for (const char* const name : {"CUDA_HOME", "CUDA_PATH", "NCCL_HOME"}) {
    const char* const value = getenv(name);
    if (value != nullptr && *value != 0) candidates.push_back(std::string(value) + "/include");
  }
  candidates.insert(candidates.end(),
                    {GORDIAN_CUDA_INCLUDE, GORDIAN_NCCL_INCLUDE, "/usr/local/cuda/include"});
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

}  // namespace

replayer::VerifyTools FindVerifyTools() {
  const InstallPaths paths = FindInstallPaths();
  replayer::VerifyTools tools;
  if (const char* const compiler = getenv("CXX"); compiler != nullptr && *compiler != 0)
    tools.compiler = compiler;
  tools.include_dirs = IncludeDirs();
  tools.library_dir = paths.emulator_dir;
  tools.gordian = paths.executable;
  return tools;
}

}  // namespace gordian::cli
