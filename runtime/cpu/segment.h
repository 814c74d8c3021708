// The shared memory of one port: who its members are, the abort word, boards and lanes. A member
// joins without waiting for others; the member that comes later finds what they disagree about.
//
// Threads: any, after Join. Lives as long as an operation of its port.
#ifndef GORDIAN_RUNTIME_CPU_SEGMENT_H_
#define GORDIAN_RUNTIME_CPU_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/lanes.h"
#include "runtime/cpu/shared_memory.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime {

struct alignas(kLine) MemberRecord {
  uint64_t here;  // stored last
  int32_t pid, bell_fd;
  uint64_t start_time, pid_namespace;
};
struct alignas(kLine) SegmentHeader {
  uint64_t agreement;   // hash of what all members must have alike; 0: no member has joined
  uint64_t abort_code;  // a grtResult_t; 0: fine
  uint64_t arrived;     // members, ever
  uint64_t why_state;   // 0: no one has told why; 1: someone is writing it; 2: it can be read
  char why[256];        // what abort_code is due to
};

class Segment {
 public:
  // `me` of geometry.members joins; `agreement` is a hash of what must be equal, never 0. The name
  // is taken away once `near` members have joined, those of this node; 0: not known yet.
  static grtResult_t Join(const std::string& name, const PortGeometry& geometry, uint32_t me,
                          uint64_t agreement, int bell_fd, uint32_t near,
                          std::shared_ptr<Segment>* out);
  // The memory, for a process that is no member of the port, or not yet one.
  static grtResult_t Open(const std::string& name, const PortGeometry& geometry,
                          std::shared_ptr<Segment>* out);

  // After a Join that the machine has refused: the others find the code as if it had joined and
  // aborted, as far as the name can be opened at all.
  static void Refuse(const std::string& name, grtResult_t code);

  const PortView& view() const { return view_; }
  SegmentHeader& header() const { return *header_; }
  MemberRecord& record(uint32_t member) const { return records_[member]; }
  bool IsHere(uint32_t member) const { return Acquire(records_[member].here) != 0; }
  // All members are ranks of this process.
  bool IsLocal() const {
    return memory_->local_users.load(std::memory_order_acquire) == view_.geometry().members;
  }
  // The caller calls it before the first use of the member's lanes in a window slot, so that a lack
  // of pages is an error here and not a SIGBUS later. One thread at a time for a slot.
  bool ReserveLanes(uint32_t slot, uint32_t member);
  // Takes the name away if so many members have joined.
  void UnlinkOnceHere(uint32_t near);
  // The first code stays, and so does the first `why` that is not empty.
  void Abort(grtResult_t code, const std::string& why = std::string());
  std::string Why() const;

 private:
  Segment() = default;

  std::shared_ptr<SharedMemory> memory_;
  SegmentHeader* header_ = nullptr;
  MemberRecord* records_ = nullptr;
  PortView view_;
  std::vector<uint8_t> reserved_;  // by (slot, member)
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_SEGMENT_H_
