// Where the processes of a communicator find each other: a page of POSIX shared memory that is
// named after its id. A process comes without waiting; it waits for the others when it needs them.
// The page also holds how the communicator has failed, as one word for all members and their
// devices.
//
// Thread rule: any thread. The name is gone once all have come.
// Errors: grtResult_t; deadlines are runtime/cpu/futex.h's.
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
inline constexpr uint32_t kMostPorts = 64;  // of a communicator, but for its own

// What a member says of itself. Zeros: it has not come.
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
  // `own`'s process fields are filled here. grtInvalidUsage: the rank has come already.
  static grtResult_t Come(const std::string& name, uint32_t ranks, uint32_t rank, Attendee own,
                          std::shared_ptr<Meeting>* out);

  // grtTimeout, grtInvalidUsage if members disagree, or grtRemoteError: the communicator has failed
  // (`failed` says how).
  grtResult_t AwaitAll(int64_t deadline_ns);
  bool AllHere() const;
  const Attendee& of(uint32_t rank) const;
  // This rank will use the communicator no more. `over`: its operations have ended, too. Else its
  // kernels may still write what peers have there.
  void Leave(bool over);
  bool HasLeft(uint32_t rank) const;
  bool AllAreOver() const;    // what the communicator had may be used again
  bool SomeNeverEnd() const;  // and it never may
  // Takes a place for the port of this tag (not 0), if no member has yet. False, whatever the order
  // in which members ask: there are kMostPorts others.
  bool TakePort(uint32_t tag);
  // Wakes those that wait for members: the failure has changed.
  void WakeWaiting();
  // A graph of this rank has operations of the communicator, which may be launched after its end:
  // by mistake, but that must not write what is another's by then.
  void NoteCaptured();
  bool IsCaptured() const;  // on any rank

  // Of its page, which stays mapped; once, by who came.
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

// Everybody's value, by rank; collective, each name once.
grtResult_t Exchange(const std::string& name, uint32_t ranks, uint32_t rank, uint64_t own,
                     int64_t deadline_ns, std::vector<uint64_t>* all);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_MEETING_H_
