#include "cli/doctor/doctor_checks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "cli/doctor/hook_coverage.h"
#include "cli/doctor/library_version.h"
#include "cli/doctor/program_sources.h"
#include "cli/job/elf_file.h"
#include "cli/job/emulator_check.h"
#include "cli/job/launcher.h"
#include "cli/job/ring_folder.h"
#include "common/version.h"
#include "proto/ring/layout.h"

namespace gordian::cli {
namespace {

using State = DoctorCheck::State;

constexpr unsigned kLoadLimitS = 10;

// "path\tversion" of a library, or "" and a reason in *why.
struct LoadedLibrary {
  bool found = false;
  std::string path;
  int version = 0;
  std::string why;
};

// Runs in the child. The version functions need no device and no initialisation.
std::string OpenAndDescribe(const char* soname, const char* version_function) {
  void* handle = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = dlerror();
    return std::string("-") + (error != nullptr ? error : "cannot be opened");
  }
  link_map* map = nullptr;
  std::string text = "+";
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    text += map->l_name;
  }
  int version = 0;
  if (auto* function = reinterpret_cast<int (*)(int*)>(dlsym(handle, version_function));
      function == nullptr || function(&version) != 0) {
    version = 0;
  }
  return text + "\t" + std::to_string(version);
}

LoadedLibrary Load(const char* soname, const char* version_function) {
  LoadedLibrary library;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    library.why = strerror(errno);
    return library;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kLoadLimitS);
    const std::string text = OpenAndDescribe(soname, version_function);
    const ssize_t n = write(ends[1], text.data(), text.size());
    _exit(n == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (pid < 0) {
    library.why = "cannot start a process to load it in";
  } else if (text.starts_with("+")) {
    const size_t tab = text.find('\t');
    library.found = true;
    library.path = text.substr(1, tab - 1);
    library.version = atoi(text.c_str() + tab + 1);
  } else if (text.starts_with("-")) {
    library.why = text.substr(1);
  } else {
    library.why = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "did not load within 10 s"
                                                                     : "crashed while being loaded";
  }
  return library;
}

std::string CudaVersion(int version) {
  return version == 0 ? "version unknown"
                      : fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string NcclVersion(int version) {
  if (version == 0) {
    return "version unknown";
  }
  const int scale = version < 10000 ? 1000 : 10000;
  return fmt::format("NCCL {}.{}.{}", version / scale, version % scale / 100, version % 100);
}

// What keeps a library of gordian's own from working with this program; empty: nothing.
std::string OwnLibraryTrouble(const std::string& path) {
  if (const StatusOr<ElfSummary> elf = ReadElf(path); !elf.ok()) return elf.status().message();
  const std::string version = LibraryVersion(path);
  if (version == kVersion) return "";
  return path + " is of " + (version.empty() ? "no known version" : "gordian " + version) +
         ", this is gordian " + kVersion + ": install both anew, from one version";
}

DoctorCheck CheckSharedMemory() {
  DoctorCheck check{.name = "shared memory", .path = kRingFolderBase};
  const StatusOr<OwnedFolder> folder = CreateRingFolder();
  if (!folder.ok()) {
    check.state = State::kFailed;
    check.detail = folder.status().message();
    return check;
  }
  if (const Status removed = RemoveRingFolder(*folder); !removed.ok()) {
    check.state = State::kNote;
    check.detail = removed.message();
    return check;
  }
  struct statvfs info {};
  if (statvfs(kRingFolderBase, &info) != 0) {
    check.state = State::kNote;
    check.detail = std::string("writable, but statvfs fails: ") + strerror(errno);
    return check;
  }
  const uint64_t free_mib = static_cast<uint64_t>(info.f_bavail) * info.f_frsize >> 20;
  const uint64_t ranks = free_mib / (ring::kMaxFileBytes >> 20);
  check.detail = fmt::format("writable, {} MiB free: rings for {} processes", free_mib, ranks);
  if (ranks < 16) {
    check.state = State::kNote;
    check.detail += " (in a container: give it a larger --shm-size)";
  }
  return check;
}

DoctorCheck CheckPtrace() {
  DoctorCheck check{.name = "ptrace", .path = "/proc/sys/kernel/yama/ptrace_scope"};
  std::ifstream file(check.path);
  int scope = 0;
  if (!(file >> scope)) {
    check.detail = "not restricted by Yama";
    return check;
  }
  check.detail = fmt::format("Yama scope {}", scope);
  if (scope >= 2 && geteuid() != 0) {
    check.state = State::kNote;
    check.detail +=
        ": gordian cannot read other processes' stacks; verdicts and call sites still work";
  }
  return check;
}

DoctorCheck CheckTsc() {
  DoctorCheck check{.name = "clock"};
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool invariant = __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  const bool invariant = false;
#endif
  check.detail = invariant
                     ? "time stamp counter, invariant"
                     : "no invariant time stamp counter: the shim asks the kernel for the time";
  check.state = invariant ? State::kOk : State::kNote;
  return check;
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line(256, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  return line.substr(0, line.find('\n'));
}

// Names the functions of the library that are newer than the table: gordian does not see those
// calls.
DoctorCheck CheckCoverage(std::string_view library, const std::string& name,
                          const std::string& path) {
  constexpr size_t kMostNamed = 12;
  DoctorCheck check{.name = name + " functions", .path = path};
  const StatusOr<std::vector<std::string>> exported = ExportedFunctions(path);
  if (!exported.ok()) {
    check.state = State::kNote;
    check.detail = exported.status().message();
    return check;
  }
  const std::vector<std::string> beyond = BeyondTable(library, *exported);
  if (beyond.empty()) {
    check.detail = "all known: see gordian hooks";
    return check;
  }
  check.state = State::kNote;
  check.detail = fmt::format("{} not in gordian's table, so gordian does not see their calls: ",
                             beyond.size());
  for (size_t i = 0; i < beyond.size() && i < kMostNamed; ++i) {
    check.detail += (i == 0 ? "" : ", ") + beyond[i];
  }
  if (beyond.size() > kMostNamed) {
    check.detail += fmt::format(" and {} more", beyond.size() - kMostNamed);
  }
  return check;
}

}  // namespace

std::vector<DoctorCheck> CheckInstallation(const InstallPaths& paths) {
  std::vector<DoctorCheck> checks;
  DoctorCheck shim{.name = "shim", .path = paths.shim};
  if (const StatusOr<ElfSummary> elf = ReadElf(paths.shim); elf.ok()) {
    shim.detail = "present; needs ";
    for (const std::string& name : elf->needed) {
      shim.detail += (&name == &elf->needed.front() ? "" : ", ") + name;
    }
    if (const std::string trouble = OwnLibraryTrouble(paths.shim); !trouble.empty()) {
      shim.state = State::kFailed;
      shim.detail = trouble;
    }
  } else {
    shim.state = State::kFailed;
    shim.detail = elf.status().message() + "; install gordian anew, or set GORDIAN_LIB_DIR";
  }
  checks.push_back(std::move(shim));

  DoctorCheck emulator{.name = "emulator", .detail = "present", .path = paths.emulator_dir};
  for (const char* name : kEmulatedLibraries) {
    if (const std::string trouble = OwnLibraryTrouble(paths.emulator_dir + "/" + name);
        !trouble.empty()) {
      emulator.state = State::kNote;
      emulator.detail = "--emulator cannot be used: " + trouble;
      break;
    }
  }
  checks.push_back(std::move(emulator));

  DoctorCheck runtime{.name = "runtime", .detail = "present", .path = paths.runtime};
  if (const std::string trouble = OwnLibraryTrouble(paths.runtime); !trouble.empty()) {
    runtime.state = State::kNote;
    runtime.detail = "--emulator --collectives=preemptive cannot be used: " + trouble;
  }
  checks.push_back(std::move(runtime));

  DoctorCheck front_end{.name = "front end", .detail = "present", .path = paths.python};
  if (access((paths.python + "/gordian_torch/__init__.py").c_str(), R_OK) != 0) {
    front_end.state = State::kNote;
    front_end.detail = "gordian_torch cannot be read: PyTorch's operations have no names";
  }
  checks.push_back(std::move(front_end));
  return checks;
}

std::vector<DoctorCheck> CheckLoaderLibraries() {
  struct Wanted {
    const char* name;
    std::vector<const char*> sonames;
    const char* version_function;
    std::string (*version_text)(int);
    const char* without;
  };
  const Wanted wanted[] = {
      {"libnccl",
       {"libnccl.so.2"},
       "ncclGetVersion",
       NcclVersion,
       "programs that bring their own (PyTorch) still find it"},
      {"libcudart",
       {"libcudart.so.13", "libcudart.so.12"},
       "cudaRuntimeGetVersion",
       CudaVersion,
       "programs that bring their own (PyTorch) still find it"},
      {"libcuda",
       {"libcuda.so.1"},
       "cuDriverGetVersion",
       CudaVersion,
       "no GPU driver: use --emulator"},
  };
  std::vector<DoctorCheck> checks;
  for (const Wanted& library : wanted) {
    DoctorCheck check{.name = library.name, .state = State::kNote};
    for (const char* soname : library.sonames) {
      const LoadedLibrary loaded = Load(soname, library.version_function);
      if (loaded.found) {
        check.state = State::kOk;
        check.path = loaded.path;
        check.detail = library.version_text(loaded.version);
        break;
      }
      if (check.detail.empty() && loaded.why.find("No such file") == std::string::npos) {
        check.detail = loaded.why;
      }
    }
    if (check.state != State::kOk && check.detail.empty()) {
      check.detail = std::string("not found by the loader; ") + library.without;
    }
    const std::string path = check.path;
    checks.push_back(std::move(check));
    if (!path.empty()) {
      checks.push_back(CheckCoverage(library.name + 3, library.name, path));  // without "lib"
    }
  }
  return checks;
}

std::vector<DoctorCheck> CheckMachine() {
  std::vector<DoctorCheck> checks = {CheckSharedMemory(), CheckPtrace(), CheckTsc()};
  checks.push_back({.name = "libdw",
                    .detail = std::string("elfutils ") + dwfl_version(nullptr) +
                              ": call sites become file and line"});
  return checks;
}

std::vector<DoctorCheck> CheckProgram(const std::string& name) {
  const char* search_path = getenv("PATH");
  const Program program = FindProgram(name, search_path != nullptr ? search_path : "/bin:/usr/bin");
  if (program.error != 0) {
    return {{.name = "program",
             .state = State::kFailed,
             .detail = DescribeExecError(name, program.error)}};
  }
  std::vector<DoctorCheck> checks;
  DoctorCheck about{.name = "program", .path = program.path};
  struct stat info {};
  stat(program.path.c_str(), &info);
  const StatusOr<ElfSummary> elf = ReadElf(program.path, {"ncclAllReduce", "ncclCommInitRank"});
  const bool set_id = (info.st_mode & (S_ISUID | S_ISGID)) != 0;
  if (set_id) {
    about.state = State::kFailed;
    about.detail =
        "setuid or setgid: the loader ignores LD_PRELOAD, so gordian sees no calls of it";
  } else if (!elf.ok()) {
    const std::string first = FirstLine(program.path);
    about.detail =
        first.starts_with("#!")
            ? "script of " + first.substr(2) + ": gordian sees the calls of what it starts"
            : "no ELF file: gordian sees the calls of what it starts";
  } else if (elf->interpreter.empty()) {
    about.state = State::kFailed;
    about.detail =
        "statically linked: LD_PRELOAD does not reach it, only the dynamic programs that it starts";
  } else {
    about.detail = "dynamically linked";
    if (!elf->rpath.empty()) {
      about.detail += "; has DT_RPATH " + elf->rpath + ", which comes before LD_LIBRARY_PATH";
    }
  }
  checks.push_back(std::move(about));
  if (elf.ok() && !elf->interpreter.empty()) {
    for (DoctorCheck& check : CheckSources(program.path, *elf)) {
      checks.push_back(std::move(check));
    }
  }
  checks.push_back(CheckCupti(ProcessEnvironment()));
  const char* profiler = getenv("NCCL_PROFILER_PLUGIN");
  for (DoctorCheck& check : CheckOwnProfiler(profiler != nullptr ? profiler : "")) {
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace gordian::cli
