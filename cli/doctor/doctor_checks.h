// The checks of `gordian doctor`: this machine, this installation, and a program.
#ifndef GORDIAN_CLI_DOCTOR_DOCTOR_CHECKS_H_
#define GORDIAN_CLI_DOCTOR_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

#include "cli/job/install_paths.h"

namespace gordian::cli {

struct DoctorCheck {
  // kOk: works. kNote: something is missing or gordian sees less; the rest works. kFailed: gordian
  // run cannot observe a job here.
  enum class State { kOk, kNote, kFailed };
  std::string name;
  State state = State::kOk;
  std::string detail;  // one line
  std::string path;    // of what was found; may be empty
};

std::vector<DoctorCheck> CheckInstallation(const InstallPaths& paths);

// Opens the libraries by the names that programs use. A child process does it, so that a library
// that crashes or hangs while loading does not take gordian with it.
std::vector<DoctorCheck> CheckLoaderLibraries();

std::vector<DoctorCheck> CheckMachine();

// How a program gets NCCL and the CUDA runtime, and whether calls can be seen. `name` as typed.
std::vector<DoctorCheck> CheckProgram(const std::string& name);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_DOCTOR_DOCTOR_CHECKS_H_
