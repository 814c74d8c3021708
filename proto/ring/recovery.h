// What `gordian run --on-verdict recover` and an armed shim tell each other (docs/recovery.md): one
// file for each process, <session>/recovery.<pid>, made by the shim when it is armed.
//
// gordian writes an order, then `request`, and wakes the shim (FUTEX_WAKE, shared, on `request`). The
// shim answers with `reply` and then `answer` = the request. Neither trusts the other's bytes: both
// check counts and places against their limits, and copy before they check.
#ifndef GORDIAN_PROTO_RING_RECOVERY_H_
#define GORDIAN_PROTO_RING_RECOVERY_H_

#include <stdint.h>

namespace gordian::ring {

inline constexpr char kRecoveryFile[] = "recovery.";               // followed by the pid
inline constexpr uint64_t kRecoveryMagic = 0x3330766365726467ull;  // "gdrecv03"
inline constexpr uint32_t kMaxRecoveryUnits = 1024;
inline constexpr uint32_t kMaxRecoveryComms = 32;
inline constexpr uint32_t kMaxRecoveryAfter = 4;

enum class RecoveryOrder : uint32_t {
  kNone = 0,
  // Close the gates of these units, and say whether they can be executed again. A member of one of
  // the communicators may have none.
  kPrepare = 1,
  kCancel = 2,  // open them again: nothing has happened
  kCommit = 3,  // revoke the communicators and execute the units
};

enum class RecoveryReply : uint32_t {
  kNone = 0,
  kReady = 1,       // to kPrepare: all holds, the gates are closed
  kDone = 2,        // to kCommit: every unit is executed and its gate open; to kCancel
  kNotArmed = 3,    // a communicator has no spare in the runtime, or its gates are incomplete
  kMoved = 4,       // a unit is done, or is not among those that the shim holds
  kInCall = 5,      // a thread does not leave its call on such a communicator
  kOverlaps = 6,    // a unit's input lies in the output of one that it would overtake
  kInPlace = 7,     // NCCL has perhaps written over inputs of which no copy was made: `missing`
  kMemory = 8,      // no device memory for the outputs
  kRegistered = 9,  // the program has registered memory with such a communicator
  kFailed = 10,     // the runtime has failed: `detail` is its result
  kNonsense = 11,   // the order makes no sense
  kRoute = 12,      // the runtime has such a communicator already
  kOneEnded = 13,   // a send or receive is unfinished on such a communicator
  kAborted = 14,    // to kCommit: the program has aborted or revoked such a communicator
  kPeerLeft = 15,   // to kCommit: another member has ended or aborted
};

struct RecoveryUnit {
  uint32_t comm;  // id at the process
  uint32_t stream;
  uint64_t sequence;
  uint64_t ordinal;
  uint32_t early;  // 1: as soon as those of `after` have their input
  uint32_t after_count;
  uint32_t after[kMaxRecoveryAfter];  // places in the list
};

struct RecoveryFirst {
  uint32_t comm;
  uint32_t reserved0;
  uint64_t sequence;  // of the first operation that is not done, or will be called next
};

struct RecoveryFile {
  uint64_t magic;
  uint32_t pid;
  uint32_t answer;
  uint32_t reply;  // RecoveryReply
  uint32_t place;  // of the unit that the reply is about; UINT32_MAX: none
  int32_t detail;
  uint32_t executed;  // units of the present order so far
  uint32_t first_count;
  uint32_t reserved0;
  uint64_t missing;                        // bytes of shadows, with kInPlace
  RecoveryFirst first[kMaxRecoveryComms];  // with kReady
  // Written by gordian.
  uint32_t request;
  uint32_t order;  // RecoveryOrder
  uint32_t unit_count;
  uint32_t comm_count;
  uint32_t comm[kMaxRecoveryComms];  // ids at the process: all of which it is a member
  RecoveryUnit unit[kMaxRecoveryUnits];
};

static_assert(sizeof(RecoveryUnit) == 48);

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_RECOVERY_H_
