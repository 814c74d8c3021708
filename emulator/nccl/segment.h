// How the members of a communicator meet and what they share afterwards.
//
// The segment is a file `gordian-emu-<hex>` in /dev/shm, named after the CommKey. It appears with
// its header complete (made without a name, then linked), whoever comes first makes it, and the
// last member to join removes its name: after init nothing is left in /dev/shm. Files of jobs that
// died before that are swept by the next init of any job of this user.
#ifndef GORDIAN_EMULATOR_NCCL_SEGMENT_H_
#define GORDIAN_EMULATOR_NCCL_SEGMENT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/nccl/arena.h"
#include "emulator/nccl/nccl_header.h"
#include "emulator/nccl/shared_layout.h"

namespace gordian::emu::nccl {

class Segment {
 public:
  // Joins as `rank` and blocks until all members have. Any thread. Waits for ever for members that
  // never come; `cancelled` (see Cancel in comm.h) ends the wait with ncclInternalError.
  // Errors: ncclSystemError (no shared memory), ncclRemoteError (another number of ranks, or the
  // rank is taken), ncclInvalidUsage (two members on one device).
  // `*segment` is set as soon as the rendezvous file is mapped, so that others can wake the wait.
  static ncclResult_t Join(const CommKey& key, int nranks, int rank, int physical_device,
                           const std::atomic<bool>& cancelled,
                           const std::function<void(std::shared_ptr<Segment>)>& mapped);

  ~Segment();

  int nranks() const { return nranks_; }
  Header* header() { return reinterpret_cast<Header*>(base_); }
  Member& member(int rank) { return *At<Member>(layout_.members + sizeof(Member) * rank); }
  // Null for one that was registered too late to be told of.
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

  // The process of a member; only after Join succeeded.
  PeerProcess* process(int rank) { return processes_[rank]; }
  // Wakes the workers of the processes of all members but `self`; once each, and this process only
  // when it holds another member.
  void RingOthers(int self);

  // Host side: wake all waiting host threads of all members; wait until `ready` says true (checked
  // after each wake-up). False when `cancelled` came first.
  void NotifyHosts();
  // `kind` and `missing` (the members waited for) are for reports.
  bool WaitHosts(const char* kind, const std::function<bool()>& ready,
                 const std::atomic<bool>& cancelled,
                 const std::function<std::vector<int>()>& missing);
  // The same, until every member is `there`.
  bool WaitMembers(const char* kind, const std::function<bool(int)>& there,
                   const std::atomic<bool>& cancelled);
  // The process of a member has ended.
  bool IsGone(int rank);
  // What reports call the communicator: the same for all members.
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

#endif  // GORDIAN_EMULATOR_NCCL_SEGMENT_H_
