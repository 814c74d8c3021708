// Facts about a job, as the wait model takes them: what each process called, in its own order, and
// what was true of it at a round. Plain data; whoever feeds the model (the ingest service, a test,
// an importer) translates into these. Times are nanoseconds of one monotonic clock a node.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_EVENT_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_EVENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/ring/meaning.h"

namespace gordian::model {

using ProcessId = uint32_t;  // given by the collector, never reused
using ThreadId = uint32_t;   // unique within the process, never reused; 0: none
using StreamId = uint32_t;   // unique within the process, never reused; 0: none
using CommId = uint32_t;     // a communicator's handle at one process; never reused; 0: none
using CommUid = uint64_t;    // a communicator across the job

enum class RecordKind : uint8_t { kBegin, kEnd, kPoint, kEnqueue, kText };

// What a call means to the model.
using Call = ring::Meaning;

enum class WorkKind : uint8_t {
  kNone,
  kKernels,
  kHostFunction,
  kEventWait,
  kEventRecord,
  kEventForgotten,  // the handle `event` stands for another event from here on, or for none
  kGraphLaunch,
  kMemoryWait,    // W10: a stream waits for a value in memory
  kMemoryWrite,   // a stream writes one
  kMemoryShared,  // others than this process may write so many (`value`) bytes from `event` on
  kGraphMarkers,  // what the thread captured last on `stream`, into capture `ordinal`, lies between
                  // two markers: `event` holds the number of the first in its lower half
  kGraphProgress,  // looked at after record `ordinal` was written: marker `stream` + i is done for
                   // each bit i of `event`
};
enum class WaitKind : uint8_t { kNone, kStream, kEvent, kDevice, kFree, kCopy, kAsyncCopy };

inline constexpr uint32_t kStreamBlocking = 1;
inline constexpr uint32_t kStreamLegacy = 2;
inline constexpr uint32_t kStreamPerThread = 4;
inline constexpr uint32_t kStreamFlagsUnknown = 8;

inline constexpr uint8_t kInGroup = 1;
inline constexpr uint8_t kInPlace = 2;
inline constexpr uint8_t kCapturing = 4;
inline constexpr uint8_t kElsewhere = 16;  // of its end: not carried out by NCCL
inline constexpr uint8_t kNonBlockingComm = 8;
inline constexpr uint8_t kLaunchOrder = 32;  // calls that make a communicator

// CallRecord::flags of kMemoryWait and kMemoryWrite.
inline constexpr uint8_t kMemoryCondition = 3;  // MemoryCondition
inline constexpr uint8_t kMemory64 = 4;         // of 8 bytes; else of 4
inline constexpr uint8_t kMemoryOwn = 8;        // in device memory that this process allocated
enum class MemoryCondition : uint8_t { kGreaterOrEqual, kEqual, kAnd, kNor };

// One record; proto/ring/record.h tells when which fields are set. Fields that a record of its kind
// does not carry are zero (or -1 where a rank, root or device may be 0).
struct CallRecord {
  ProcessId process = 0;
  ThreadId thread = 0;
  RecordKind kind = RecordKind::kPoint;
  Call call = Call::kOther;
  uint8_t flags = 0;
  uint16_t call_id = 0;  // for names in reports; the model does not read it
  uint64_t order = 0;    // merges the threads of a process
  uint64_t time_ns = 0;
  uint64_t call_site = 0;

  CommId comm = 0;
  StreamId stream = 0;
  // Operations.
  uint64_t count = 0;
  uint64_t sequence = 0;  // of signals: SignalUse::number
  int32_t root_or_peer = -1;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  uint32_t group = 0;  // also of kGroupEnd and kEnqueue
  // Communicator-making calls (kBegin), and what came out of them (kEnd).
  int32_t nranks = 0;
  int32_t rank = -1;
  int32_t device = -1;  // also of streams and host waits
  CommUid uid = 0;
  CommId parent = 0;
  int32_t color = -1;
  // Streams, work, host waits, kEnd of an operation, kEnqueue.
  uint32_t stream_flags = 0;
  uint64_t stream_handle = 0;  // kStreamCreate: what ThreadState::poll_object names; 0: not known
  uint32_t connections = 0;    // kStreamCreate: CUDA_DEVICE_MAX_CONNECTIONS; 0: not set
  WorkKind work = WorkKind::kNone;
  WaitKind wait = WaitKind::kNone;
  uint64_t ordinal = 0;
  // kGraphLaunch: the executable graph; kMemory...: the address; kPutSignal, kSignal, kWaitSignal:
  // the signal's index in the upper half, its context in the lower (`count`: how many,
  // `root_or_peer`: to or from whom).
  uint64_t event = 0;
  uint64_t value = 0;  // kMemoryWait, kMemoryWrite; kMemoryShared: bytes
  // CUDA graphs. Handles; `event` is what came out of kGraphClone and kGraphInstantiate, which
  // stands for an update of an executable graph as well, and what kGraphExecDestroy ends.
  uint64_t capture = 0;  // operations with kCapturing, kGraphEndCapture: the capture; 0: not known
  uint64_t graph = 0;
  int32_t result = 0;  // kEnd
  std::string text;    // kText: the communicator's name
};

// CallRecord::event of signals.
inline uint64_t SignalChannelOf(int32_t index, int32_t context) {
  return static_cast<uint64_t>(static_cast<uint32_t>(index)) << 32 | static_cast<uint32_t>(context);
}

struct ProcessInfo {
  ProcessId process = 0;
  uint32_t pid = 0;
  std::string executable;
  int32_t env_rank = -1;
  int32_t env_world_size = -1;
  bool markers_enabled = true;
  bool runtime_connect = true;  // NCCL_RUNTIME_CONNECT is not 0: first use connects (W15)
};

enum class ExitKind : uint8_t { kCode, kSignal, kUnknown };

enum class OsState : uint8_t { kUnknown, kRunning, kSleeping, kDisk, kStopped, kGone };

// What can wake a thread that sleeps outside of NCCL and CUDA.
enum class ThreadSleep : uint8_t {
  kUnknown,  // it does not sleep, or the kernel does not show in what
  kOutside,  // time, a signal, a descriptor, or another process
  kThread,   // only another thread of its process
};

struct CallDetail;  // state_block.h
struct StateBlock;

struct ThreadState {
  ThreadId thread = 0;  // 0: never made an intercepted call
  uint32_t tid = 0;
  Call call = Call::kOther;
  uint16_t call_id = 0;  // 0: in no call that may block
  uint64_t call_order = 0;
  uint64_t since_ns = 0;
  uint64_t call_site = 0;
  uint64_t entered = 0, left = 0;         // calls that may block
  uint64_t published = 0, collected = 0;  // records; equal when nothing is in flight
  bool gpu_thread = false;
  uint64_t poll_object = 0;
  uint64_t poll_count = 0;
  uint64_t poll_since_ns = 0;
  OsState os_state = OsState::kUnknown;
  ThreadSleep sleep = ThreadSleep::kUnknown;
  uint64_t cpu_ticks = 0;
  uint64_t context_switches = 0;
  bool library_thread = false;               // never calls for the application
  std::shared_ptr<const CallDetail> detail;  // of the call; null: not told
  std::string name;
};

struct StreamState {
  StreamId stream = 0;
  uint64_t enqueued = 0, head = 0, done = 0;  // ordinals
};

enum class CommStateKind : uint8_t {
  kUnknown,
  kIniting,
  kReady,
  kFinalizing,
  kDestroyed,
  kAborted,
  kRevoked,
  kFailed
};

struct CommStateNow {
  CommId comm = 0;
  CommStateKind state = CommStateKind::kUnknown;
  uint64_t next_sequence = 0;
};

// The preemptive runtime has begun it, whether its turn on its stream has come or not: it has
// started.
struct EarlyOperation {
  CommId comm = 0;
  bool transfer = false, sends = false;
  int32_t peer = -1;      // of a transfer
  uint64_t sequence = 0;  // as in its record
};

struct ProcessState {
  ProcessId process = 0;
  bool alive = true;
  bool stopped = false;
  bool answered = false;
  std::vector<ThreadState> threads;
  std::vector<StreamState> streams;
  std::vector<CommStateNow> comms;
  std::vector<EarlyOperation> early;
  bool early_unknown = false;  // any may be among them
  bool early_behind_operations =
      false;  // any that nothing but operations stand before on their streams
  uint64_t lost_records = 0, lost_streams = 0, lost_comms = 0, lost_markers = 0;
  uint64_t nccl_calls = 0;
  std::vector<std::string> not_visible;
  bool timer_signals = false;               // it handles a signal that a timer sends
  std::shared_ptr<const StateBlock> block;  // null: not told, since no records were lost
};

// The state of every live process, all of it read after the previous round had ended everywhere.
struct Round {
  uint64_t round = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  std::vector<ProcessState> processes;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_EVENT_H_
