#include "cli/ring_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "collector/process_watch.h"
#include "collector/salvage.h"
#include "proto/ring/layout.h"

namespace gordian::cli {
namespace {

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) {
    return names;
  }
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  closedir(dir);
  return names;
}

}  // namespace

StatusOr<std::string> CreateRingFolder(const std::string& base) {
  std::string path = base + "/gordian-" + std::to_string(getuid()) + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {  // mode 0700
    return Status::FromErrno(errno, "cannot make a folder for rings in " + base);
  }
  return path;
}

bool ParseRingFileName(std::string_view name, ProcessKey* process) {
  const std::optional<collector::RingName> ring = collector::ParseRingName(name);
  if (!ring) {
    return false;
  }
  *process = {.pid = ring->identity.pid, .start = ring->identity.start};
  return true;
}

std::vector<RingFileEntry> ListRings(const std::string& folder) {
  std::vector<RingFileEntry> rings;
  for (const std::string& name : Names(folder)) {
    RingFileEntry entry{.name = name};
    if (ParseRingFileName(name, &entry.process)) {
      rings.push_back(entry);
    }
  }
  return rings;
}

std::vector<ProcessKey> LivingRingProcesses(const std::string& folder) {
  std::vector<ProcessKey> living;
  for (const RingFileEntry& ring : ListRings(folder)) {
    if (IsAlive(ring.process)) {
      living.push_back(ring.process);
    }
  }
  return living;
}

size_t SweepRings(const std::string& folder, const std::string& session_dir) {
  std::optional<collector::RingKeeper> keeper;
  size_t living = 0;
  for (const RingFileEntry& ring : ListRings(folder)) {
    if (IsAlive(ring.process)) {
      ++living;
      continue;
    }
    if (!keeper) {
      keeper.emplace(folder, session_dir);
    }
    if (const Status status = keeper->Keep(ring.name); !status.ok()) {
      spdlog::warn("{}", status.message());
    }
  }
  return living;
}

std::vector<SavedRing> SavedRings(const std::string& rings_folder) {
  std::vector<SavedRing> rings;
  for (const RingFileEntry& entry : ListRings(rings_folder)) {
    const int fd = open((rings_folder + "/" + entry.name).c_str(),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
      continue;
    }
    ring::Header header{};
    const bool whole = read(fd, &header, sizeof header) == static_cast<ssize_t>(sizeof header);
    close(fd);
    if (whole && header.magic == ring::kRingMagic) {
      rings.push_back(
          {.pid = entry.process.pid, .rank = header.env_rank, .local_rank = header.env_local_rank});
    }
  }
  std::sort(rings.begin(), rings.end(), [](const SavedRing& a, const SavedRing& b) {
    return std::tie(a.rank, a.pid) < std::tie(b.rank, b.pid);
  });
  return rings;
}

void RemoveRingFolder(const std::string& folder) {
  const size_t slash = folder.rfind('/');
  if (slash == std::string::npos || folder.compare(slash + 1, 8, "gordian-") != 0) {
    return;
  }
  for (const std::string& name : Names(folder)) {
    unlink((folder + "/" + name).c_str());
  }
  rmdir(folder.c_str());
}

}  // namespace gordian::cli
