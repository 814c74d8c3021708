// Finds gordian's own files: next to its executable, or in GORDIAN_LIB_DIR.
#ifndef GORDIAN_CLI_JOB_INSTALL_PATHS_H_
#define GORDIAN_CLI_JOB_INSTALL_PATHS_H_

#include <string>

namespace gordian::cli {

struct InstallPaths {
  std::string executable;  // of gordian itself
  // GORDIAN_LIB_DIR, else of an installation <prefix>/lib/gordian (or where the package's LIBDIR is),
  // else of a build lib/ beside bin/.
  std::string lib_dir;
  std::string shim;          // <lib_dir>/libgordian_interpose.so
  std::string python;        // <lib_dir>/python: the front end for PyTorch
  std::string emulator_dir;  // <lib_dir>/emulator
  std::string demo_job;      // <lib_dir>/demo/hybrid_training: what `gordian demo` runs
  std::string runtime;       // <lib_dir>/libgordian_runtime.so
  std::string runtime_cuda;  // <lib_dir>/libgordian_runtime_cuda.so
};

// Does not check that the files exist. Resolves links, so that paths match /proc/PID/maps.
InstallPaths FindInstallPaths();

// The names under which the three libraries are found in the emulator's folder.
inline constexpr const char* kEmulatedLibraries[] = {"libcuda.so.1", "libcudart.so.13",
                                                     "libnccl.so.2"};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_INSTALL_PATHS_H_
