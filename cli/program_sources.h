// Which source of records would see what in a program: symbols, NCCL's profiler interface, or
// nothing. Reads files only; nothing of the program runs.
#ifndef GORDIAN_CLI_PROGRAM_SOURCES_H_
#define GORDIAN_CLI_PROGRAM_SOURCES_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor_checks.h"
#include "cli/elf_file.h"
#include "common/config.h"

namespace gordian::cli {

// What the bytes of a file say of an NCCL that is linked into it. NCCL prints its version, and
// looks for profiler plugins by names, so that both stand in it even when it is stripped.
struct NcclInside {
  std::string version;       // "2.28.9"; empty: there is none
  int profiler_version = 0;  // the newest that it asks a plugin for; 0: none
};
NcclInside FindNcclInside(std::string_view bytes);

// How the program, and what the loader loads with it, come by NCCL and the CUDA runtime; what is
// seen of that, and what option would see more.
std::vector<DoctorCheck> CheckSources(const std::string& program, const ElfSummary& elf);

// The library that `gordian run --cupti` would use.
DoctorCheck CheckCupti(const Environment& environment);

// The user's own profiler plugin, when NCCL_PROFILER_PLUGIN names one; else nothing.
std::vector<DoctorCheck> CheckOwnProfiler(const std::string& plugin);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PROGRAM_SOURCES_H_
