// Facts about a job, as the wait model takes them: what each process called, in its own order, and
// what was true of it at a round. Plain data, made by the ingest service, an importer or a test. Times are nanoseconds of one monotonic clock a node.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_EVENT_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_EVENT_H_

#include <string.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "proto/ring/meaning.h"
#include "proto/ring/record.h"
#include "proto/ring/state_block.h"

namespace gordian::model {

using ProcessId = uint32_t;  // given by the collector, never reused
using ThreadId = uint32_t;   // unique within the process, never reused; 0: none
using StreamId = uint32_t;   // unique within the process, never reused; 0: none
using CommId = uint32_t;     // a communicator's handle at one process; never reused; 0: none
using CommUid = uint64_t;    // a communicator across the job

// What a call means to the model.
using Call = ring::Meaning;

using ring::CommState;
using ring::RecordKind;
using ring::WaitKind;
using ring::WorkKind;

using ring::kStreamBlocking;
using ring::kStreamFlagsUnknown;
using ring::kStreamLegacy;
using ring::kStreamPerThread;

// CallRecord::flags.
inline constexpr uint8_t kInGroup = ring::kFlagInGroup;
inline constexpr uint8_t kInPlace = ring::kFlagInPlace;
inline constexpr uint8_t kCapturing = ring::kFlagCapturing;
inline constexpr uint8_t kElsewhere = ring::kFlagElsewhere;
inline constexpr uint8_t kNonBlockingComm = ring::kFlagNonBlocking;
inline constexpr uint8_t kLaunchOrder = ring::kFlagLaunchOrder;
inline constexpr uint8_t kHost = ring::kFlagHost;
using ring::kMemory64;
using ring::kMemoryCondition;
using ring::kMemoryOwn;
enum class MemoryCondition : uint8_t { kGreaterOrEqual, kEqual, kAnd, kNor };

// What a payload of this kind says when the record has another: no communicator, stream or work,
// and -1 where a rank, root, device or colour may be 0.
template <typename Payload>
inline constexpr Payload kBlank = {};
template <>
inline constexpr ring::OperationPayload kBlank<ring::OperationPayload> = {.root_or_peer = -1,
                                                                          .reduce_op = 255};
template <>
inline constexpr ring::SignalPayload kBlank<ring::SignalPayload> = {.peer = -1};
template <>
inline constexpr ring::CommInitPayload kBlank<ring::CommInitPayload> = {
    .rank = -1, .device = -1, .color = -1};
template <>
inline constexpr ring::StreamPayload kBlank<ring::StreamPayload> = {.device = -1};
template <>
inline constexpr ring::HostWaitPayload kBlank<ring::HostWaitPayload> = {.device = -1};
template <>
inline constexpr ring::EndPayload kBlank<ring::EndPayload> = {.rank = -1, .device = -1};

// A record of the ring (proto/ring/record.h) with the job's numbers: whose it is, what its call
// means, and its payload by type. Whatever made it has checked its values: ranks and devices are
// -1 or sane, and kinds are of their enumerations.
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
  std::variant<std::monostate, ring::OperationPayload, ring::SignalPayload, ring::CommInitPayload,
               ring::CommCallPayload, ring::GroupPayload, ring::StreamPayload, ring::WorkPayload,
               ring::GraphPayload, ring::HostWaitPayload, ring::EndPayload, ring::EnqueuePayload,
               ring::TextPayload>
      payload;

  // The payload, or kBlank if the record has another.
  template <typename Payload>
  const Payload& As() const {
    const Payload* held = std::get_if<Payload>(&payload);
    return held != nullptr ? *held : kBlank<Payload>;
  }
  // Gives the record a blank payload, to be filled.
  template <typename Payload>
  Payload& Make() {
    return payload.template emplace<Payload>(kBlank<Payload>);
  }
};

// The communicator that a record names, whatever its payload; 0: none.
inline CommId CommOf(const CallRecord& record) {
  return std::visit(
      [](const auto& payload) -> CommId {
        if constexpr (requires { payload.comm; }) {
          return payload.comm;
        } else {
          return 0;
        }
      },
      record.payload);
}

// The name in the record; the field is padded with NUL.
inline std::string NameOf(const ring::TextPayload& text) {
  return std::string(text.text, strnlen(text.text, sizeof text.text));
}

// A captured operation's capture stands in the place of its number; 0: not known.
inline uint64_t CaptureOf(const CallRecord& record) {
  return (record.flags & kCapturing) != 0 ? record.As<ring::OperationPayload>().sequence : 0;
}

// Names the line of signals by index and context.
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

enum class ExitKind : uint8_t {
  kCode,
  kSignal,
  kUnknown,
  kGordian,  // gordian ended it for its verdict, for a launcher to start it again
};

enum class OsState : uint8_t { kUnknown, kRunning, kSleeping, kDisk, kStopped, kGone };

// What can wake a thread that sleeps outside of NCCL and CUDA.
enum class ThreadSleep : uint8_t {
  kUnknown,    // it does not sleep, or the kernel does not show in what
  kOutside,    // time, a signal, a descriptor, or another process
  kThread,     // only another thread of its process
  kOperation,  // the operation of gloo that it carries out: its end, or its time limit
  kWatch,      // asleep or not, it watches operations of NCCL for a library (W24)
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
  std::shared_ptr<const CallDetail> detail;  // of the call; null: no record said it
  std::string name;
};

struct StreamState {
  StreamId stream = 0;
  uint64_t enqueued = 0, head = 0, done = 0;  // ordinals
};

struct CommStateNow {
  CommId comm = 0;
  CommState state = CommState::kUnknown;
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
  bool timer_signals = false;  // it handles a signal that a timer sends
  std::shared_ptr<const StateBlock>
      block;  // null: the process sent none, since no records were lost
};

// The state of every live process, all of it read after the previous round had ended everywhere.
struct Round {
  uint64_t round = 0;
  uint64_t begin_ns = 0, end_ns = 0;
  std::vector<ProcessState> processes;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_EVENT_H_
