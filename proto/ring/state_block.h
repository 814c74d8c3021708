// The part of the state block that says *which* operations are unfinished and which were called, so
// that gordian reaches a verdict even when it lost every record (layout.h says where it lies).
//
//   CallDetail     the arguments of the call that a thread is in, and for a wait for the GPU the
//                  operations it covers. The sequence lock of its ThreadSlot guards it.
//   NumberSlot     one for the collectives of a communicator, one for the sends to and one for the
//                  receives from each peer: how many were called, the arguments of the last 16, and
//                  a rolling hash of the arguments of all. One for the signals sent to, and one for
//                  those awaited from, each peer, index and context: how many. Its own sequence
//                  lock guards it; the thread that calls NCCL on that communicator writes it, one
//                  thread at a time.
//   PendingQueue   one for each stream that NCCL was ever called on: its unfinished operations in
//                  order, each with what its stream waits for in front of it. Producers hold a lock
//                  of the shim's; a reader trusts an entry only if its stamp is the same before
//                  and after the copy.
//
// An event or a stream position is described by the *NCCL operations* in front of it: kernels,
// copies and host functions end by themselves, so a wait for an event is a wait for a list of
// operations. The shim resolves the list when the event is recorded and when it is awaited; it
// truncates full lists, which loses a wait and never invents one.
//
// Readers read NumberSlots before PendingQueues, and rely on the order of writing: an operation is
// in its PendingQueue before NumberSlot::next counts it or, in a group, before NumberSlot::open
// stops counting it. So an operation that is counted, not open, and in no gap-free queue has ended.
// A wait for signals of several peers is one entry per peer, all at one place.
#ifndef GORDIAN_PROTO_RING_STATE_BLOCK_H_
#define GORDIAN_PROTO_RING_STATE_BLOCK_H_

#include <stdint.h>

namespace gordian::ring {

inline constexpr uint32_t kMaxNumbers = 1024;
inline constexpr uint32_t kSignatures = 16;
inline constexpr uint32_t kPendingSlots = 127;
inline constexpr uint32_t kMaxAfter = 4;
inline constexpr uint32_t kMaxCovered = 5;

struct Position {
  uint32_t stream;  // id
  uint32_t reserved0;
  uint64_t ordinal;
};

struct CallArguments {
  uint32_t comm;      // id; kNoId if the call has none
  uint32_t stream;    // id
  uint64_t count;     // operations
  uint64_t sequence;  // operations: as OperationPayload::sequence
  int32_t root_or_peer;
  uint8_t datatype;
  uint8_t reduce_op;
  uint8_t wait;   // WaitKind; 0: the call does not wait for the GPU
  uint8_t flags;  // as Record::flags
  int32_t device;
  uint32_t covered;  // number of valid CallDetail::positions
};

struct CallDetail {
  CallArguments arguments;
  Position positions[kMaxCovered];
};

// Arguments on which all members must agree.
struct Signature {
  uint64_t count;     // of a transfer: bytes
  int32_t root;       // -1 where the call has none
  uint16_t call;      // CallId
  uint8_t datatype;   // of a transfer: 0
  uint8_t reduce_op;  // 255 where the call has none; user-made operators are 254
  uint64_t hash;      // of all up to and with this one
  uint64_t site;
};

enum class CommState : uint32_t {
  kUnknown = 0,
  kIniting = 1,
  kReady = 2,
  kFinalizing = 3,
  kDestroyed = 4,
  kAborted = 5,
  kRevoked = 6,
  kFailed = 7,
};

enum class NumberKind : uint32_t {
  kCollective = 1,
  kSend = 2,
  kReceive = 3,
  kSignalsSent = 4,
  kSignalsAwaited = 5
};
constexpr bool IsSignals(NumberKind kind) {
  return kind == NumberKind::kSignalsSent || kind == NumberKind::kSignalsAwaited;
}

// ncclSignal's sigIdx and ctx.
struct SignalChannel {
  int32_t index;
  int32_t context;
};

enum NumberFlags : uint32_t {
  // Operations in graphs, user-made operators, or numbers given back too often: the hashes of two
  // members may differ without an error.
  kNumbersIncomparable = 1,
  // Operations were captured: graphs take numbers that are not counted here.
  kNumbersCaptured = 2,
  kNumbersUsed = 4,  // a captured one was launched: nothing is left to connect (W15)
};

struct NumberSlot {
  uint32_t comm;  // id; 0: free
  NumberKind kind;
  int32_t peer;  // of transfers and signals
  uint32_t flags;
  uint32_t seq;   // odd while the fields below change
  uint32_t open;  // of `next`: called in groups that are still open
  uint64_t next;  // accepted so far
  uint64_t hash;  // of all accepted ones; not for signals
  union {
    int32_t color;          // collectives: from the call that made the communicator
    SignalChannel channel;  // signals
  };
  uint64_t begun;   // collectives: registrations of windows; signals: such as were called for,
                    // accepted or not yet
  uint64_t intact;  // `last` holds nothing of numbers below this one
  Signature last[kSignatures];  // of number n at n % kSignatures; not of signals
};

struct PendingOperation {
  uint64_t stamp;    // place in the queue + 1; 0 during a write
  uint64_t ordinal;  // on the stream
  uint64_t launch;   // Record::order of the launching call, the same for a whole group
  uint64_t site;
  uint32_t comm;
  int32_t root_or_peer;
  uint64_t sequence;  // of signals: number of the first of them
  uint64_t count;
  uint16_t call;  // CallId
  uint8_t datatype;
  uint8_t reduce_op;
  uint8_t in_group;
  uint8_t after_count;
  uint16_t line;  // of signals: 1 + the index of the NumberSlot that counts them
  // Waits on this stream since the previous operation: for `ordinal` of `stream`; `back` is how
  // many places before this operation.
  struct After {
    uint32_t stream;
    uint32_t back;
    uint64_t ordinal;
  } after[kMaxAfter];
};

struct PendingQueue {
  uint64_t first;      // place of the oldest entry that may be unfinished
  uint64_t next;       // place of the next entry to fill
  uint64_t gap_first;  // ordinals of operations that got no entry; 0: none
  uint64_t gap_last;
  uint64_t reserved0[12];
  PendingOperation ring[kPendingSlots];  // place p at p % kPendingSlots
};

static_assert(sizeof(Position) == 16);
static_assert(sizeof(CallArguments) == 40);
static_assert(sizeof(CallDetail) == 120);
static_assert(sizeof(Signature) == 32);
static_assert(sizeof(NumberSlot) == 64 + 32 * kSignatures);
static_assert(sizeof(PendingOperation) == 128);
static_assert(sizeof(PendingQueue) == 16384);

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_STATE_BLOCK_H_
