// The shim's private state in this process; the mapped file holds what it shares.
//
// Whatever indexes, counts a loop or decides whose memory is used lies here: other processes of the
// user can write to the mapped file, and the job must survive any bytes in it.
//
// One Process lives in one anonymous mapping made at the first intercepted call, and is never
// destroyed; a forked child makes its own (lifecycle.h). Every type here is trivially destructible
// and valid when zeroed: the shim has no static initialisers and no destructors.
#ifndef GORDIAN_INTERPOSE_STATE_SHIM_STATE_H_
#define GORDIAN_INTERPOSE_STATE_SHIM_STATE_H_

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <atomic>

#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "proto/ring/record.h"

namespace gordian::interpose {

using ring::CallId;

// A lock that gives up: its holder may be suspended or gone for ever, and a job must not hang
// because gordian watches it. A thread that fails counts a loss.
class TryLock {
 public:
  // A few microseconds of spinning, then some milliseconds of letting others run: the holder may be
  // waiting for a core.
  bool Acquire(int spins = 500, int yields = 4000) {
    for (int i = 0; i < spins + yields; ++i) {
      if (word_.load(std::memory_order_relaxed) == 0 &&
          // litmus: lock.take
          word_.exchange(1, std::memory_order_acquire) == 0) {
        return true;
      }
      if (i >= spins) {
        sched_yield();
        continue;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      __asm__ volatile("yield");
#endif
    }
    return false;
  }
  void Release() {
    // litmus: lock.leave
    word_.store(0, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> word_;
};

// Handle -> index of a state slot. Readers take no lock; writers hold the table's lock (the owner's
// job). A reader that misses because of a concurrent change looks again under that lock.
template <uint32_t kCapacity>
class HandleTable {
 public:
  static constexpr uint32_t kMissing = UINT32_MAX;

  uint32_t Find(uint64_t key) const {
    uint32_t at = Hash(key);
    for (uint32_t i = 0; i < kCapacity; ++i, at = Next(at)) {
      // litmus: table.find
      const uint64_t found = entries_[at].key.load(std::memory_order_acquire);
      if (found == key) return entries_[at].index.load(std::memory_order_relaxed);
      if (found == kEmpty) return kMissing;
    }
    return kMissing;
  }

  bool Insert(uint64_t key, uint32_t index) {
    uint32_t at = Hash(key);
    for (uint32_t i = 0; i < kCapacity; ++i, at = Next(at)) {
      const uint64_t found = entries_[at].key.load(std::memory_order_relaxed);
      if (found == kEmpty || found == kErased || found == key) {
        entries_[at].index.store(index, std::memory_order_relaxed);
        // litmus: table.insert
        entries_[at].key.store(key, std::memory_order_release);
        return true;
      }
    }
    return false;
  }

  void Erase(uint64_t key) {
    uint32_t at = Hash(key);
    for (uint32_t i = 0; i < kCapacity; ++i, at = Next(at)) {
      const uint64_t found = entries_[at].key.load(std::memory_order_relaxed);
      if (found == kEmpty) return;
      if (found != key) continue;
      // litmus: table.erase
      entries_[at].key.store(kErased, std::memory_order_release);
      // An erased entry in front of an empty one carries no chain any further: empty it as well, so
      // that ten thousand streams made and destroyed do not fill the table with erased entries.
      while (entries_[at].key.load(std::memory_order_relaxed) == kErased &&
             entries_[Next(at)].key.load(std::memory_order_relaxed) == kEmpty) {
        entries_[at].key.store(kEmpty, std::memory_order_release);
        at = Previous(at);
      }
      return;
    }
  }

 private:
  static constexpr uint64_t kEmpty = 0;
  static constexpr uint64_t kErased = 1;  // no handle has this value: see StreamKey
  static_assert((kCapacity & (kCapacity - 1)) == 0);

  struct Entry {
    std::atomic<uint64_t> key;
    std::atomic<uint32_t> index;
  };
  static uint32_t Hash(uint64_t key) {
    return static_cast<uint32_t>((key * 0x9E3779B97F4A7C15ull) >> 40) & (kCapacity - 1);
  }
  static uint32_t Next(uint32_t at) { return (at + 1) & (kCapacity - 1); }
  static uint32_t Previous(uint32_t at) { return (at - 1) & (kCapacity - 1); }

  Entry entries_[kCapacity];
};

inline constexpr uint32_t kMarkersPerStream = 512;

// One event recorded behind everything that the stream's ordinals up to `covered` stand for.
struct Marker {
  void* event;  // CUevent; moved to the slot where it is recorded next
  std::atomic<uint64_t> covered;
};

// Queue of the markers of one stream that are not known to be done. Producers: threads that enqueue
// NCCL work, under `lock`. Consumer: the watcher, without a lock. Slot i is ring[i % size].
struct MarkerQueue {
  TryLock lock;
  std::atomic<uint64_t> head;    // next slot to fill; written by producers
  std::atomic<uint64_t> tail;    // oldest marker not known to be done; written by the watcher
  uint64_t reclaimed;            // slots below held events that were moved on; producers
  std::atomic<uint64_t> marked;  // highest ordinal that a marker was recorded behind
  std::atomic<uint32_t> broken;  // an event of it failed: no further evidence from this stream
  void* context;                 // CUcontext of the stream
  void* spare;                   // an event whose recording failed; producers
  Marker ring[kMarkersPerStream];
};

// The operation of NCCL at `ordinal` of a stream, which something stands behind.
struct OrderedAfter {
  uint32_t stream;  // id
  uint32_t index;   // of its slot
  uint64_t ordinal;
  uint64_t at;  // of a stream that waits for it: where, on that stream
};

// At most kMaxCovered places of unfinished operations.
struct Behind {
  uint32_t count;
  OrderedAfter places[ring::kMaxCovered];
};

inline constexpr uint32_t kMaxEvents = 4096;
inline constexpr uint32_t kEventPlaces = 3;

// What preceded an event when it was recorded; events without predecessors need no entry. Each
// place is one word, written at once, so that a reader never sees half of one: 11 bits of index, 21
// of the stream's id, 32 of the ordinal. 0: none.
struct EventEntry {
  std::atomic<uint64_t> key;  // cudaEvent_t; 0 never used, 1 erased
  std::atomic<uint64_t> places[kEventPlaces];
};
static_assert(ring::kMaxStreams == 1 << 11);

struct StreamState {
  std::atomic<uint64_t> key;  // StreamKey; 0 when free or destroyed
  uint64_t handle;            // what the driver takes: 1 legacy, 2 per thread, else the handle
  ring::StreamSlot* slot;
  uint32_t id;
  int32_t device;
  // Process::non_kernel_mark when the last run of kernels was given its ordinal: while it has not
  // changed, a further kernel belongs to that run.
  std::atomic<uint64_t> run_mark;
  std::atomic<MarkerQueue*> markers;
  // The driver's own number of the stream, never reused; 0: not asked. Only for streams whose end
  // may go unseen (interpose/sources/nccl_profiler.cc).
  std::atomic<uint64_t> driver_id;
  // Communicators whose NCCL call on this stream said "in progress": the last one that has launched
  // its work marks the stream.
  std::atomic<uint32_t> deferred;
  // operation_order.h. The lock guards what follows it.
  std::atomic<uint64_t> last_word;  // its last operation of NCCL, as in EventEntry; 0: none
  std::atomic<uint32_t> awaited_count;
  TryLock order_lock;
  bool no_pending;                        // there was no room for a queue
  OrderedAfter awaited[ring::kMaxAfter];  // waits since the last operation
  ring::PendingQueue* pending;            // in the mapped file; stays with the slot
  uint64_t pending_first, pending_next;   // as in PendingQueue
};

// Sends to a peer, or receives from it, so far.
struct PairNumbers {
  std::atomic<uint64_t> next;
  ring::NumberSlot* slot;  // claimed with the first one; null: none, or none was left
};

struct CommState {
  std::atomic<uint64_t> handle;  // ncclComm_t; 0 when there is none (yet, or any more)
  ring::CommSlot* slot;
  uint32_t id;
  int32_t nranks;
  int32_t rank;
  int32_t device;
  uint64_t uid;
  std::atomic<uint64_t> next_sequence;
  std::atomic<uint32_t> child_calls;  // splits and shrinks called on it so far
  std::atomic<uint32_t> in_use;
  uint8_t flags;              // ring::kFlagNonBlocking
  uint32_t torch_group;       // id of torch.distributed's group that has given it a name
  ring::NumberSlot* numbers;  // of its collectives; null: none was left
  // [2 * peer] sends to and [2 * peer + 1] receives from that peer; p2p_capacity peers.
  PairNumbers* p2p;
  int32_t p2p_capacity;
  // Streams with work of this communicator that NCCL may not have launched yet. Changed under the
  // lock: one thread may poll the communicator while another uses it.
  TryLock deferred_lock;
  struct Deferred {
    StreamState* stream;
    uint32_t id;  // of the stream: its slot may be another one's by then
  } deferred[8];
  std::atomic<uint32_t> deferred_count;
};

inline constexpr uint32_t kGroupStreams = 256;
inline constexpr uint32_t kGroupGraphStreams = 16;
inline constexpr uint32_t kGraphMarkers =
    4096;  // in one process (interpose/progress/graph_markers.h)
inline constexpr uint32_t kGroupInits = 64;
inline constexpr uint32_t kGroupComms = 16;
inline constexpr uint32_t kGroupNumbers = 1024;
inline constexpr uint32_t kGroupOperations = 128;

// What the state block holds about an accepted operation.
struct CalledOperation {
  uint64_t site;
  uint64_t count;
  uint64_t sequence;
  uint32_t comm;  // id
  int32_t root_or_peer;
  CallId call;
  uint8_t datatype;
  uint8_t reduce_op;
  uint16_t line;  // as ring::PendingOperation::line
};

inline constexpr uint32_t kSignalLines = 2 * ring::kMaxNumbers;

struct Process;
struct GraphMarkers;
struct TorchState;  // interpose/torch/torch_groups.h

// As ring::HostWaitPayload::part.
enum TorchPart : uint32_t { kTorchCollective = 0, kTorchSend = 1, kTorchReceive = 2 };

// An operation that torch.distributed carries out on the host.
struct TorchOperation {
  uint32_t comm;  // id of the group; kNoId: none
  TorchPart part;
  uint64_t number;
  uint64_t peer;  // of a transfer
};

// The call of torch.distributed that Python has made on a thread.
struct TorchCall {
  uint64_t site;     // the line of the job; 0: in none
  uint32_t comm;     // id of its group; kNoId: not known
  uint32_t depth;    // calls, one in another
  uint32_t making;   // id of the group that it makes
  bool recorded;     // by the front end: what it does inside goes unrecorded
  bool runs_others;  // as a backward pass does: calls of Python inside have lines of their own
  bool held;         // the Work of `issued` is known
  uint16_t waits;    // the row of the wait that C++ is in; kCallNone: of none
  uintptr_t issue;   // the stack of the function that issues `issued`; 0: none
  TorchOperation issued;
};

// One thread's state in one Process. Only that thread touches it.
struct ThreadContext {
  Process* process;
  ring::Header* header;
  ring::ThreadSlot* slot;
  ring::Record* records;
  uint64_t ring_slots;  // 0: no ring was left
  uint64_t work_slots;  // how many of them records of work on streams may take
  uint64_t head;
  uint64_t cached_tail;
  uint64_t epoch;
  uint64_t ticks;         // of the clock, as this thread knew it last
  uint32_t recent_reads;  // of `ticks`, since it was read from the clock
  uint32_t index;
  uint32_t tid;  // as in the slot
  uint32_t seq;
  int32_t device;  // current device; -1: ask
  bool tsc;
  bool polling;
  bool gpu_thread;
  bool calls_by_symbol;  // this thread has set Process::calls_by_symbol
  bool of_autograd;      // PyTorch's engine runs backward passes on it
  uint32_t driver_retry;
  Behind covered;  // by the host wait that it is in
  TorchCall torch;
  // Hash of the store's key that this thread added 0 to last; 0: it has set one since.
  uint64_t asked_key;

  StreamState* cached_stream;
  StreamState* cached_default;  // default stream that this thread used last
  CommState* cached_comm;

  uint32_t group_depth;
  uint32_t group_number;
  uint32_t group_operations;
  uint32_t group_stream_count;
  uint32_t group_init_count;
  uint32_t group_comm_count;
  uint32_t group_graph_stream_count;
  StreamState* group_streams[kGroupStreams];
  struct GroupInit {
    CommState* comm;
    void** out;
  } group_inits[kGroupInits];
  CommState* group_comms[kGroupComms];  // non-blocking ones only
  // Streams whose operations in this group are captured, with GORDIAN_GRAPH_MARKERS only.
  struct GroupGraphStream {
    StreamState* stream;
    uint64_t capture;
    uint32_t front;  // marker in front of the group
  } group_graph_streams[kGroupGraphStreams];
  // Sequence numbers taken in the open group, given back when nothing of it is launched. Those of
  // further operations are not. Last: only what is counted is ever read.
  uint32_t group_number_count;
  struct GroupNumber {
    union {
      CommState* comm;
      uint64_t signals;  // how many of them: there the counter is null
    };
    std::atomic<uint64_t>* counter;
    ring::NumberSlot* slot;
  } group_numbers[kGroupNumbers];
  // What the open group is to launch, by stream; those that there is no room for are counted.
  uint32_t group_operation_count;
  uint32_t group_operations_left_out;
  struct GroupOperation {
    StreamState* stream;
    CalledOperation operation;
  } group_operations_held[kGroupOperations];
};

struct Process {
  uint64_t epoch;
  char* base;  // the mapped file
  ring::Header* header;
  ring::ThreadSlot* threads;
  ring::StreamSlot* streams;
  ring::CommSlot* comms;
  ring::NumberSlot* numbers;
  int32_t pid;
  bool tsc;
  int32_t forced_blocking;  // NCCL_COMM_BLOCKING, -1 when not set
  // When the watcher woke up last; 0: there is none.
  std::atomic<uint64_t> watcher_ticks;

  // Order of the last record other than of kernels. See StreamState::run_mark.
  alignas(64) std::atomic<uint64_t> non_kernel_mark;
  std::atomic<uint32_t> active_captures;
  std::atomic<uint64_t> backward_site;  // the job's line whose backward pass runs; 0: none, several
  std::atomic<uint32_t> captured_operations;  // not 0: some graph holds an NCCL operation
  std::atomic<uint32_t> markers_on;
  std::atomic<uint32_t> graph_markers_on;
  std::atomic<GraphMarkers*> graph_markers;
  std::atomic<TorchState*> torch;        // null: the front end for PyTorch does not run
  std::atomic<uint64_t> graph_launches;  // that may hold an NCCL operation; counted once recorded
  std::atomic<uint32_t>
      calls_by_symbol;  // the shim sees NCCL calls by symbol, not only by NCCL's profiler interface
  std::atomic<uint32_t> watcher_started;
  std::atomic<uint32_t> watcher_busy;
  std::atomic<uint32_t> exiting;

  alignas(64) TryLock thread_lock;
  TryLock stream_lock;
  TryLock comm_lock;
  TryLock arena_lock;
  TryLock number_lock;
  char* arena_next;
  char* arena_end;

  // Slots handed out so far: Header::threads_used and so on tell the reader of them.
  std::atomic<uint32_t> threads_used;
  std::atomic<uint32_t> streams_used;
  std::atomic<uint32_t> comms_used;
  std::atomic<uint32_t> numbers_used;
  uint64_t next_ring_offset;
  uint32_t rings_handed_out;
  uint64_t forced_ring_slots;  // GORDIAN_RING_SLOTS, 0 when not set
  bool no_rings;               // GORDIAN_RING_SLOTS=0: the state block alone, for tests
  uint32_t next_stream_id;
  uint32_t next_comm_id;
  uint32_t stream_reuse_cursor;
  uint32_t comm_reuse_cursor;
  uint32_t number_reuse_cursor;
  // Of signals: 1 + the indices of their NumberSlots (number_slots.cc). 0: never used.
  std::atomic<uint16_t> signal_lines[kSignalLines];
  std::atomic<uint32_t> claims_to_skip;
  std::atomic<uint32_t> init_all_calls;
  char path[512];
  dev_t file_device;
  ino_t file_inode;

  HandleTable<2 * ring::kMaxStreams> stream_table;
  HandleTable<2 * ring::kMaxComms> comm_table;
  EventEntry events[kMaxEvents];
  ThreadContext contexts[ring::kMaxThreads];
  StreamState stream_states[ring::kMaxStreams];
  CommState comm_states[ring::kMaxComms];
};

// Field of the shared file, accessed atomically as layout.h demands.
template <typename T>
std::atomic_ref<T> Shared(T& field) {
  return std::atomic_ref<T>(field);
}
template <typename T>
void Put(T& field, T value) {
  // litmus: shim.put
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}
template <typename T>
void Add(T& field, T value) {
  // litmus: shim.add
  std::atomic_ref<T>(field).fetch_add(value, std::memory_order_relaxed);
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_STATE_SHIM_STATE_H_
