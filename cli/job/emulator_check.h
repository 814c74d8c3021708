// Checks that a job with --emulator really maps the emulated libraries: DT_RPATH comes before
// LD_LIBRARY_PATH, and some programs open libraries by full paths.
#ifndef GORDIAN_CLI_JOB_EMULATOR_CHECK_H_
#define GORDIAN_CLI_JOB_EMULATOR_CHECK_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace gordian::cli {

// Whether a path names one of libcudart, libnccl, libcuda in any version.
bool IsReplacedLibrary(std::string_view path);

// Returns the paths in `maps` (text of /proc/PID/maps) that should be the emulator's and are not.
std::vector<std::string> ForeignLibraries(std::string_view maps, std::string_view emulator_dir);
// The same of a process; empty too when it cannot be read (any more).
std::vector<std::string> ForeignLibrariesOf(pid_t pid, const std::string& emulator_dir);

// What the program's own loader would map, by `ld.so --list` without LD_PRELOAD; no code of the
// program runs. Empty when the program is no dynamic ELF file.
std::vector<std::string> LibrariesAtLoad(const std::string& program,
                                         const std::vector<std::string>& environment);
// The foreign libraries among them.
std::vector<std::string> ForeignLibrariesAtLoad(const std::string& program,
                                                const std::vector<std::string>& environment,
                                                const std::string& emulator_dir);

// Whether the program links its own CUDA runtime, which talks to the driver through a private table
// and so cannot run on the emulated one. False when in doubt: a stripped program without kernels.
bool HasStaticCudaRuntime(const std::string& program);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_EMULATOR_CHECK_H_
