#include "cli/job/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace gordian::cli {

std::optional<ProcessStat> ReadProcessStat(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return std::nullopt;
  }
  char text[2048];
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) {
    return std::nullopt;
  }
  text[n] = '\0';
  // The name is in parentheses and may hold any character, parentheses included.
  const char* after_name = strrchr(text, ')');
  if (after_name == nullptr) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.key.pid = pid;
  int parent = 0;
  unsigned long long start = 0;
  if (sscanf(after_name + 1,
             " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
             &stat.state, &parent, &stat.threads, &start) != 4) {
    return std::nullopt;
  }
  stat.parent = parent;
  stat.key.start = start;
  return stat;
}

bool IsAlive(const ProcessKey& key) {
  const std::optional<ProcessStat> stat = ReadProcessStat(key.pid);
  return stat && stat->key.start == key.start && stat->alive();
}

std::vector<ProcessKey> Descendants(pid_t root, const std::vector<pid_t>& spared) {
  std::unordered_map<pid_t, ProcessStat> all;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) {
    return {};
  }
  while (const dirent* entry = readdir(proc)) {
    const std::string_view name = entry->d_name;
    int pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size() || pid <= 0) {
      continue;
    }
    if (std::optional<ProcessStat> stat = ReadProcessStat(pid)) {
      all.emplace(pid, *stat);
    }
  }
  closedir(proc);

  std::vector<ProcessKey> below;
  for (const auto& [pid, stat] : all) {
    if (!stat.alive() || pid == root) {
      continue;
    }
    // Walks up to the root. The bound guards against a /proc that changes while it is read.
    pid_t at = pid;
    for (size_t steps = 0; steps < all.size(); ++steps) {
      if (std::find(spared.begin(), spared.end(), at) != spared.end()) {
        break;
      }
      if (at == root) {
        below.push_back(stat.key);
        break;
      }
      const auto up = all.find(at);
      if (up == all.end()) {
        break;
      }
      at = up->second.parent;
    }
  }
  std::sort(below.begin(), below.end());
  return below;
}

size_t KillUntilGone(const std::function<std::vector<ProcessKey>()>& find,
                     const std::function<void()>& between, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const std::vector<ProcessKey> found = find();
    if (found.empty()) {
      return 0;
    }
    for (const ProcessKey& key : found) {
      if (IsAlive(key)) {
        kill(key.pid, SIGKILL);
      }
    }
    between();
    if (std::chrono::steady_clock::now() >= deadline) {
      return find().size();
    }
    // The kernel takes a moment to end a process, and one can wait only for one's own children.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace gordian::cli
