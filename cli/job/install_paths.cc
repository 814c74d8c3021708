#include "cli/job/install_paths.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>

namespace gordian::cli {

InstallPaths FindInstallPaths() {
  namespace fs = std::filesystem;
  std::error_code error;
  InstallPaths paths;
  paths.executable = fs::read_symlink("/proc/self/exe", error).string();
  const char* given = getenv("GORDIAN_LIB_DIR");
  fs::path lib = given != nullptr && *given != '\0'
                     ? fs::path(given)
                     : fs::path(paths.executable).parent_path().parent_path() / "lib";
  const fs::path resolved = fs::weakly_canonical(lib, error);
  if (!error) {
    lib = resolved;
  }
  paths.lib_dir = lib.string();
  paths.shim = (lib / "libgordian_interpose.so").string();
  paths.python = (lib / "python").string();
  paths.runtime = (lib / "libgordian_runtime.so").string();
  paths.runtime_cuda = (lib / "libgordian_runtime_cuda.so").string();
  paths.emulator_dir = (lib / "emulator").string();
  return paths;
}

}  // namespace gordian::cli
