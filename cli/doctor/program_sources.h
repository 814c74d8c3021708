// Finds which source of records sees the calls of a program: symbols, NCCL's profiler interface, or
// none. Reads files only and runs nothing of the program.
#ifndef GORDIAN_CLI_DOCTOR_PROGRAM_SOURCES_H_
#define GORDIAN_CLI_DOCTOR_PROGRAM_SOURCES_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/doctor_checks.h"
#include "cli/job/elf_file.h"
#include "common/config.h"

namespace gordian::cli {

// What a file's bytes show of an NCCL linked into it. NCCL prints its version and looks up profiler
// plugins by name, so a stripped file holds both texts too.
struct NcclInside {
  std::string version;       // "2.28.9"; empty: the file holds no NCCL
  int profiler_version = 0;  // newest plugin version that it looks up; 0: none
};
NcclInside FindNcclInside(std::string_view bytes);

// How the program, and the libraries that the loader loads with it, get NCCL and the CUDA runtime;
// which calls gordian sees, and which option would show more.
std::vector<DoctorCheck> CheckSources(const std::string& program, const ElfSummary& elf);

// The library that `gordian run --cupti` would use.
DoctorCheck CheckCupti(const Environment& environment);

// The user's own profiler plugin, when NCCL_PROFILER_PLUGIN names one; else nothing.
std::vector<DoctorCheck> CheckOwnProfiler(const std::string& plugin);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_DOCTOR_PROGRAM_SOURCES_H_
