#include "collector/process/thread_roles.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "collector/process/process_memory.h"

namespace gordian::collector {
namespace {

// As in thread_sleep.cc: a deeper stack is none of these threads'.
constexpr size_t kMostStackBytes = 64u << 10;
constexpr size_t kMostFiles = 64;

// What every thread of C++ begins in, the address sanitizer's own beginning among them.
constexpr std::string_view kPlumbing[] = {"libc.so",    "libc-",     "ld-linux", "ld-2.",
                                          "libpthread", "libstdc++", "libgcc_s", "libasan"};

// Functions that a thread begins in, by linkage name, exported or not. With `all` the whole stretch
// from the first to the last exported function whose name begins so: in files without symbols of
// their own the thread's function has no name.
struct Root {
  std::string_view name;
  bool all;
  ThreadRole role;
};
constexpr Root kRoots[] = {
    {"_ZN4gloo9transport3tcp4Loop3runEv", false, ThreadRole::kServes},
    {"_ZN4gloo9transport2uv4libuv4Loop3runEv", false, ThreadRole::kServes},
    {"_ZN4c10d16ProcessGroupGloo7runLoopEi", false, ThreadRole::kOperations},
    {"_ZN4c10d8TCPStore", true, ThreadRole::kServes},
    {"_ZN4c10d6detail20TCPStoreMasterDaemon3runEv", false, ThreadRole::kServes},
    {"_ZN4c10d6detail16LibUVStoreDaemon3runEv", false, ThreadRole::kServes},
    // As PyTorch names them up to 2.7, and since.
    {"_ZN4c10d16ProcessGroupNCCL16ncclCommWatchdogEv", false, ThreadRole::kWatches},
    {"_ZN4c10d16ProcessGroupNCCL16heartbeatMonitorEv", false, ThreadRole::kWatches},
    {"_ZN4c10d16ProcessGroupNCCL8Watchdog3runEv", false, ThreadRole::kWatches},
    {"_ZN4c10d16ProcessGroupNCCL16HeartbeatMonitor7runLoopEv", false, ThreadRole::kWatches},
};

bool IsFile(const PythonFrame& frame, std::string_view file) {
  const std::string_view path = frame.file;
  return path.ends_with(file) && path.size() > file.size() &&
         path[path.size() - file.size() - 1] == '/';
}

std::string_view FileName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsPlumbing(std::string_view path) {
  const std::string_view name = FileName(path);
  return name == "[vdso]" ||
         std::any_of(std::begin(kPlumbing), std::end(kPlumbing),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Only these have such functions: reading the symbols of every library would take long.
bool MayHaveRoots(std::string_view path) {
  const std::string_view name = FileName(path);
  return name.starts_with("libtorch") || name.starts_with("libgloo");
}

const ExecutableMapping* MappingOf(const std::vector<ExecutableMapping>& code, uint64_t address) {
  const auto after = std::upper_bound(
      code.begin(), code.end(), address,
      [](uint64_t wanted, const ExecutableMapping& mapping) { return wanted < mapping.start; });
  if (after == code.begin() || address >= std::prev(after)->end) return nullptr;
  return &*std::prev(after);
}

using Found = std::array<ThreadRoles::Range, std::size(kRoots)>;

void FindRoots(Elf* elf, Elf_Scn* section, Found* found) {
  GElf_Shdr header;
  if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0) return;
  const bool dynamic = header.sh_type == SHT_DYNSYM;
  if (!dynamic && header.sh_type != SHT_SYMTAB) return;
  Elf_Data* const data = elf_getdata(section, nullptr);
  for (size_t i = 0; data != nullptr && i < header.sh_size / header.sh_entsize; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
    if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0) continue;
    const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name == nullptr ||
        (std::strncmp(name, "_ZN4c10d", 8) != 0 && std::strncmp(name, "_ZN4gloo", 8) != 0)) {
      continue;
    }
    for (size_t root = 0; root < std::size(kRoots); ++root) {
      const Root& one = kRoots[root];
      // Among a file's own symbols are the cold parts of functions, which lie far away.
      if (one.all && !dynamic) continue;
      if (one.all ? !std::string_view(name).starts_with(one.name) : name != one.name) continue;
      ThreadRoles::Range& stretch = (*found)[root];
      const bool first = stretch.role == ThreadRole::kUnknown;
      stretch.begin = first ? symbol.st_value : std::min(stretch.begin, symbol.st_value);
      stretch.end = std::max(stretch.end, symbol.st_value + symbol.st_size);
      stretch.role = one.role;
    }
  }
}

}  // namespace

const ThreadRoles::File& ThreadRoles::FileOf(const std::string& path) {
  if (files_.size() >= kMostFiles) files_.clear();
  const auto [found, added] = files_.try_emplace(path);
  if (!added) return found->second;
  File& file = found->second;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return file;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file;
  elf_version(EV_CURRENT);
  if (Elf* const elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr); elf != nullptr) {
    size_t count = 0;
    GElf_Phdr segment;
    for (size_t i = 0; elf_getphdrnum(elf, &count) == 0 && i < count; ++i) {
      if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) break;
      if (segment.p_type != PT_LOAD) continue;
      file.segments.push_back({segment.p_offset, segment.p_vaddr, segment.p_filesz});
    }
    Found found;
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      FindRoots(elf, section, &found);
    }
    for (const Range& range : found) {
      if (range.role != ThreadRole::kUnknown) file.ranges.push_back(range);
    }
    elf_end(elf);
  }
  close(fd);
  return file;
}

ThreadRole ThreadRoles::Of(pid_t pid, uint64_t stack_pointer,
                           const std::vector<ExecutableMapping>& code) {
  std::vector<uint64_t> stack(kMostStackBytes / sizeof(uint64_t));
  ProcessMemory memory(pid);
  const size_t bytes = memory.ReadSome(stack_pointer & ~uint64_t{7}, stack.data(), kMostStackBytes);
  stack.resize(bytes / sizeof(uint64_t));
  // What lies above a stack may be readable, too. Its end is where the thread's own descriptor is
  // (struct pthread of glibc 2.17 to 2.41).
  constexpr size_t kSelf = 2;
  const auto is_descriptor = [&](size_t at) {
    const uint64_t address = (stack_pointer & ~uint64_t{7}) + at * sizeof(uint64_t);
#if defined(__aarch64__)
    // It holds the address of its list of robust mutexes twice, at the list's beginning and before
    // it; behind that stands how far a mutex's word is from its place in such a list.
    const uint64_t list = address + sizeof(uint64_t);
    constexpr int64_t kFarthestWord = 256;
    const auto word = static_cast<int64_t>(stack[at + 2]);
    return stack[at] == list && stack[at + 1] == list && word < 0 && word > -kFarthestWord;
#else
    return stack[at] == address && stack[at + kSelf] == address;  // tcbhead_t: tcb and self
#endif
  };
  size_t end = 0;
  while (end + kSelf < stack.size() && !is_descriptor(end)) ++end;
  if (end + kSelf >= stack.size()) return ThreadRole::kUnknown;
  stack.resize(end);
  // Below the descriptor are the thread-local variables, which may hold addresses of functions. The
  // first frame is in the C library.
  bool started = false;
  // std::thread may begin in a function of its own in the same file.
  bool begun = false;
  for (auto word = stack.rbegin(); word != stack.rend(); ++word) {
    const ExecutableMapping* const mapping = MappingOf(code, *word);
    if (mapping == nullptr || !memory.FollowsCall(*word)) continue;
    const bool plumbing = IsPlumbing(mapping->path);
    started |= plumbing;
    if (plumbing || !started) continue;
    if (!MayHaveRoots(mapping->path)) return ThreadRole::kUnknown;
    const File& file = FileOf(mapping->path);
    const uint64_t offset = *word - mapping->start + mapping->file_offset;
    for (const Segment& segment : file.segments) {
      if (offset < segment.offset || offset - segment.offset >= segment.bytes) continue;
      const uint64_t address = offset - segment.offset + segment.address;
      for (const Range& range : file.ranges) {
        if (address > range.begin && address <= range.end) return range.role;
      }
    }
    if (std::exchange(begun, true)) return ThreadRole::kUnknown;
  }
  return ThreadRole::kUnknown;
}

bool IsIdleMonitor(const std::vector<PythonFrame>& frames) {
  struct Expected {
    std::string_view file, function;
  };
  constexpr Expected kIdle[] = {{"threading.py", "Condition.wait"},
                                {"threading.py", "Event.wait"},
                                {"tqdm/_monitor.py", "TMonitor.run"},
                                {"threading.py", "Thread._bootstrap_inner"},
                                {"threading.py", "Thread._bootstrap"}};
  return std::equal(frames.begin(), frames.end(), std::begin(kIdle), std::end(kIdle),
                    [](const PythonFrame& frame, const Expected& expected) {
                      return frame.function == expected.function && IsFile(frame, expected.file);
                    });
}

}  // namespace gordian::collector
