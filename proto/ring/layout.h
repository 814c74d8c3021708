// The file that a shimmed process maps: header, state block, rings.
//
// Path: $GORDIAN_RING_DIR/<pid>.<start>.ring, normally a folder of the session under /dev/shm, mode
// 0600, where <start> is field 22 of /proc/self/stat (guards against a reused pid). A process that
// replaces itself by exec keeps both: the later image's file is <pid>.<start>.<n>.ring, n from 1,
// and the earlier image's remains. The writer creates "<name>.tmp", fills the header and renames
// it, so a reader never meets half a header. The writer reserves space with posix_fallocate before
// it touches it, since a write to a hole of a full tmpfs raises SIGBUS. The collector removes the
// file after the process has ended; the writer never does.
//
//   offset 0                   Header
//   Header::threads_offset     ThreadSlot[kMaxThreads]
//   Header::streams_offset     StreamSlot[kMaxStreams]
//   Header::comms_offset       CommSlot[kMaxComms]
//   Header::numbers_offset     NumberSlot[kMaxNumbers]      (state_block.h)
//   Header::rings_offset       ring space, handed out by the writer: ThreadSlot says which part is
//                              a ring, StreamSlot which part is a PendingQueue (state_block.h)
//
// The writer guarantees: a Record below ring_head is complete; relaxed or release stores to state
// fields never tear (aligned, at most 8 bytes); a sequence lock guards the call fields of a
// ThreadSlot. It guarantees nothing else. A reader copies, checks every offset, count and index
// against the file's real size, and survives any bytes.
//
// Both ends access multi-byte fields that change after creation atomically (std::atomic_ref or
// __atomic builtins). Threads: each ThreadSlot has one writer; only the watcher writes
// StreamSlot::done and ::head; the calling thread writes CommSlot and the rest of StreamSlot.
#ifndef GORDIAN_PROTO_RING_LAYOUT_H_
#define GORDIAN_PROTO_RING_LAYOUT_H_

#include <stdint.h>

#include "proto/ring/record.h"
#include "proto/ring/state_block.h"

namespace gordian::ring {

inline constexpr uint64_t kRingMagic = 0x3130676e69726467ull;  // "gdring01"
inline constexpr uint32_t kMaxThreads = 256;
inline constexpr uint32_t kMaxStreams = 2048;
inline constexpr uint32_t kMaxComms = 1024;
inline constexpr uint32_t kMaxEarly = 512;
inline constexpr uint32_t kEarlyAny = 1;  // any
inline constexpr uint32_t kEarlyBehindOperations =
    2;  // any that nothing but operations stand before on their streams
inline constexpr uint64_t kMaxFileBytes = 8ull << 20;

// mono_ns = mono_base_ns + (ticks - ticks_base) * ns_per_tick_q32 / 2^32; with tsc == 0 ticks are
// nanoseconds of CLOCK_MONOTONIC already and ns_per_tick_q32 is 2^32.
struct ClockCalibration {
  uint64_t ticks_base;
  uint64_t mono_base_ns;
  uint64_t real_base_ns;  // CLOCK_REALTIME at the same moment
  uint64_t ns_per_tick_q32;
  uint32_t tsc;
  uint32_t reserved0;
};

// An operation that the preemptive runtime has begun, mostly before its turn in its stream, and
// that is unfinished or whose turn has not come.
struct EarlyOperation {
  uint64_t sequence;  // as OperationPayload::sequence
  uint32_t comm;      // id
  int32_t peer;       // of transfers
  NumberKind kind;
  uint32_t reserved0;
};

struct Header {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint32_t pid;
  int32_t env_rank;        // RANK and its relatives; -1 when none is set
  int32_t env_world_size;  // -1 when not set
  int32_t env_local_rank;  // -1 when not set
  uint64_t process_start;  // field 22 of /proc/self/stat
  ClockCalibration clock;
  uint32_t threads_offset, max_threads;
  uint32_t streams_offset, max_streams;
  uint32_t comms_offset, max_comms;
  uint64_t rings_offset;
  char build_id[40];  // of the shim: version string, NUL padded

  // Changing part.
  uint64_t order;         // last Record::order handed out
  uint32_t threads_used;  // the writer has handed out slots [0, threads_used) at least once
  uint32_t streams_used;
  uint32_t comms_used;
  uint32_t watcher_tid;  // 0 if there is none
  // Rounds (wait-model: "a round counts only if its watcher issued a fresh query after the
  // request"). The collector adds 1 to round_request and wakes the watcher (FUTEX_WAKE, shared);
  // the watcher queries every oldest unfinished marker, publishes head and done, and then stores
  // the request that it answers.
  uint32_t round_request;
  uint32_t round_answer;
  uint64_t lost_records;  // rings full, or a thread without a ring
  uint64_t lost_streams;  // streams that got no slot
  uint64_t lost_comms;
  uint64_t lost_markers;  // operations without a done marker of their own
  uint64_t reserved1;
  uint32_t markers_enabled;  // 0: no GPU evidence (no driver found, or GORDIAN_MARKERS=0)
  uint32_t
      runtime_connect;  // 0: NCCL_RUNTIME_CONNECT=0 or NCCL_CUMEM_ENABLE=0, which connect at init
  uint64_t lost_calls;  // calls of threads without a slot, unknown to the state block
  uint32_t numbers_offset, max_numbers;
  uint32_t numbers_used;
  uint32_t cupti;            // CuptiState
  uint64_t lost_numbers;     // communicators and peers that got no NumberSlot
  uint64_t lost_work;        // of lost_records: kernels and events, dropped first
  uint64_t skipped_kernels;  // launches that the shim skipped (GORDIAN_STUB_COMPUTE)
  uint64_t reserved[2];
  // Bit n % 64 of word n / 64: the process made an outermost call of row n, recorded or not.
  alignas(64) uint64_t rows_used[8];
  // The watcher writes these before it answers a round.
  uint32_t early_used;
  uint32_t early_more;  // there may be others: kEarlyAny, or kEarlyBehindOperations
  EarlyOperation early[kMaxEarly];
};

// The state of `gordian run --cupti` (interpose/sources/cupti_source.h).
enum CuptiState : uint32_t {
  kCuptiNotAsked = 0,
  kCuptiAsked = 1,  // the driver has not loaded the source (yet)
  kCuptiTells = 2,
  kCuptiTaken = 3,    // another tool is CUPTI's subscriber
  kCuptiMissing = 4,  // libcupti was not found
  kCuptiFailed = 5,   // it would not have us, or kernels are left out (GORDIAN_STUB_COMPUTE)
};

// A thread that has made an intercepted call.
struct ThreadSlot {
  uint32_t tid;          // 0: free
  uint32_t generation;   // grows when another thread gets the slot
  uint64_t ring_offset;  // from the start of the file; 0: no space was left for a ring
  uint64_t ring_slots;   // power of two
  uint64_t ring_head;    // records published so far; slot of record i is i & (ring_slots - 1)
  uint64_t ring_tail;    // records consumed so far; written by the collector only
  uint64_t lost_records;
  // The call that the thread is in. seq is odd while the writer changes the fields below it.
  uint32_t seq;
  uint16_t call;        // CallId of the outermost intercepted call that may block; 0: in none
  uint16_t gpu_thread;  // 1 once it made an NCCL or GPU-work call: a candidate for "not called"
  uint64_t call_order;  // Record::order of that call's kBegin
  uint64_t since_ticks;
  uint64_t call_site;
  uint64_t entered;  // calls that may block entered so far
  uint64_t left;
  // Polling: cudaEventQuery / cudaStreamQuery that said "not ready", with no other call between.
  uint64_t poll_object;  // event or stream handle; 0: not polling
  uint64_t poll_count;
  uint64_t poll_since_ticks;
  uint32_t poll_call;   // CallId
  uint32_t open_group;  // depth of ncclGroupStart
  CallDetail detail;    // under seq; of `call`
  // Outermost NCCL calls entered, lost ones included, by all threads that ever had this slot.
  uint64_t nccl_calls;
};

struct StreamSlot {
  uint32_t stream;  // id; 0: free
  uint32_t flags;   // StreamFlags
  int32_t device;
  uint32_t reserved0;
  uint64_t handle;
  uint64_t enqueued;  // last ordinal handed out
  uint64_t
      head;  // highest ordinal whose head marker was seen complete: everything before it is done
  uint64_t done;            // highest ordinal seen done: every ordinal up to it is done
  uint64_t synced;          // the same, by what host waits that have returned covered
  uint64_t pending_offset;  // of its PendingQueue, from the start of the file; 0: it has none
};

struct CommSlot {
  uint32_t comm;  // id; 0: free
  int32_t nranks;
  int32_t rank;
  int32_t device;
  uint64_t uid;
  uint64_t handle;
  uint64_t next_sequence;  // collectives accepted so far
  uint32_t parent;
  CommState state;
  char name[16];
  uint64_t other_uid;  // what else it is known by (kPoint of ncclCommGrow); 0: nothing
};

static_assert(sizeof(ClockCalibration) == 40);
static_assert(sizeof(ThreadSlot) == 256);
static_assert(sizeof(StreamSlot) == 64);
static_assert(sizeof(CommSlot) == 72);
static_assert(sizeof(EarlyOperation) == 24);
static_assert(sizeof(Header) <= 16384);

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_LAYOUT_H_
