#include "cli/job/ring_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "collector/process/process_watch.h"
#include "collector/rings/salvage.h"
#include "proto/ring/layout.h"

namespace gordian::cli {
namespace {

std::vector<RingFileEntry> Rings(const std::vector<std::string>& names) {
  std::vector<RingFileEntry> rings;
  for (const std::string& name : names) {
    RingFileEntry entry{.name = name};
    if (ParseRingFileName(name, &entry.process)) {
      rings.push_back(entry);
    }
  }
  return rings;
}

std::string Prefix() { return "gordian-" + std::to_string(getuid()) + "-"; }

constexpr char kNote[] = ".session";  // in a ring folder: the session's absolute path

bool ReadNote(const OwnedFolder& folder, std::string* session) {
  const int fd = folder.OpenFile(kNote, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return false;
  char text[4096];
  const ssize_t length = read(fd, text, sizeof text);
  close(fd);
  if (length < 0) return false;
  session->assign(text, static_cast<size_t>(length));
  return true;
}

}  // namespace

StatusOr<OwnedFolder> CreateRingFolder(const std::string& base, const std::string& session_dir) {
  StatusOr<OwnedFolder> made = OwnedFolder::Make(base, Prefix());
  // The lock first: from the note on, the folder may be swept.
  if (made.ok() && flock(made->fd(), LOCK_SH | LOCK_NB) == 0) {
    (void)made->ReplaceFile(kNote, session_dir, 0600);  // without it nothing sweeps the folder
  }
  return made;
}

std::string WhyNoRing(const std::string& folder) {
  constexpr uint64_t kLeast = 4ull << 20;  // state block and the first ring
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < ring::kMaxFileBytes) {
    return "its processes may not make files of " + std::to_string(ring::kMaxFileBytes >> 20) +
           " MiB (raise ulimit -f)";
  }
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) return "";
  const uint64_t left = static_cast<uint64_t>(room.f_bavail) * room.f_frsize;
  if (left >= kLeast) return "";
  return std::string(kRingFolderBase) + " has " + std::to_string(left >> 10) +
         " KiB left, and each process takes " + std::to_string(kLeast >> 20) +
         " MiB and more (free some, or give the container a larger --shm-size)";
}

size_t SweepAbandonedFolders(const std::string& base) {
  const StatusOr<OwnedFolder> all = OwnedFolder::Open(base);
  if (!all.ok()) return 0;
  size_t removed = 0;
  for (const std::string& name : all->Names()) {
    if (!name.starts_with(Prefix())) continue;
    const StatusOr<OwnedFolder> folder = OwnedFolder::Open(base + "/" + name);
    struct stat info {};
    if (!folder.ok() || fstat(folder->fd(), &info) != 0 || info.st_uid != geteuid() ||
        (info.st_mode & 077) != 0 || !LivingRingProcesses(folder->path()).empty()) {
      continue;
    }
    std::string session;
    if (!ReadNote(*folder, &session) || flock(folder->fd(), LOCK_EX | LOCK_NB) != 0) continue;
    const StatusOr<OwnedFolder> kept = OwnedFolder::Adopt(session);
    if (kept.ok() && kept->OpenFolder("rings").ok()) SweepRings(*folder, &*kept);
    if (folder->RemoveTree().ok()) ++removed;
  }
  return removed;
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
  const StatusOr<OwnedFolder> opened = OwnedFolder::Open(folder);
  return opened.ok() ? Rings(opened->Names()) : std::vector<RingFileEntry>();
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

size_t SweepRings(const OwnedFolder& folder, const OwnedFolder* session) {
  std::optional<collector::RingKeeper> keeper;
  size_t living = 0;
  for (const RingFileEntry& ring : Rings(folder.Names())) {
    if (IsAlive(ring.process)) {
      ++living;
      continue;
    }
    if (!keeper) {
      keeper.emplace(&folder, session);
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

Status RemoveRingFolder(const OwnedFolder& folder) {
  constexpr std::string_view kUnfinished = ".tmp";  // the shim's, until it is a ring
  for (const std::string& name : folder.Names()) {
    std::string_view ring = name;
    if (ring.ends_with(kUnfinished)) ring.remove_suffix(kUnfinished.size());
    ProcessKey process;
    if (ParseRingFileName(ring, &process)) folder.RemoveFile(name);
  }
  folder.RemoveFile(kNote);
  return folder.Remove();
}

}  // namespace gordian::cli
