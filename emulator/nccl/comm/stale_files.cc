#include "emulator/nccl/comm/stale_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "emulator/engine/process/peer_process.h"
#include "emulator/nccl/comm/shared_layout.h"

namespace gordian::emu::nccl {
namespace {

std::atomic<bool> unfinished_join{false};

bool Alive(int pid, uint64_t start_time, bool leaving) {
  if (leaving && pid == getpid()) return false;
  uint64_t now = StartTimeOf(pid);
  return now != 0 && now == start_time;
}

// True only if the file is a rendezvous of our pid namespace without a living member.
bool IsStale(const void* mapping, uint64_t size, bool leaving) {
  const auto* header = static_cast<const Header*>(mapping);
  if (header->magic != kSegmentMagic || header->version != kSegmentVersion || header->nranks < 1 ||
      header->pid_namespace != PidNamespace()) {
    return false;
  }
  Layout layout(header->nranks);
  if (size < layout.bytes) return false;
  if (Alive(header->creator_pid, header->creator_start_time, leaving)) return false;
  for (int r = 0; r < header->nranks; ++r) {
    const auto* member = reinterpret_cast<const Member*>(static_cast<const char*>(mapping) +
                                                         layout.members + sizeof(Member) * r);
    switch (member->claimed.load(std::memory_order_acquire)) {
      case 0:
        break;
      case 1:  // being filled in, or its process died there: the file stays, being small
        return false;
      default:
        if (Alive(member->pid, member->start_time, leaving)) return false;
    }
  }
  return true;
}

__attribute__((destructor)) void SweepAtExit() {
  if (unfinished_join.load()) SweepStaleFiles(/*leaving=*/true);
}

}  // namespace

void SweepStaleFiles(bool leaving) {
  DIR* folder = opendir(kRendezvousFolder);
  if (folder == nullptr) return;
  const char* prefix = kRendezvousPrefix + sizeof(kRendezvousFolder);
  while (const dirent* entry = readdir(folder)) {
    if (std::strncmp(entry->d_name, prefix, std::strlen(prefix)) != 0) continue;
    int fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat st = {};
    if (fstat(fd, &st) == 0 && static_cast<uint64_t>(st.st_size) >= sizeof(Header)) {
      auto size = static_cast<uint64_t>(st.st_size);
      void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
      if (mapping != MAP_FAILED) {
        if (IsStale(mapping, size, leaving)) unlinkat(dirfd(folder), entry->d_name, 0);
        munmap(mapping, size);
      }
    }
    close(fd);
  }
  closedir(folder);
}

void NoteUnfinishedJoin() { unfinished_join.store(true); }

}  // namespace gordian::emu::nccl
