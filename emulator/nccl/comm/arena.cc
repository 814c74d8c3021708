#include "emulator/nccl/comm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <tuple>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/process/peer_process.h"
#include "emulator/nccl/comm/futex.h"

namespace gordian::emu::nccl {
namespace {

constexpr uint64_t kGranule = 256;
constexpr uint64_t kFirstSize = 1ull << 20;
// Freed regions from this size on give their pages back.
constexpr uint64_t kPunchBytes = 1ull << 20;

uint64_t RoundUp(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

}  // namespace

uint64_t InodeOf(int fd) {
  struct stat st = {};
  return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

int OpenPeerFd(int pid, int fd, uint64_t inode) {
  const int opened = OpenDescriptorOf(pid, fd);
  if (opened >= 0 && InodeOf(opened) != inode) {
    close(opened);
    return -1;
  }
  return opened;
}

GrowingMap::~GrowingMap() {
  if (base_ != nullptr) munmap(base_, mapped_);
  if (fd_ >= 0) close(fd_);
}

std::byte* GrowingMap::At(uint64_t offset, uint64_t bytes) {
  if (offset + bytes > mapped_) {
    struct stat st = {};
    if (fstat(fd_, &st) != 0 || static_cast<uint64_t>(st.st_size) < offset + bytes) return nullptr;
    auto size = static_cast<uint64_t>(st.st_size);
    void* base = base_ == nullptr ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0)
                                  : mremap(base_, mapped_, size, MREMAP_MAYMOVE);
    if (base == MAP_FAILED) return nullptr;
    base_ = static_cast<std::byte*>(base);
    mapped_ = size;
  }
  return base_ + offset;
}

Arena& Arena::Instance() {
  static auto* arena = new Arena;
  return *arena;
}

Arena::Arena() {
  int fd = memfd_create("gordian-emu-arena", MFD_CLOEXEC);
  map_.SetFd(fd);
  if (fd >= 0) inode_ = InodeOf(fd);
}

bool Arena::Allocate(uint64_t bytes, uint64_t* offset) {
  bytes = RoundUp(std::max<uint64_t>(bytes, 1), kGranule);
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < bytes) continue;
      *offset = it->first;
      uint64_t rest = it->second - bytes;
      free_.erase(it);
      if (rest > 0) free_[*offset + bytes] = rest;
      return true;
    }
    uint64_t grown = RoundUp(std::max(size_ * 2, std::max(size_ + bytes, kFirstSize)), kFirstSize);
    // Doubles only small files; beyond that, doubling would waste address space.
    if (size_ >= (64ull << 20)) grown = RoundUp(size_ + bytes, kFirstSize);
    if (ftruncate(map_.fd(), static_cast<off_t>(grown)) != 0) return false;
    uint64_t old = size_;
    size_ = grown;
    Free(old, grown - old);
  }
  return false;
}

void Arena::Free(uint64_t offset, uint64_t bytes) {
  bytes = RoundUp(std::max<uint64_t>(bytes, 1), kGranule);
  if (bytes >= kPunchBytes) {
    fallocate(map_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

void Arena::FreeWhen(uint64_t offset, uint64_t bytes, std::function<bool()> consumed) {
  if (consumed()) {
    Free(offset, bytes);
  } else {
    pending_.push_back({offset, bytes, std::move(consumed)});
  }
}

void Arena::Reap() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->consumed()) {
      Free(it->offset, it->bytes);
      it = pending_.erase(it);
    } else {
      ++it;
    }
  }
}

PeerProcess* PeerProcess::Attach(const Member& member) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<std::tuple<int, uint64_t, uint64_t>, PeerProcess*>;
  std::lock_guard lock(*mutex);
  PeerProcess*& peer = (*known)[{member.pid, member.start_time, member.arena_inode}];
  if (peer != nullptr) return peer;
  auto fresh = std::make_unique<PeerProcess>();
  if (member.pid == getpid()) {
    fresh->self_ = true;
    fresh->doorbell_ = gordianEmuEngine(kEngineApiVersion)->Doorbell();
  } else {
    int doorbell = OpenPeerFd(member.pid, member.doorbell_fd, member.doorbell_inode);
    int arena = OpenPeerFd(member.pid, member.arena_fd, member.arena_inode);
    fresh->map_.SetFd(arena);
    void* page = doorbell < 0 ? MAP_FAILED
                              : mmap(nullptr, sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED,
                                     doorbell, 0);
    if (doorbell >= 0) close(doorbell);
    if (page == MAP_FAILED || arena < 0) return nullptr;
    fresh->doorbell_ = static_cast<std::atomic<uint32_t>*>(page);
  }
  peer = fresh.release();
  return peer;
}

void PeerProcess::Ring() {
  FutexBump(doorbell_);
  gordianEmuEngine(kEngineApiVersion)->NoteActivity();
}

std::byte* PeerProcess::At(uint64_t offset, uint64_t bytes) {
  return self_ ? Arena::Instance().At(offset, bytes) : map_.At(offset, bytes);
}

}  // namespace gordian::emu::nccl
