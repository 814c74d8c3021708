// What `gordian doctor` looks at: this machine, this installation, and a program.
#ifndef GORDIAN_CLI_DOCTOR_CHECKS_H_
#define GORDIAN_CLI_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "cli/install_paths.h"

namespace gordian::cli {

struct DoctorCheck {
  // kOk: as it should be. kNote: something is not there, or less is seen; the rest works. kFailed:
  // gordian run cannot observe a job here.
  enum class State { kOk, kNote, kFailed };
  std::string name;
  State state = State::kOk;
  std::string detail;  // one line
  std::string path;    // of what was found; may be empty
};

std::vector<DoctorCheck> CheckInstallation(const InstallPaths& paths);

// What the dynamic loader finds by the names that programs use. Opened in a child process, so that
// a library that crashes or hangs on being loaded does neither to us.
std::vector<DoctorCheck> CheckLoaderLibraries();

std::vector<DoctorCheck> CheckMachine();

// How a program gets NCCL and the CUDA runtime, and whether calls can be seen. `name` as typed.
std::vector<DoctorCheck> CheckProgram(const std::string& name);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_DOCTOR_CHECKS_H_
