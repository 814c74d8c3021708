// How the members of a communicator meet, and what they share afterwards.
//
// The segment is a file `gordian-emu-<hex>` in /dev/shm, named after the CommKey. The first member
// makes it, with its header complete (unnamed first, then linked); the last member to join removes
// its name, so after init nothing is left in /dev/shm. The next init of any job of this user
// removes the files of jobs that died before that.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_SEGMENT_H_
#define GORDIAN_EMULATOR_NCCL_COMM_SEGMENT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/nccl/api/nccl_header.h"
#include "emulator/nccl/comm/arena.h"
#include "emulator/nccl/comm/shared_layout.h"

namespace gordian::emu::nccl {

class Segment {
 public:
  // Joins as `rank` and blocks until all members have. Any thread. Waits for ever for members that
  // never come, and with members that contradict each other about ranks or their number, as
  // NCCL's do (H200, 2.28.9); a member that comes after the contradiction gets ncclRemoteError after
  // a minute. `cancelled` (see Cancel in comm.h) ends the wait with ncclInternalError. Further
  // errors: ncclSystemError (no shared memory), ncclInvalidUsage (two members on one device). Sets
  // `*segment` as soon as the rendezvous file is mapped, so that others can wake the wait.
  static ncclResult_t Join(const CommKey& key, int nranks, int rank, int physical_device,
                           const std::atomic<bool>& cancelled,
                           const std::function<void(std::shared_ptr<Segment>)>& mapped);

  ~Segment();

  int nranks() const { return nranks_; }
  Header* header() { return reinterpret_cast<Header*>(base_); }
  Member& member(int rank) { return *At<Member>(layout_.members + sizeof(Member) * rank); }
  // Null for a window beyond the table's size.
  Window* window(int rank, uint64_t ordinal) {
    if (ordinal >= kWindows) return nullptr;
    return At<Window>(layout_.windows +
                      sizeof(Window) * (static_cast<uint64_t>(rank) * kWindows + ordinal));
  }
  PairCounters& pair(int source, int destination) {
    return *At<PairCounters>(layout_.pairs + sizeof(PairCounters) * Pair(source, destination));
  }
  Slot* collective_slot(int member, uint64_t ordinal) {
    return At<Slot>(layout_.collective_slots +
                    layout_.slot_stride * (static_cast<uint64_t>(member) * kCollectiveSlots +
                                           ordinal % kCollectiveSlots));
  }
  Slot* pair_slot(int source, int destination, uint64_t ordinal) {
    return At<Slot>(layout_.pair_slots +
                    layout_.slot_stride *
                        (Pair(source, destination) * kPairSlots + ordinal % kPairSlots));
  }

  // A member's process; valid after Join has succeeded.
  PeerProcess* process(int rank) { return processes_[rank]; }
  // Wakes the workers of all members' processes but `self`'s, once each; this process's only if it
  // holds another member.
  void RingOthers(int self);

  // Host side: NotifyHosts wakes all waiting host threads of all members; WaitHosts waits until
  // `ready` returns true (checked after each wake-up). Returns false if `cancelled` comes first.
  void NotifyHosts();
  // `kind` and `missing` (the members waited for) are for reports.
  bool WaitHosts(const char* kind, const std::function<bool()>& ready,
                 const std::atomic<bool>& cancelled,
                 const std::function<std::vector<int>()>& missing);
  // The same, until every member is `there`.
  bool WaitMembers(const char* kind, const std::function<bool(int)>& there,
                   const std::atomic<bool>& cancelled);
  // True if a member's process has ended.
  bool IsGone(int rank);
  // Sets the communicator's name in reports, the same for all members.
  void SetLabel(std::string label);
  std::string label() const;

 private:
  Segment(int fd, int nranks);
  template <typename T>
  T* At(uint64_t offset) {
    return reinterpret_cast<T*>(base_ + offset);
  }
  uint64_t Pair(int source, int destination) const {
    return static_cast<uint64_t>(source) * nranks_ + destination;
  }
  bool Claim(int rank, int physical_device);
  void Attach();
  std::vector<int> Lacking(const std::function<bool(int)>& there) const;

  int nranks_;
  Layout layout_;
  std::byte* base_ = nullptr;
  std::vector<PeerProcess*> processes_;
  mutable std::mutex label_mutex_;
  std::string label_;  // JSON members
};

// As a JSON list.
std::string ListOf(const std::vector<int>& numbers);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_SEGMENT_H_
