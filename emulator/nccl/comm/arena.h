// Staging memory. Every process with a member of a communicator has one arena, a memfd that its
// peers open through /proc/<pid>/fd and keep mapped, so that pushed data survives the process's
// end. Only the owner allocates and frees; peers read.
//
// Threads: only the engine's worker thread uses Arena and PeerProcess::Map, except where noted.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_ARENA_H_
#define GORDIAN_EMULATOR_NCCL_COMM_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "emulator/nccl/comm/shared_layout.h"

namespace gordian::emu::nccl {

// Maps a file from its beginning, as far as needed so far.
class GrowingMap {
 public:
  ~GrowingMap();
  // Takes ownership of the descriptor.
  void SetFd(int fd) { fd_ = fd; }
  int fd() const { return fd_; }
  // The address of [offset, offset + bytes), which the file must contain; null if it cannot be
  // mapped. Valid until the next call.
  std::byte* At(uint64_t offset, uint64_t bytes);

 private:
  int fd_ = -1;
  std::byte* base_ = nullptr;
  uint64_t mapped_ = 0;
};

uint64_t InodeOf(int fd);
// Opens the file behind a descriptor of another process, if it is still the announced one; else -1.
int OpenPeerFd(int pid, int fd, uint64_t inode);

class Arena {
 public:
  // The process's arena; never destroyed, since the worker thread may outlive static destructors.
  static Arena& Instance();

  // Any thread. Negative if memory files cannot be made.
  int fd() const { return map_.fd(); }
  uint64_t inode() const { return inode_; }

  // Returns false without memory.
  bool Allocate(uint64_t bytes, uint64_t* offset);
  void Free(uint64_t offset, uint64_t bytes);
  std::byte* At(uint64_t offset, uint64_t bytes) { return map_.At(offset, bytes); }

  // Frees the region as soon as `consumed` returns true; each later Reap() asks it.
  void FreeWhen(uint64_t offset, uint64_t bytes, std::function<bool()> consumed);
  void Reap();

 private:
  Arena();

  struct Pending {
    uint64_t offset;
    uint64_t bytes;
    std::function<bool()> consumed;
  };

  GrowingMap map_;
  uint64_t inode_ = 0;
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, coalesced
  std::list<Pending> pending_;
};

// A process that holds members of this process's communicators; may be this one.
class PeerProcess {
 public:
  // Any thread. Returns null if the process has ended. Kept for the life of this process.
  static PeerProcess* Attach(const Member& member);

  // Any thread: wakes its worker.
  void Ring();
  std::byte* At(uint64_t offset, uint64_t bytes);

 private:
  std::atomic<uint32_t>* doorbell_ = nullptr;
  bool self_ = false;
  GrowingMap map_;
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_ARENA_H_
