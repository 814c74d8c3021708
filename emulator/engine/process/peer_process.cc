#include "emulator/engine/process/peer_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gordian::emu {
namespace {

// The start of the field that is `fields` after the one at `p`; null past the end.
const char* Skip(const char* p, int fields) {
  for (; fields > 0 && p != nullptr; --fields) {
    p = std::strchr(p, ' ');
    if (p != nullptr) ++p;
  }
  return p;
}

}  // namespace

uint64_t StartTimeOf(int pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  // Field 2 is the name in parentheses and may hold anything; the state is field 3.
  const char* const state = Skip(std::strrchr(text, ')'), 1);
  const char* const threads = Skip(state, 20 - 3);
  const char* const start = Skip(threads, 22 - 20);
  if (start == nullptr || *state == 'X') return 0;
  // A zombie counts as one of its process's threads until its parent has waited for it.
  if (*state == 'Z' && std::strtol(threads, nullptr, 10) <= 1) return 0;
  return std::strtoull(start, nullptr, 10);
}

int OpenDescriptorOf(int pid, int fd) {
  char path[96];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
  int opened = open(path, O_RDWR | O_CLOEXEC);
  if (opened >= 0) return opened;
  std::snprintf(path, sizeof(path), "/proc/%d/task", pid);
  DIR* const threads = opendir(path);
  if (threads == nullptr) return opened;
  while (const dirent* entry = readdir(threads)) {
    if (opened >= 0) break;
    if (entry->d_name[0] == '.') continue;
    std::snprintf(path, sizeof(path), "/proc/%d/task/%.20s/fd/%d", pid, entry->d_name, fd);
    opened = open(path, O_RDWR | O_CLOEXEC);
  }
  closedir(threads);
  return opened;
}

uint64_t PidNamespace() {
  struct stat about = {};
  return stat("/proc/thread-self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

}  // namespace gordian::emu
