// Lets the processes of a communicator find each other by a page of POSIX shared memory named after
// its id. A process enters itself without waiting; it waits for the others when it needs them. The
// page also holds one word for all members and their devices: how the communicator has failed.
//
// Thread rule: any thread. Ownership: the last member to come removes the name; the page lives
// while a process maps it. Errors: grtResult_t; deadlines as in runtime/cpu/futex.h.
#ifndef GORDIAN_RUNTIME_CUDA_API_MEETING_H_
#define GORDIAN_RUNTIME_CUDA_API_MEETING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cpu/shared_memory.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kMostMeeting = 8;
inline constexpr uint32_t kMostPorts = 64;  // of a communicator, besides its port of tag 0

// A member's entry. Zeros: it has not come.
struct Attendee {
  uint32_t state;  // internal
  int32_t pid;
  uint64_t start_time, pid_namespace;
  uint64_t agreement;            // a hash of all that must be equal
  uint64_t region_at;            // offset of its region in its heap, and of its memory for users
  uint64_t user_at, user_bytes;  // 0 bytes: none
  char server[64];               // of its pieces
};

class Meeting {
 public:
  // Enters this rank. Fills the process fields of `own` itself. grtInvalidUsage: the rank has come
  // already.
  static grtResult_t Come(const std::string& name, uint32_t ranks, uint32_t rank, Attendee own,
                          std::shared_ptr<Meeting>* out);

  // grtTimeout, grtInvalidUsage if members disagree, or grtRemoteError: the communicator has failed
  // (`failed` says how).
  grtResult_t AwaitAll(int64_t deadline_ns);
  bool AllHere() const;
  const Attendee& of(uint32_t rank) const;
  // This rank uses the communicator no more. `over`: its operations have ended, too; else its
  // kernels may still write to the other members' regions.
  void Leave(bool over);
  bool HasLeft(uint32_t rank) const;
  bool AllAreOver() const;    // members may use the communicator's regions again
  bool SomeNeverEnd() const;  // they never may
  // Takes a place for the port of this tag (not 0), if no member has done so yet. False: kMostPorts
  // other tags have places; all members get the same answer, in whatever order they ask.
  bool TakePort(uint32_t tag);
  // The failure has changed: wakes the threads that wait for members.
  void WakeWaiting();
  // A graph of this rank holds operations of the communicator. A program may launch it after the
  // communicator's end by mistake; that must not write to regions of a later communicator.
  void NoteCaptured();
  bool IsCaptured() const;  // on any rank

  // Closes the page's descriptor; the page stays mapped. The caller of Come calls it, once.
  void CloseDescriptor() { memory_->CloseDescriptor(); }

  uint32_t* failed() const;
  void* page() const { return memory_->base(); }
  static constexpr size_t kPageBytes = 4096;

 private:
  struct Page;
  Meeting(std::shared_ptr<SharedMemory> memory, uint32_t ranks, uint32_t rank)
      : memory_(std::move(memory)), ranks_(ranks), rank_(rank) {}
  Page& shared() const { return *static_cast<Page*>(memory_->base()); }

  const std::shared_ptr<SharedMemory> memory_;
  const uint32_t ranks_, rank_;
};

// Gives every rank the values of all ranks. All ranks call it; each name serves once.
grtResult_t Exchange(const std::string& name, uint32_t ranks, uint32_t rank, uint64_t own,
                     int64_t deadline_ns, std::vector<uint64_t>* all);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_MEETING_H_
