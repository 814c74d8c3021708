#include "cli/doctor/program_sources.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/job/emulator_check.h"
#include "cli/job/job_environment.h"

namespace gordian::cli {
namespace {

using State = DoctorCheck::State;

constexpr int kOldestProfiler = 4;  // the oldest interface version that the shim offers
constexpr int kNewestProfiler = 7;

// Maps a file's bytes while it lives; maps nothing if the file cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      void* base = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (base != MAP_FAILED) {
        bytes_ = {static_cast<const char*>(base), static_cast<size_t>(info.st_size)};
      }
    }
    if (fd >= 0) {
      close(fd);
    }
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (!bytes_.empty()) {
      munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    }
  }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string NeededOf(const ElfSummary& elf, std::string_view prefix) {
  const auto found =
      std::find_if(elf.needed.begin(), elf.needed.end(),
                   [&](const std::string& name) { return name.starts_with(prefix); });
  return found == elf.needed.end() ? "" : *found;
}

const std::vector<std::string>& NcclSymbols() {
  static const std::vector<std::string> symbols = {"ncclAllReduce", "ncclCommInitRank"};
  return symbols;
}

// How one file has NCCL: linked to it, part of it, or not at all.
std::optional<DoctorCheck> NcclOf(const std::string& path, const ElfSummary& elf,
                                  const std::string& inside) {
  DoctorCheck check{.name = "program's NCCL", .path = path};
  if (const std::string needed = NeededOf(elf, "libnccl.so"); !needed.empty()) {
    check.detail = fmt::format("linked dynamically ({}){}: gordian sees its calls", needed, inside);
    return check;
  }
  const NcclInside nccl = FindNcclInside(MappedFile(path).bytes());
  if (elf.defined.empty() && nccl.version.empty()) {
    return std::nullopt;
  }
  const std::string what = nccl.version.empty() ? "NCCL" : "NCCL " + nccl.version;
  check.state = State::kNote;
  check.detail =
      fmt::format("{} linked statically{}: the shim cannot intercept its calls", what, inside);
  if (nccl.profiler_version >= kOldestProfiler) {
    const int version = std::min(nccl.profiler_version, kNewestProfiler);
    check.detail += fmt::format(
        "; gordian run --nccl-profiler sees its operations (profiler interface {}{}), but not the "
        "creation of communicators",
        version, version == 4 ? ", without their streams" : "");
  } else if (!nccl.version.empty()) {
    check.detail += "; it is too old for --nccl-profiler, which begins with NCCL 2.27";
  } else {
    check.detail += "; gordian run --nccl-profiler sees its operations if it is 2.27 or newer";
  }
  return check;
}

DoctorCheck NoNccl(const ElfSummary& elf) {
  DoctorCheck check{.name = "program's NCCL"};
  check.detail =
      elf.has_symbols
          ? "not linked; if the program loads it later (dlopen, Python), gordian sees its calls"
          : "not linked, and the stripped program holds no sign of it; if the program loads it "
            "later, gordian "
            "sees its calls";
  return check;
}

DoctorCheck RuntimeOf(const std::string& path, const ElfSummary& elf) {
  DoctorCheck check{.name = "program's CUDA runtime"};
  const std::string needed = NeededOf(elf, "libcudart.so");
  if (!needed.empty()) {
    check.detail = "linked dynamically (" + needed + "): gordian sees its calls";
  } else if (HasStaticCudaRuntime(path)) {
    check.state = State::kNote;
    check.detail =
        "linked statically: gordian sees the driver calls that it looks up (as cudart 13.0 does)"
        "13.0); where an older one "
        "comes by them in other ways, gordian run --cupti sees host waits, events and launches";
  } else if (!elf.has_symbols) {
    check.state = State::kNote;
    check.detail =
        "not linked dynamically; the program is stripped, so it may hold a static copy. "
        "If the program loads it later, gordian sees its calls";
  } else {
    check.detail =
        "not linked; if the program loads it later (dlopen, Python), gordian sees its calls";
  }
  return check;
}

}  // namespace

NcclInside FindNcclInside(std::string_view bytes) {
  NcclInside found;
  constexpr std::string_view kVersion = "NCCL version ";
  for (size_t at = bytes.find(kVersion); at != std::string_view::npos && found.version.empty();
       at = bytes.find(kVersion, at + 1)) {
    // Other libraries print "NCCL version" too, without the part of "NCCL version 2.28.9+cuda13.0"
    // after the +.
    const std::string_view rest = bytes.substr(at + kVersion.size(), 48);
    const auto end = std::find_if_not(rest.begin(), rest.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    });
    const std::string_view version = rest.substr(0, static_cast<size_t>(end - rest.begin()));
    if (!version.empty() && rest.substr(version.size()).starts_with("+cuda")) {
      found.version = version;
    }
  }
  constexpr std::string_view kTable = "ncclProfiler_v";
  for (size_t at = bytes.find(kTable); at != std::string_view::npos;
       at = bytes.find(kTable, at + 1)) {
    const std::string_view rest = bytes.substr(at + kTable.size(), 2);
    if (rest.size() == 2 && rest[0] >= '1' && rest[0] <= '9' && rest[1] == '\0') {
      found.profiler_version = std::max(found.profiler_version, rest[0] - '0');
    }
  }
  return found;
}

std::vector<DoctorCheck> CheckSources(const std::string& program, const ElfSummary& elf) {
  std::vector<DoctorCheck> checks;
  if (auto check = NcclOf(program, elf, "")) {
    checks.push_back(std::move(*check));
  }
  for (const std::string& path : LibrariesAtLoad(program, FullEnvironment({}))) {
    if (IsReplacedLibrary(path)) {
      continue;  // NCCL itself
    }
    const StatusOr<ElfSummary> library = ReadElf(path, NcclSymbols());
    if (!library.ok()) {
      continue;
    }
    if (auto check = NcclOf(path, *library, " into " + FileName(path))) {
      checks.push_back(std::move(*check));
    }
  }
  if (checks.empty()) {
    checks.push_back(NoNccl(elf));
  }
  checks.push_back(RuntimeOf(program, elf));
  return checks;
}

DoctorCheck CheckCupti(const Environment& environment) {
  DoctorCheck check{.name = "CUPTI"};
  if (const auto given = environment("GORDIAN_CUPTI_LIBRARY"); given && !given->empty()) {
    check.path = *given;
    if (access(given->c_str(), R_OK) != 0) {
      check.state = State::kNote;
      check.detail = "GORDIAN_CUPTI_LIBRARY names a file that cannot be read";
      return check;
    }
  } else {
    check.path = FindCupti(environment);
  }
  const std::string other = OtherInjection(FindInstallPaths(), environment);
  if (!other.empty()) {
    check.state = State::kNote;
    check.detail =
        "CUDA_INJECTION64_PATH names " + other +
        ": the driver opens that one, so gordian ignores --cupti; unset it to use --cupti";
  } else if (check.path.empty()) {
    check.detail =
        "in no usual place; --cupti needs it where the loader finds libcupti.so.13, or named by "
        "GORDIAN_CUPTI_LIBRARY";
  } else {
    check.detail =
        "with --cupti it reports the driver's calls, unless another tool (Nsight, torch.profiler) "
        "uses it";
  }
  return check;
}

std::vector<DoctorCheck> CheckOwnProfiler(const std::string& plugin) {
  if (plugin.empty() || plugin == "none") {
    return {};
  }
  DoctorCheck check{.name = "own profiler plugin", .path = plugin};
  if (plugin.find('/') == std::string::npos) {
    check.detail = "NCCL_PROFILER_PLUGIN; with --nccl-profiler gordian's plugin calls it";
    return {check};
  }
  std::string lacks;
  const NcclInside names = FindNcclInside(MappedFile(plugin).bytes());
  if (names.profiler_version == 0) {
    check.state = State::kNote;
    check.detail = "NCCL_PROFILER_PLUGIN names a file that is no profiler plugin";
    return {check};
  }
  for (int version = kOldestProfiler; version <= kNewestProfiler; ++version) {
    const std::string name = fmt::format("ncclProfiler_v{}", version);
    if (MappedFile(plugin).bytes().find(std::string_view(name.c_str(), name.size() + 1)) ==
        std::string_view::npos) {
      lacks += (lacks.empty() ? "" : ", ") + std::to_string(version);
    }
  }
  check.detail = "with --nccl-profiler gordian's plugin calls it";
  if (!lacks.empty()) {
    check.state = State::kNote;
    check.detail += ", but not by an NCCL that asks for version " + lacks + ", which it lacks";
  }
  return {check};
}

}  // namespace gordian::cli
