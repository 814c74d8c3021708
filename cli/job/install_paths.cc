#include "cli/job/install_paths.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>

namespace gordian::cli {
namespace {

constexpr char kShim[] = "libgordian_interpose.so";

}  // namespace

InstallPaths FindInstallPaths() {
  namespace fs = std::filesystem;
  std::error_code error;
  InstallPaths paths;
  paths.executable = fs::read_symlink("/proc/self/exe", error).string();
  const char* given = getenv("GORDIAN_LIB_DIR");
  const fs::path prefix = fs::path(paths.executable).parent_path().parent_path();
  fs::path lib = prefix / GORDIAN_INSTALLED_LIB;
  if (given != nullptr && *given != '\0') {
    lib = given;
  } else if (!fs::exists(lib / kShim, error)) {
    lib = prefix / "lib";
  }
  const fs::path resolved = fs::weakly_canonical(lib, error);
  if (!error) {
    lib = resolved;
  }
  paths.lib_dir = lib.string();
  paths.shim = (lib / kShim).string();
  paths.python = (lib / "python").string();
  paths.runtime = (lib / "libgordian_runtime.so").string();
  paths.runtime_cuda = (lib / "libgordian_runtime_cuda.so").string();
  paths.emulator_dir = (lib / "emulator").string();
  paths.demo_job = (lib / "demo" / "hybrid_training").string();
  return paths;
}

}  // namespace gordian::cli
