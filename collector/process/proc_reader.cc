#include "collector/process/proc_reader.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <iterator>

namespace gordian::collector {
namespace {

constexpr size_t kMaxProcFileBytes = 4u << 20;
constexpr size_t kMaxCommandLineBytes = 4096;

// Reads a small file at once; returns an empty view if there is none.
template <size_t kBytes>
std::string_view ReadSmall(int dir, const char* name, std::array<char, kBytes>* buffer) {
  const int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return {};
  }
  ssize_t n;
  do {
    n = read(fd, buffer->data(), buffer->size());
  } while (n < 0 && errno == EINTR);
  close(fd);
  return n > 0 ? std::string_view(buffer->data(), static_cast<size_t>(n)) : std::string_view();
}

std::string ReadWhole(const std::string& path, size_t limit) {
  std::string out;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return out;
  }
  char block[16384];
  while (out.size() < limit) {
    const ssize_t n = read(fd, block, std::min(sizeof(block), limit - out.size()));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    out.append(block, static_cast<size_t>(n));
  }
  close(fd);
  return out;
}

// Takes the next word off the front.
std::string_view NextWord(std::string_view* text) {
  const size_t begin = text->find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) {
    *text = {};
    return {};
  }
  const size_t end = std::min(text->find_first_of(" \t\n", begin), text->size());
  const std::string_view word = text->substr(begin, end - begin);
  text->remove_prefix(end);
  return word;
}

template <typename Number>
bool ToNumber(std::string_view word, Number* out, int base = 10) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out, base);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

std::string ProcPath(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

}  // namespace

std::optional<TaskStat> ParseTaskStat(std::string_view line) {
  // "pid (comm) S ...": comm may hold anything, ')' and newlines included, so the last ')' counts.
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  TaskStat out;
  out.name = line.substr(open + 1, close - open - 1);
  std::string_view rest = line.substr(close + 1);
  const std::string_view state = NextWord(&rest);
  if (state.size() != 1 || std::isalpha(static_cast<unsigned char>(state[0])) == 0) {
    return std::nullopt;
  }
  out.state = state[0];
  uint64_t utime = 0, stime = 0;
  // Fields are numbered as in proc(5); the state was field 3.
  for (int field = 4; field <= 52; ++field) {
    const std::string_view word = NextWord(&rest);
    bool fine = true;
    if (field == 14) {
      fine = ToNumber(word, &utime);
    } else if (field == 15) {
      fine = ToNumber(word, &stime);
    } else if (field == 20) {
      fine = ToNumber(word, &out.threads);
    } else if (field == 22) {
      fine = ToNumber(word, &out.start);
    } else if (field == 52 && !word.empty()) {
      fine = ToNumber(word, &out.exit_status);
    }
    if (!fine) {
      return std::nullopt;
    }
  }
  out.cpu_ticks = utime + stime;
  return out;
}

std::optional<TaskStat> ReadProcessStat(pid_t pid) {
  std::array<char, 2048> buffer;
  const std::string_view text = ReadSmall(AT_FDCWD, ProcPath(pid, "stat").c_str(), &buffer);
  return text.empty() ? std::nullopt : ParseTaskStat(text);
}

std::optional<TaskStat> ReadTaskStat(pid_t pid, pid_t tid) {
  std::array<char, 2048> buffer;
  const std::string path = ProcPath(pid, "task/") + std::to_string(tid) + "/stat";
  const std::string_view text = ReadSmall(AT_FDCWD, path.c_str(), &buffer);
  return text.empty() ? std::nullopt : ParseTaskStat(text);
}

std::vector<TaskState> ReadTasks(pid_t pid) {
  std::vector<TaskState> out;
  DIR* const dir = opendir(ProcPath(pid, "task").c_str());
  if (dir == nullptr) {
    return out;
  }
  std::array<char, 2048> buffer;
  while (const dirent* entry = readdir(dir)) {
    TaskState task;
    const std::string_view name(entry->d_name);
    if (!ToNumber(name, &task.tid)) {
      continue;
    }
    const std::string base(name);
    const std::string_view line = ReadSmall(dirfd(dir), (base + "/stat").c_str(), &buffer);
    std::optional<TaskStat> stat = line.empty() ? std::nullopt : ParseTaskStat(line);
    if (!stat) {
      continue;  // the thread has just ended
    }
    task.stat = *std::move(stat);
    // "run_ns wait_ns timeslices" costs half of "status", for which the kernel formats forty lines.
    std::string_view schedule = ReadSmall(dirfd(dir), (base + "/schedstat").c_str(), &buffer);
    NextWord(&schedule);
    NextWord(&schedule);
    if (!ToNumber(NextWord(&schedule), &task.context_switches)) {
      task.context_switches = 0;
    }
    if (task.context_switches == 0) {  // this kernel lacks schedstat
      std::string_view status = ReadSmall(dirfd(dir), (base + "/status").c_str(), &buffer);
      for (std::string_view key : {"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"}) {
        const size_t at = status.find(key);
        uint64_t count = 0;
        if (at != std::string_view::npos) {
          std::string_view value = status.substr(at + key.size());
          if (ToNumber(NextWord(&value), &count)) {
            task.context_switches += count;
          }
        }
      }
    }
    out.push_back(std::move(task));
  }
  closedir(dir);
  return out;
}

std::optional<SystemCall> ParseSystemCall(std::string_view line) {
  std::array<std::string_view, 9> words;
  size_t count = 0;
  while (!line.empty() && count < words.size()) {
    const size_t end = std::min(line.find_first_of(" \n"), line.size());
    if (end > 0) words[count++] = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  if (count != words.size()) return std::nullopt;  // "running", or "-1 STACK PC"
  SystemCall call;
  if (!ToNumber(words[0], &call.number) || call.number < 0) return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i) {
    uint64_t value = 0;
    if (!words[i].starts_with("0x") || !ToNumber(words[i].substr(2), &value, 16)) {
      return std::nullopt;
    }
    if (i <= 6) call.arguments[i - 1] = value;
    if (i == 7) call.stack_pointer = value;
  }
  return call;
}

std::optional<SystemCall> ReadSystemCall(pid_t pid, pid_t tid) {
  std::array<char, 256> buffer;
  const std::string path = ProcPath(pid, "task/") + std::to_string(tid) + "/syscall";
  return ParseSystemCall(ReadSmall(AT_FDCWD, path.c_str(), &buffer));
}

bool HandlesTimerSignals(pid_t pid) {
  std::array<char, 4096> buffer;
  std::string_view status = ReadSmall(AT_FDCWD, ProcPath(pid, "status").c_str(), &buffer);
  static constexpr std::string_view kKey = "\nSigCgt:";
  const size_t at = status.find(kKey);
  if (at == std::string_view::npos) return false;
  status.remove_prefix(at + kKey.size());
  uint64_t handled = 0;
  ToNumber(NextWord(&status), &handled, 16);
  const auto bit = [](int signal) { return uint64_t{1} << (signal - 1); };
  return (handled & (bit(SIGALRM) | bit(SIGVTALRM) | bit(SIGPROF))) != 0;
}

namespace {

std::vector<ExecutableMapping> ParseCode(std::string_view maps) {
  static constexpr std::string_view kDeleted = " (deleted)";
  std::vector<ExecutableMapping> out;
  while (!maps.empty()) {
    const size_t end = std::min(maps.find('\n'), maps.size());
    std::string_view line = maps.substr(0, end);
    maps.remove_prefix(std::min(end + 1, maps.size()));
    ExecutableMapping mapping;
    const std::string_view range = NextWord(&line);
    const std::string_view permissions = NextWord(&line);
    const std::string_view offset = NextWord(&line);
    NextWord(&line);  // device
    NextWord(&line);  // inode
    const size_t dash = range.find('-');
    const size_t path = line.find_first_not_of(' ');
    if (dash == std::string_view::npos || permissions.size() < 3 || permissions[2] != 'x' ||
        !ToNumber(range.substr(0, dash), &mapping.start, 16) ||
        !ToNumber(range.substr(dash + 1), &mapping.end, 16) ||
        !ToNumber(offset, &mapping.file_offset, 16)) {
      continue;
    }
    std::string_view name = path == std::string_view::npos ? "" : line.substr(path);
    if (name.ends_with(kDeleted)) {
      name.remove_suffix(kDeleted.size());
    }
    mapping.path = name;
    out.push_back(std::move(mapping));
  }
  return out;
}

}  // namespace

std::vector<ExecutableMapping> ParseMaps(std::string_view maps) {
  std::vector<ExecutableMapping> files = ParseCode(maps);
  std::erase_if(files, [](const auto& mapping) { return !mapping.path.starts_with('/'); });
  return files;
}

std::vector<ExecutableMapping> ReadMaps(pid_t pid) {
  return ParseMaps(ReadWhole(ProcPath(pid, "maps"), kMaxProcFileBytes));
}

std::vector<ExecutableMapping> ReadCode(pid_t pid) {
  return ParseCode(ReadWhole(ProcPath(pid, "maps"), kMaxProcFileBytes));
}

std::string ReadExecutable(pid_t pid) {
  char target[PATH_MAX];
  const ssize_t n = readlink(ProcPath(pid, "exe").c_str(), target, sizeof(target));
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : std::string();
}

std::string ReadCommandLine(pid_t pid) {
  std::string text = ReadWhole(ProcPath(pid, "cmdline"), kMaxCommandLineBytes);
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

std::optional<std::string> ReadEnvironmentVariable(pid_t pid, std::string_view name) {
  const std::string block = ReadWhole(ProcPath(pid, "environ"), kMaxProcFileBytes);
  for (size_t at = 0; at < block.size();) {
    const size_t end = std::min(block.find('\0', at), block.size());
    const std::string_view entry = std::string_view(block).substr(at, end - at);
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return std::string(entry.substr(name.size() + 1));
    }
    at = end + 1;
  }
  return std::nullopt;
}

RankName ReadRankName(pid_t pid) {
  // In the order in which the shim looks for its rank.
  static constexpr std::string_view kRank[] = {
      "RANK",        "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
      "PMI_RANK",    "MV2_COMM_WORLD_RANK",  "JSM_NAMESPACE_RANK",
      "SLURM_PROCID"};
  RankName name{.meets_at = ""};
  size_t found = std::size(kRank);
  const std::string block = ReadWhole(ProcPath(pid, "environ"), kMaxProcFileBytes);
  for (size_t at = 0; at < block.size();) {
    const size_t end = std::min(block.find('\0', at), block.size());
    const std::string_view entry = std::string_view(block).substr(at, end - at);
    at = end + 1;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view variable = entry.substr(0, equals), value = entry.substr(equals + 1);
    if (variable == "GORDIAN_RING_DIR") name.ring_dir = value;
    if (variable == "MASTER_ADDR" || variable == "MASTER_PORT") {
      name.meets_at->append(entry) += ' ';
    }
    const size_t which = static_cast<size_t>(
        std::find(std::begin(kRank), std::end(kRank), variable) - std::begin(kRank));
    if (which < found) {
      found = which;
      name.rank = value;
    }
  }
  return name;
}

namespace {

// Threads of the kernel have no environment either, and no program.
bool IsBare(pid_t pid) {
  char program[1];
  return ReadWhole(ProcPath(pid, "environ"), 1).empty() &&
         readlink(ProcPath(pid, "exe").c_str(), program, sizeof program) > 0;
}

}  // namespace

SameRank FindByRankName(const RankName& name) {
  SameRank out;
  if (name.rank.empty() || name.ring_dir.empty()) return out;
  DIR* const dir = opendir("/proc");
  if (dir == nullptr) return out;
  while (const dirent* entry = readdir(dir)) {
    pid_t pid = 0;
    if (!ToNumber(std::string_view(entry->d_name), &pid)) continue;
    const RankName other = ReadRankName(pid);
    if (other.ring_dir != name.ring_dir || other.rank != name.rank ||
        (name.meets_at && other.meets_at != name.meets_at)) {
      if (other.ring_dir.empty() && IsBare(pid)) out.bare.push_back(pid);
      continue;
    }
    const std::optional<TaskStat> stat = ReadProcessStat(pid);
    if (stat && stat->alive()) out.pids.push_back(pid);
  }
  closedir(dir);
  return out;
}

std::vector<std::string> ReadSettings(pid_t pid) {
  static constexpr size_t kMostSettings = 64;
  static constexpr size_t kMostBytes = 256;
  const std::string block = ReadWhole(ProcPath(pid, "environ"), kMaxProcFileBytes);
  std::vector<std::string> settings;
  for (size_t at = 0; at < block.size() && settings.size() < kMostSettings;) {
    const size_t end = std::min(block.find('\0', at), block.size());
    const std::string_view entry = std::string_view(block).substr(at, end - at);
    if ((entry.starts_with("NCCL_") || entry.starts_with("CUDA_")) && entry.size() <= kMostBytes &&
        entry.find('=') != std::string_view::npos) {
      settings.emplace_back(entry);
    }
    at = end + 1;
  }
  std::sort(settings.begin(), settings.end());
  return settings;
}

std::string ReadBuildId(const std::string& path) {
  static constexpr size_t kMaxNoteBytes = 64u << 10;
  // NONBLOCK and the check of the type: the path comes from another process and may be a device.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return {};
  }
  std::string out;
  Elf64_Ehdr elf;
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      pread(fd, &elf, sizeof(elf), 0) == static_cast<ssize_t>(sizeof(elf)) &&
      std::memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_ident[EI_CLASS] == ELFCLASS64 &&
      elf.e_phentsize == sizeof(Elf64_Phdr)) {
    for (int i = 0; i < elf.e_phnum && i < 64 && out.empty(); ++i) {
      Elf64_Phdr segment;
      if (pread(fd, &segment, sizeof(segment),
                static_cast<off_t>(elf.e_phoff + i * sizeof(segment))) !=
          static_cast<ssize_t>(sizeof(segment))) {
        break;
      }
      if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) {
        continue;
      }
      std::string notes(segment.p_filesz, '\0');
      if (pread(fd, notes.data(), notes.size(), static_cast<off_t>(segment.p_offset)) !=
          static_cast<ssize_t>(notes.size())) {
        continue;
      }
      const auto padded = [](uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; };
      for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
        Elf64_Nhdr note;
        std::memcpy(&note, notes.data() + at, sizeof(note));
        const size_t name = at + sizeof(note);
        const uint64_t contents = name + padded(note.n_namesz);
        if (contents + padded(note.n_descsz) > notes.size()) {
          break;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            std::memcmp(notes.data() + name, "GNU", 4) == 0) {
          static constexpr char kHex[] = "0123456789abcdef";
          for (uint64_t k = 0; k < note.n_descsz; ++k) {
            const auto byte = static_cast<unsigned char>(notes[contents + k]);
            out += kHex[byte >> 4];
            out += kHex[byte & 15];
          }
          break;
        }
        at = contents + padded(note.n_descsz);
      }
    }
  }
  close(fd);
  return out;
}

}  // namespace gordian::collector
