// The host's half of helping: publishes the operations of one stream in a list, so that a kernel
// that stalls can run operations behind it.
//
// Helping is sound because between two entries the stream holds only the library's operations. The
// list marks an entry that reads what an unfinished one before it writes: helpers begin neither it
// nor any entry behind it early. The list *renames* an entry that only writes what an unfinished
// one before it uses: helpers write its output into memory of the list, and its own kernel copies
// it from there when its turn comes. If the list has no room for that, it marks the entry.
//
// Thread rule: one thread at a time (the domain's lock), except Interrupt. Ownership: the maker
// owns the list's memory, which must outlive all kernels that use it. The maker makes it before the
// first kernel: allocating or clearing it later could wait behind a kernel that waits for this
// thread. Errors: Publish returns false; nothing else fails.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_HELP_STREAM_H_
#define GORDIAN_RUNTIME_CUDA_LIST_HELP_STREAM_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
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

class HelpStream {
 public:
  // In mapped host memory; zero at first.
  struct Shared {
    alignas(128) uint32_t tail;
    alignas(128) uint32_t begun;  // written by the kernels
    alignas(128) HelpEntry entries[kHelpEntries];
  };

  // `memory`: of the device, zero at first. `stop`, `counts`: see HelpList.
  // `room`: of the device's memory, for renamed outputs.
  HelpStream(Shared* shared, HelpMemory* memory, const uint32_t* stop, HelpCounts* counts,
             char* room, uint64_t room_bytes)
      : stop_(stop),
        counts_(counts),
        shared_(shared),
        memory_(memory),
        room_(room),
        room_bytes_(room_bytes) {}
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
  // Whether the entry is known to be finished. Never waits.
  bool IsDone(uint32_t id, cudaStream_t stream);
  // The program enqueues other work on the stream: Publish marks the next entry. Any thread.
  void Interrupt() { interrupted_.store(true, std::memory_order_release); }

 private:
  // Learns which entries are finished. `asks`: may also query the stream.
  void Refresh(cudaStream_t stream, bool asks);
  struct Room {
    uint32_t id;
    uint64_t begin, end;
  };
  // Takes room for the renamed output of entry `id`, with the output's alignment; null: none left.
  char* TakeRoom(const Touched& touched, uint32_t id, std::deque<Room>* rooms) const;

  const uint32_t* const stop_;
  HelpCounts* const counts_;
  Shared* const shared_;
  HelpMemory* const memory_;
  char* const room_;
  const uint64_t room_bytes_;
  uint32_t next_ = 0;
  uint32_t newest_ = 0;  // the first entry of the newest kernel
  uint32_t done_ = 0;    // entries below are known to be finished
  std::atomic<bool> interrupted_{true};
  std::deque<Touched> unfinished_;  // since the last marked entry, or of `done_`
  HelpSequence sequence_;
  std::deque<Room> rooms_;  // taken ones, around the ring
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_HELP_STREAM_H_
