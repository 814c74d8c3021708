// The calls of a recorded job that matter for the order of its threads, kept small: 40 bytes a call,
// since what repeats in them is kept once. A trace of ten million operations takes 400 MB.
//
// Source of the calls: the wait model's input, as for Recording (recording.h), of which this holds
// operations, ends of groups, records of and waits for events, and waits of the host.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_REPLAYER_RECORD_CALL_LOG_H_
#define GORDIAN_REPLAYER_RECORD_CALL_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/model/facts/event.h"
#include "replayer/record/blocks.h"
#include "replayer/record/recording.h"

namespace gordian::replayer {

// What is equal in the calls that a thread makes at one place of a loop.
struct CallKind {
  uint64_t site = 0;
  uint64_t event = 0;
  uint32_t thread = 0;
  uint32_t comm = 0;
  uint32_t stream = 0;
  int32_t root_or_peer = -1;
  int32_t result = 0;
  uint16_t call_id = 0;
  model::Call call = model::Call::kOther;
  model::WorkKind work = model::WorkKind::kNoWork;
  model::WaitKind wait = model::WaitKind::kNoWait;
  uint8_t flags = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;

  bool IsOperation() const { return model::IsOperation(call); }
  bool InGroup() const { return (flags & model::kInGroup) != 0; }
  bool IsGroupEnd() const { return call == model::Call::kGroupEnd; }

  friend bool operator==(const CallKind&, const CallKind&) = default;
};

struct LoggedCall {
  static constexpr uint32_t kNotReturned = UINT32_MAX;

  uint64_t order = 0;             // of its begin, among all records of the process
  uint64_t time_ns = 0;           // of its begin, by the clock of rounds
  uint64_t count = 0;             // elements
  uint32_t lasts = kNotReturned;  // so many records later it returned; more than 2^32 - 2: as that
  uint32_t kind = 0;              // index into LoggedProcess::kinds
  uint16_t group = 0;  // low bits of its thread's number of the group that it is in, or ends

  uint64_t end_order() const { return lasts == kNotReturned ? 0 : order + lasts; }
};

struct LoggedProcess {
  Blocks<LoggedCall> calls;  // sorted by `order` after Finish()
  std::vector<CallKind> kinds;
  // Calls that make or end communicators, returned or not, are before this order.
  uint64_t comms_made = 0;
  bool graphs = false;  // it captured operations into graphs
  // The order of the first call of this sort; kNone: there is none.
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t memory_wait = kNone;   // a stream's wait for a value in memory
  uint64_t non_blocking = kNone;  // on a communicator that does not block
  uint64_t unreturned = kNone;    // an operation that had not returned

  // A call of this process as Recording has it.
  RecordedCall Restore(const LoggedCall& call) const;
};

class CallLog {
 public:
  // Feed a thread's records in order.
  void OnRecord(const model::CallRecord& record);
  // Sorts the calls, and drops those that did nothing: failed ones, and ones that were captured or
  // had not returned.
  void Finish();

  const std::map<model::ProcessId, LoggedProcess>& processes() const { return processes_; }
  // NCCL operations called; captured ones count once.
  uint64_t operations() const { return operations_; }
  // Records of torch.distributed without NCCL.
  uint64_t host_operations() const { return host_operations_; }

 private:
  static constexpr uint32_t kNoKind = UINT32_MAX;

  struct KindHash {
    size_t operator()(const CallKind& kind) const;
  };
  // The call that a thread is in.
  struct Thread {
    model::ThreadId id = 0;
    bool open = false;
    bool logged = false;  // at `place`
    bool makes_comms = false;
    model::Call call = model::Call::kOther;
    size_t place = 0;
    uint32_t last_kind = kNoKind;  // of its latest call in the log
  };
  struct Process {
    LoggedProcess* log = nullptr;
    std::vector<Thread> threads;
    size_t latest = 0;  // of threads: whose record came last
    std::unordered_map<CallKind, uint32_t, KindHash> kinds;
    std::vector<uint32_t> next;  // by kind: the one that came after it in its thread, last time
    std::unordered_set<uint64_t> captures;  // that hold operations
  };

  Process& ProcessOf(model::ProcessId id);
  static Thread& ThreadOf(Process* process, model::ThreadId id);
  static uint32_t KindOf(Process* process, const CallKind& kind, uint32_t after);
  void OnEnd(Process* process, const model::CallRecord& record);

  std::map<model::ProcessId, LoggedProcess> processes_;
  std::unordered_map<model::ProcessId, Process> open_;
  Process* latest_ = nullptr;
  model::ProcessId latest_id_ = 0;
  uint64_t operations_ = 0;
  uint64_t host_operations_ = 0;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_CALL_LOG_H_
