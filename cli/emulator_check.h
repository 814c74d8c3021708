// Whether a job with --emulator really got the emulated libraries: DT_RPATH comes before
// LD_LIBRARY_PATH, and programs open libraries by full paths.
#ifndef GORDIAN_CLI_EMULATOR_CHECK_H_
#define GORDIAN_CLI_EMULATOR_CHECK_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace gordian::cli {

// Whether a path names one of libcudart, libnccl, libcuda in any version.
bool IsReplacedLibrary(std::string_view path);

// Paths in the text of a /proc/PID/maps that should have been the emulator's, but are elsewhere.
std::vector<std::string> ForeignLibraries(std::string_view maps, std::string_view emulator_dir);
// The same of a process; empty too when it cannot be read (any more).
std::vector<std::string> ForeignLibrariesOf(pid_t pid, const std::string& emulator_dir);

// What the program's own loader would map, asked by `ld.so --list`, which runs nothing of the
// program. LD_PRELOAD is left out. Empty when the program is no dynamic ELF file.
std::vector<std::string> LibrariesAtLoad(const std::string& program,
                                         const std::vector<std::string>& environment);
// Foreign libraries among that.
std::vector<std::string> ForeignLibrariesAtLoad(const std::string& program,
                                                const std::vector<std::string>& environment,
                                                const std::string& emulator_dir);

// Whether the program brings its own CUDA runtime, which speaks to the driver by a private table
// and so cannot run on the emulated one. False for what cannot be told: a stripped program without
// kernels.
bool HasStaticCudaRuntime(const std::string& program);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_EMULATOR_CHECK_H_
