#include "cli/job/emulator_check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "cli/job/elf_file.h"

namespace gordian::cli {
namespace {

constexpr std::chrono::seconds kLoaderLimit{5};

std::string ReadUntilEnd(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  char buffer[16384];
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count())) == 0) {
      return text;
    }
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return text;
    }
    text.append(buffer, static_cast<size_t>(n));
  }
}

template <typename Function>
void ForEachLine(std::string_view text, const Function& function) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    function(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void AddForeign(std::string_view path, std::string_view emulator_dir,
                std::vector<std::string>* out) {
  const bool ours = path.size() > emulator_dir.size() && path.starts_with(emulator_dir) &&
                    path[emulator_dir.size()] == '/';
  if (IsReplacedLibrary(path) && !ours && std::find(out->begin(), out->end(), path) == out->end()) {
    out->emplace_back(path);
  }
}

}  // namespace

bool IsReplacedLibrary(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libcudart.so") || name.starts_with("libnccl.so") ||
         name.starts_with("libcuda.so");
}

std::vector<std::string> ForeignLibraries(std::string_view maps, std::string_view emulator_dir) {
  std::vector<std::string> out;
  ForEachLine(maps, [&](std::string_view line) {
    const size_t slash = line.find('/');
    if (slash == std::string_view::npos) {
      return;
    }
    std::string_view path = line.substr(slash);
    if (path.ends_with(" (deleted)")) {
      path.remove_suffix(10);
    }
    AddForeign(path, emulator_dir, &out);
  });
  return out;
}

std::vector<std::string> ForeignLibrariesOf(pid_t pid, const std::string& emulator_dir) {
  const int fd = open(("/proc/" + std::to_string(pid) + "/maps").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return {};
  }
  std::string maps;
  char buffer[65536];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) {
    maps.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return ForeignLibraries(maps, emulator_dir);
}

std::vector<std::string> LibrariesAtLoad(const std::string& program,
                                         const std::vector<std::string>& environment) {
  const StatusOr<ElfSummary> elf = ReadElf(program);
  if (!elf.ok() || elf->interpreter.empty()) {
    return {};
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return {};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> argv = {elf->interpreter, "--list", program};
  std::vector<char*> argv_pointers, environment_pointers;
  for (std::string& word : argv) {
    argv_pointers.push_back(word.data());
  }
  argv_pointers.push_back(nullptr);
  for (const std::string& entry : environment) {
    if (!entry.starts_with("LD_PRELOAD=")) {
      environment_pointers.push_back(const_cast<char*>(entry.c_str()));
    }
  }
  environment_pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, elf->interpreter.c_str(), &actions, nullptr,
                                argv_pointers.data(), environment_pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::vector<std::string> out;
  if (error == 0) {
    const std::string text = ReadUntilEnd(ends[0], std::chrono::steady_clock::now() + kLoaderLimit);
    kill(pid, SIGKILL);  // it has closed its output, or will not within our patience
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    // "\tlibnccl.so.2 => /usr/lib/libnccl.so.2 (0x00007f...)"
    ForEachLine(text, [&](std::string_view line) {
      const size_t arrow = line.find(" => /");
      const size_t end = line.rfind(" (0x");
      if (arrow != std::string_view::npos && end != std::string_view::npos && end > arrow + 4) {
        out.emplace_back(line.substr(arrow + 4, end - arrow - 4));
      }
    });
  }
  close(ends[0]);
  return out;
}

std::vector<std::string> ForeignLibrariesAtLoad(const std::string& program,
                                                const std::vector<std::string>& environment,
                                                const std::string& emulator_dir) {
  std::vector<std::string> out;
  for (const std::string& path : LibrariesAtLoad(program, environment)) {
    AddForeign(path, emulator_dir, &out);
  }
  return out;
}

bool HasStaticCudaRuntime(const std::string& program) {
  // Linking the archive brings all of these at once; a program that replaces single functions has
  // only some.
  const std::vector<std::string> telling = {"__cudaRegisterFatBinary", "cudaGetExportTable",
                                            "cudaMalloc"};
  const StatusOr<ElfSummary> elf = ReadElf(program, telling);
  if (!elf.ok()) {
    return false;
  }
  const bool linked = std::any_of(elf->needed.begin(), elf->needed.end(), [](const auto& name) {
    return name.starts_with("libcudart.so");
  });
  if (linked) {
    return false;
  }
  if (elf->has_symbols) {
    return elf->defined.size() == telling.size();
  }
  // The program is stripped. A program with kernels registers them, through a library or through a
  // runtime of its own.
  return elf->has_device_code && std::find(elf->undefined.begin(), elf->undefined.end(),
                                           telling[0]) == elf->undefined.end();
}

}  // namespace gordian::cli
