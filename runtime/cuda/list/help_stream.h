// The host's half of helping: publishes the operations of one stream in a list, so that a kernel
// that stalls can run operations behind it.
//
// Helping is sound because between two entries the stream holds only the library's operations, and
// waits for events behind which only such operations stand. The list marks an entry that reads what
// an unfinished one before it writes: helpers begin neither it nor any entry behind it early. The
// list *renames* an entry that only writes what an unfinished one before it uses: helpers write its
// output into memory of the list, and its own kernel copies it from there when its turn comes. If
// the list has no room for that, it marks the entry.
//
// Several streams. An event stands at a point of its stream's list. Once another stream waits for
// it, the operations behind the wait are behind the *pasts* of that point, too: the entries of
// several lists. The kernel of such an operation starts only when all kernels of its pasts have
// ended, as that of an operation behind them on their own stream does, so they may help it: the
// lists of the pasts get it as a guest. Helpers begin it only where in its own list and in all its
// pasts the last marked entry has begun, since before that other work may be unfinished.
//
// A past must be true: what a list takes for a wait must be one of CUDA's. So the caller tells of a
// wait after it has made it, with the point that the stream had before the event was recorded.
//
// Thread rule: one thread at a time (the domain's lock), except Interrupt and Here. Ownership: the
// maker owns the list's memory, which must outlive all kernels that use it, and keeps all lists of a
// domain until its end. The maker makes the memory before the first kernel: allocating or clearing
// it later could wait behind a kernel that waits for this thread. Errors: Publish returns false;
// nothing else fails.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_HELP_STREAM_H_
#define GORDIAN_RUNTIME_CUDA_LIST_HELP_STREAM_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/cuda/list/help_device.h"
#include "runtime/cuda/list/help_sequence.h"

namespace gordian::runtime::cuda {

// Bytes that an operation reads and writes on its own rank.
struct Touched {
  uintptr_t in_begin = 0, in_end = 0, out_begin = 0, out_end = 0;
};

// The bytes that an operation with these arguments touches. A null buffer: it has none.
Touched TouchedBy(OpKind kind, const void* in, const void* out, uint64_t count, DataType type,
                  uint32_t ranks);

// ReadsOf: the later operation reads what the earlier one writes. WritesOver: it writes what the
// earlier one reads or writes. Disturbs: either of these, so both must not be carried at once.
bool ReadsOf(const Touched& later, const Touched& earlier);
bool WritesOver(const Touched& later, const Touched& earlier);
bool Disturbs(const Touched& later, const Touched& earlier);

class HelpStream;

// What stands before a place on a stream: of some lists, the entries up to one.
struct Past {
  HelpStream* list = nullptr;
  uint32_t end = 0;     // number of the first entry behind it
  uint32_t marked = 0;  // number + 1 of its last marked entry
};
// The pasts of an event.
struct PointOfList {
  uint32_t count = 0;
  Past pasts[kMostPasts + 1];
};

class HelpStream {
 public:
  using Shared = HelpShared;

  // `memory`: of the device, zero at first; number `index` of `lists`. `stop`, `counts`: see
  // HelpList. `room`: of the device's memory, for renamed outputs.
  HelpStream(Shared* shared, HelpMemory* lists, uint32_t index, const uint32_t* stop,
             HelpCounts* counts, char* room, uint64_t room_bytes)
      : stop_(stop),
        counts_(counts),
        shared_(shared),
        lists_(lists),
        index_(index),
        memory_(lists + index),
        room_(room),
        room_bytes_(room_bytes),
        sequence_(index) {}
  HelpStream(const HelpStream&) = delete;
  HelpStream& operator=(const HelpStream&) = delete;

  // What stands before an operation on its stream.
  enum class Before {
    kOperations,  // only published operations, unless Interrupt was called
    kMore,        // maybe other work
    kGroup,       // operations of its own group; the first of those is marked if needed
  };
  // Publishes `work` and fills `help` for its kernel. The caller launches the kernels on `stream`,
  // always the same one, in the order of these calls. Returns false, with `help` as for a stream
  // without a list, if the list is full: the caller launches the kernel all the same, and the list
  // marks the next entry.
  bool Publish(Work work, const Touched& touched, Before before, cudaStream_t stream,
               HelpList* help);
  // Whether one of a group's operations, which the caller publishes next, must not begin before all
  // earlier entries are done. The caller then has the group's first operation marked instead of
  // that one: a marked entry waits for all before it, but a group's operations wait for each other
  // on all ranks.
  bool HoldsUp(const std::vector<Touched>& group, cudaStream_t stream);
  // The list arguments of one kernel for the newest entries, none of which is launched yet.
  HelpList Join(const std::vector<HelpList>& entries);
  // The caller has launched the kernels of all entries.
  void Launched();
  // Whether the entry is known to be finished. Never waits.
  bool IsDone(uint32_t id, cudaStream_t stream);
  // The program enqueues other work on the stream: Publish marks the next entry. Any thread.
  void Interrupt() { interrupted_.store(true, std::memory_order_release); }

  // The point of an event that is recorded on the stream after this call. False: other work may
  // stand between it and the operations. Any thread.
  bool Here(PointOfList* point) const;
  // Whether all that stands before the point is known to be done.
  static bool IsPast(const PointOfList& point);
  // The stream is about to wait for an event. True: the caller launches a mark before (LaunchMark),
  // with `help`, so that helpers learn when what stands before the wait is done. False: nothing
  // stands there, or the list is full, and the next entry is marked.
  bool Mark(HelpList* help);
  // The stream waits for an event at this point.
  void Awaited(const PointOfList& point);
  // The stream is gone: another one may get the list.
  void Forget();

 private:
  // Learns which entries are finished. `asks`: may also query the stream.
  void Refresh(cudaStream_t stream, bool asks);
  void Refresh() { Refresh(nullptr, false); }
  bool IsFull() const { return next_ - done_ >= kHelpUnfinished; }
  // Whether the list has room for so many guests.
  bool TakesGuests(size_t count) const { return gap_ + count <= kHelpGap && !IsFull(); }
  void PublishGuest(const HelpEntry& entry, uint32_t before);
  // Forgets pasts that are done.
  void Prune();
  // Whether `of(touched, earlier)` for an unfinished operation of the list's own since the last
  // marked one, or of the pasts.
  bool Any(const Touched& touched, bool (*of)(const Touched&, const Touched&)) const;
  bool AnyOf(const Touched& touched, uint32_t marked, uint32_t end,
             bool (*of)(const Touched&, const Touched&)) const;
  void Enter(const HelpEntry& entry, const Touched& touched);
  struct Room {
    uint32_t id;
    uint64_t begin, end;
  };
  // Takes room for the renamed output of entry `id`, with the output's alignment; null: none left.
  char* TakeRoom(const Touched& touched, uint32_t id, std::deque<Room>* rooms) const;
  void Fill(HelpList* help, uint16_t channels);

  const uint32_t* const stop_;
  HelpCounts* const counts_;
  Shared* const shared_;
  HelpMemory* const lists_;
  const uint32_t index_;
  HelpMemory* const memory_;
  char* const room_;
  const uint64_t room_bytes_;
  uint32_t next_ = 0;
  uint32_t newest_ = 0;  // the first entry of the newest kernel
  uint32_t done_ = 0;    // entries below are known to be finished
  uint32_t gap_ = 0;     // the newest entries that are no operations of the stream
  std::atomic<bool> interrupted_{true};
  bool at_mark_ = false;            // the stream's newest kernel is a mark
  std::deque<Touched> unfinished_;  // the last entries, since `done_` at least
  HelpSequence sequence_;
  std::deque<Room> rooms_;  // taken ones, around the ring
  // What the stream's end stands behind beside its own entries: since the last marked one of those.
  std::vector<Past> pasts_;
  mutable std::mutex end_mutex_;  // what is below; taken last
  PointOfList end_;               // of all that was launched
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_HELP_STREAM_H_
