#include "tests/unit/model/sim/one_thread.h"

#include <utility>

namespace gordian::model::testing {
namespace {

constexpr ProcessId kProcess = 1;
constexpr ThreadId kCaller = 1, kHelper = 2;
constexpr uint64_t kTenth = 100'000'000;

class OneProcess {
 public:
  explicit OneProcess(int ranks) : ranks_(ranks) {
    model_.OnProcessStarted({.process = kProcess, .pid = 1000, .runtime_connect = true});
  }

  void MakeCommunicator() {
    for (int rank = 0; rank < ranks_; ++rank) {
      CallRecord begin = Make(RecordKind::kBegin, Call::kCommInit, kCaller);
      begin.payload = ring::CommInitPayload{.comm = Comm(rank),
                                            .nranks = ranks_,
                                            .rank = rank,
                                            .device = rank,
                                            .uid = 7,
                                            .color = -1};
      model_.OnRecord(begin);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      CallRecord end = Make(RecordKind::kEnd, Call::kCommInit, kCaller);
      end.payload = ring::EndPayload{
          .result = 0, .comm = Comm(rank), .nranks = ranks_, .rank = rank, .device = rank};
      model_.OnRecord(end);
    }
  }

  void Stream(ThreadId thread) {
    CallRecord made = Make(RecordKind::kPoint, Call::kStreamCreate, thread);
    made.payload = ring::StreamPayload{.stream = kStream, .flags = 0, .device = 0};
    model_.OnRecord(made);
  }

  void EnterAllReduce() {
    CallRecord begin = Make(RecordKind::kBegin, Call::kAllReduce, kCaller);
    auto& operation = begin.Make<ring::OperationPayload>();
    operation.comm = Comm(0);
    operation.stream = kStream;
    operation.count = 1024;
    operation.datatype = 7;
    operation.root_or_peer = -1;
    model_.OnRecord(begin);
    in_call_ = begin.order;
    since_ns_ = now_;
  }

  // What a second thread that registers a window leaves behind: a call of NCCL.
  void CallFromHelper() {
    for (const RecordKind kind : {RecordKind::kBegin, RecordKind::kEnd}) {
      CallRecord record = Make(kind, Call::kCommOther, kHelper);
      if (kind == RecordKind::kEnd) record.payload = ring::EndPayload{.result = 0};
      model_.OnRecord(record);
    }
    helper_ = true;
  }

  Verdict Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += kTenth;
      Round round;
      round.round = static_cast<uint64_t>(i) + 1;
      round.begin_ns = now_;
      round.end_ns = now_ + 1000;
      ProcessState& state = round.processes.emplace_back();
      state.process = kProcess;
      state.answered = true;
      ThreadState caller;
      caller.thread = kCaller;
      caller.tid = 1000;
      caller.published = caller.collected = records_of_caller_;
      caller.entered = 2;
      caller.left = 1;
      caller.call_id = 1;
      caller.call_order = in_call_;
      caller.since_ns = since_ns_;
      caller.os_state = OsState::kSleeping;
      caller.cpu_ticks = 5;
      state.threads.push_back(caller);
      if (helper_) {
        ThreadState helper;
        helper.thread = kHelper;
        helper.tid = 1001;
        helper.published = helper.collected = 2;
        helper.entered = helper.left = 1;
        helper.os_state = OsState::kSleeping;
        helper.sleep = ThreadSleep::kThread;
        helper.cpu_ticks = 5;
        state.threads.push_back(helper);
      }
      for (int rank = 0; rank < ranks_; ++rank) {
        CommStateNow comm;
        comm.comm = Comm(rank);
        comm.state = CommState::kReady;
        state.comms.push_back(comm);
      }
      model_.OnRound(round);
    }
    return model_.Current();
  }

 private:
  static constexpr StreamId kStream = 2;

  static CommId Comm(int rank) { return static_cast<CommId>(rank + 1); }

  CallRecord Make(RecordKind kind, Call call, ThreadId thread) {
    CallRecord record;
    record.process = kProcess;
    record.thread = thread;
    record.kind = kind;
    record.call = call;
    record.call_site = 0x50;
    record.order = ++order_;
    record.time_ns = ++now_;
    records_of_caller_ += thread == kCaller ? 1 : 0;
    return record;
  }

  const int ranks_;
  JobModel model_;
  uint64_t now_ = 1'000'000'000, since_ns_ = 0, order_ = 0, in_call_ = 0, records_of_caller_ = 0;
  bool helper_ = false;
};

}  // namespace

Verdict OneThreadForAllRanks(int ranks, bool helper) {
  OneProcess process(ranks);
  process.MakeCommunicator();
  process.Stream(kCaller);
  if (helper) process.CallFromHelper();
  process.EnterAllReduce();
  return process.Rounds(7);
}

}  // namespace gordian::model::testing
