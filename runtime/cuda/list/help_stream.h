// The host's half of helping: the list of operations that follow each other on one stream,
// published so that a kernel that stalls can run what stands behind it.
//
// What may be published early, and why that is sound: between two entries the stream holds nothing
// but the library's operations. An entry that reads what an unfinished one before it writes is
// marked: no helper begins it early, nor anything behind it. An entry that only writes what an
// unfinished one before it uses is *renamed*: helpers write into memory of the list, and its own
// kernel copies from there when its turn comes. If the list has no room for that, the entry is
// marked too.
//
// Thread rule: one thread at a time (the domain's lock). Ownership: the maker owns the list's
// memory and makes it before the first kernel: allocating or clearing it later could wait behind a
// kernel that waits for this thread. It outlives all kernels that use it.
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

// Of an operation with these arguments; null: it has no such buffer.
Touched TouchedBy(OpKind kind, const void* in, const void* out, uint64_t count, DataType type,
                  uint32_t ranks);

// Whether an operation reads what an earlier one writes (ReadsOf), or writes what that one uses
// (WritesOver). Either forbids to carry both at once (Disturbs).
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
    kOperations,  // those that were published, as far as is known
    kMore,        // something else, maybe
    kGroup,  // operations of its own group, directly: if more stood before those, the first one was
             // marked for all
  };
  // Publishes `work` and fills what its kernel gets; it must be launched on `stream`, always the
  // same one, in the order of these calls. Returns false, and `help` without a list, where there is
  // no room: the operation is launched all the same, and the next one is marked.
  bool Publish(Work work, const Touched& touched, Before before, cudaStream_t stream,
               HelpList* help);
  // Whether one of a group's operations, which are published next, must not begin before all that
  // was published is done. Then the first one is to be marked, and not that one: a group's
  // operations wait for each other on all ranks, and one that is marked waits for those before it.
  bool HoldsUp(const std::vector<Touched>& group, cudaStream_t stream);
  // One kernel will carry the newest entries, none of which is launched yet. What it gets.
  HelpList Join(const std::vector<HelpList>& entries);
  // Whether the entry is known to be finished. Never waits.
  bool IsDone(uint32_t id, cudaStream_t stream);
  // The program enqueues other work on the stream: the next entry is marked. Any thread.
  void Interrupt() { interrupted_.store(true, std::memory_order_release); }

 private:
  // `asks`: whether the stream may be asked, too.
  void Refresh(cudaStream_t stream, bool asks);
  struct Room {
    uint32_t id;
    uint64_t begin, end;
  };
  // Room for the renamed output of entry `id`, with its alignment; null: there is none.
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
