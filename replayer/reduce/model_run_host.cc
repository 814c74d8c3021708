// The machine's threads: what a call does, waits for and leaves behind. Rules W4, W5, W11 and W15
// of docs/wait-model.md.
#include <algorithm>

#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer {

using model::Call;
using model::CallRecord;
using model::RecordKind;
using model::WaitKind;
using model::WorkKind;

namespace {

constexpr uint64_t kStepNs = 1000;

}  // namespace

CallRecord& Machine::Emit(size_t rank, size_t thread, RecordKind kind, Call call, const Op* op) {
  if (stepwise_) log_.clear();
  CallRecord& record = log_.emplace_back();
  record.process = static_cast<model::ProcessId>(rank + 1);
  record.thread = static_cast<model::ThreadId>(thread + 1);
  record.kind = kind;
  record.call = call;
  record.call_id = static_cast<uint16_t>(static_cast<int>(call) + 1);
  record.order = ++At(rank).order;
  record.time_ns = now_ns_ += kStepNs;
  record.call_site = op == nullptr ? 0 : op->id;
  ++At(rank).threads[thread].published;
  return record;
}

CallRecord& Machine::Enter(size_t rank, size_t thread, Call call, const Op* op) {
  CallRecord& record = Emit(rank, thread, RecordKind::kBegin, call, op);
  Thread& caller = At(rank).threads[thread];
  caller.in_call = true;
  caller.call_order = record.order;
  caller.call_since = now_ns_;
  ++caller.entered;
  return record;
}

bool Machine::MayBegin(const Op& op) const {
  return std::all_of(op.gates.begin(), op.gates.end(), [&](const Gate& gate) {
    return (gate.moment == Gate::Moment::kCalled ? begun_ : returned_).contains(gate.after);
  });
}

// Begins the thread's next call, and returns from it or from the call that it is in. Returns whether
// it did either.
bool Machine::MoveThread(size_t rank, size_t index) {
  if (At(rank).dead || At(rank).stopped) return false;
  Thread& thread = At(rank).threads[index];
  if (thread.at >= thread.ops->size()) return RunEnd(rank, index);
  const Op& op = (*thread.ops)[thread.at];
  if (!thread.in_call) {
    if (begun_.contains(op.id)) return false;  // sleeps or computes
    if (!MayBegin(op)) return false;
    begun_.insert(op.id);
    if (op.kind == OpKind::kSleep || op.kind == OpKind::kSpin) return true;
    thread.called = true;
    Begin(rank, index, op);
    if (EndsThread(op.kind)) return true;
    if (thread.in_call &&
        (!CanReturn(rank, thread, &op) || (stepwise_ && MustConnect(rank, thread))))
      return true;
  } else if (!CanReturn(rank, thread, &op)) {
    return false;
  }
  if (thread.in_call) Return(rank, index, op);
  returned_.insert(op.id);
  ++thread.at;
  return true;
}

bool Machine::RunThread(size_t rank, size_t index) {
  bool moved = false;
  while (MoveThread(rank, index)) moved = true;
  return moved;
}

// After the last call: the first thread waits for the others, then for the device, and exits.
bool Machine::RunEnd(size_t rank, size_t index) {
  Thread& thread = At(rank).threads[index];
  if (index > 0 || At(rank).leaves) return false;
  for (const Thread& other : At(rank).threads) {
    if (other.at < other.ops->size()) return false;
  }
  bool moved = false;
  if (!thread.in_call) {
    auto& wait = Enter(rank, index, Call::kHostWait, nullptr).Make<ring::HostWaitPayload>();
    wait.kind = WaitKind::kDevice;
    wait.device = 0;
    thread.covered.clear();
    CoverDevice(At(rank), &thread.covered);
    thread.leaving = moved = true;
  }
  if (!std::all_of(thread.covered.begin(), thread.covered.end(),
                   [&](const Place& place) { return IsDone(At(rank), place); }))
    return moved;
  Emit(rank, index, RecordKind::kEnd, Call::kHostWait, nullptr);
  thread.in_call = false;
  ++thread.left;
  At(rank).leaves = At(rank).dead = true;
  At(rank).ended_ns = now_ns_;
  return true;
}

void Machine::CoverDevice(const Rank& rank, std::vector<Place>* covered) const {
  for (size_t i = 0; i < rank.queues.size(); ++i)
    covered->push_back({static_cast<int>(i), rank.queues[i].items.size()});
}

void Machine::Begin(size_t rank, size_t thread, const Op& op) {
  Thread& caller = At(rank).threads[thread];
  if (op.captured && op.kind != OpKind::kGroupStart && op.kind != OpKind::kGroupEnd)
    return Capture(rank, thread, op);
  switch (op.kind) {
    case OpKind::kGroupStart:
      caller.in_group = true;
      caller.group = ++At(rank).groups;
      caller.parts.clear();
      caller.capturing.clear();
      caller.meetings.clear();
      return;
    case OpKind::kGroupEnd:
      Enter(rank, thread, Call::kGroupEnd, &op).Make<ring::GroupPayload>().group = caller.group;
      for (const Part& part : caller.parts) SlotOf(rank, part).called = true;
      return;
    case OpKind::kCommInit:
    case OpKind::kCommSplit:
      return BeginMaking(rank, thread, op);
    case OpKind::kCommFinalize:
    case OpKind::kCommDestroy:
    case OpKind::kCommAbort:
    case OpKind::kWindowRegister: {
      const Call call = op.kind == OpKind::kCommFinalize  ? Call::kCommFinalize
                        : op.kind == OpKind::kCommDestroy ? Call::kCommDestroy
                        : op.kind == OpKind::kCommAbort   ? Call::kCommAbort
                                                          : Call::kCommWindowRegister;
      Enter(rank, thread, call, &op).Make<ring::CommCallPayload>().comm =
          static_cast<model::CommId>(op.comm + 1);
      Local& local = At(rank).comms.at(op.comm);
      caller.meetings.clear();
      if (op.kind == OpKind::kCommDestroy) local.destroyed = true;
      if (op.kind == OpKind::kWindowRegister) {
        caller.meetings.push_back({op.kind, op.comm, local.windows++});
        ++meetings_[caller.meetings.back()];
      }
      return;
    }
    case OpKind::kCaptureBegin:
      caller.captures[op.stream] = op.graph;
      At(rank).graphs[static_cast<size_t>(op.graph)] = Graph();
      return;
    case OpKind::kCaptureEnd: {
      std::erase_if(caller.captures,
                    [&](const auto& capture) { return capture.second == op.graph; });
      At(rank).graphs[static_cast<size_t>(op.graph)].ready = true;
      const uint64_t graph = 0x1000u + static_cast<uint64_t>(op.graph);
      Emit(rank, thread, RecordKind::kPoint, Call::kGraphEndCapture, &op).payload =
          ring::GraphPayload{.what = ring::GraphCall::kEndCapture,
                             .graph = graph,
                             .capture = 0x100u + static_cast<uint64_t>(op.graph)};
      Emit(rank, thread, RecordKind::kPoint, Call::kGraphInstantiate, &op).payload =
          ring::GraphPayload{.what = ring::GraphCall::kInstantiate,
                             .graph = graph,
                             .made = 0x2000u + static_cast<uint64_t>(op.graph)};
      return;
    }
    case OpKind::kGraphLaunch:
      return LaunchGraph(rank, thread, op);
    case OpKind::kEventRecord:
    case OpKind::kStreamWaitEvent:
    case OpKind::kKernel:
    case OpKind::kHostFunction:
      return BeginWork(rank, thread, op);
    case OpKind::kExit:
    case OpKind::kKill:
    case OpKind::kStop:
      return EndProcess(rank, op);
    default:
      break;
  }
  if (IsOperation(op.kind)) return BeginOperation(rank, thread, op);
  if (IsHostWait(op.kind)) BeginHostWait(rank, thread, op);
}

void Machine::EndProcess(size_t index, const Op& op) {
  Rank& rank = At(index);
  rank.ended_ns = now_ns_;
  if (op.kind == OpKind::kStop) {
    rank.stopped = true;
    return;
  }
  rank.dead = true;
  (op.kind == OpKind::kExit ? rank.exit_code : rank.exit_signal) = op.exit_code;
}

void Machine::FillOperation(size_t rank, size_t thread, const Part& part, CallRecord* record) {
  const Op& op = *part.op;
  const Thread& caller = At(rank).threads[thread];
  auto& operation = record->Make<ring::OperationPayload>();
  operation.comm = static_cast<model::CommId>(op.comm + 1);
  operation.stream = StreamIdOf(op.stream);
  operation.count = op.count;
  operation.datatype = op.datatype;
  operation.reduce_op = op.reduce_op;
  operation.root_or_peer = op.root_or_peer;
  operation.sequence = part.called;
  if (!caller.in_group) return;
  record->flags |= model::kInGroup;
  operation.group = static_cast<uint16_t>(caller.group);
}

void Machine::BeginOperation(size_t rank, size_t thread, const Op& op) {
  Thread& caller = At(rank).threads[thread];
  const Part part = Number(rank, op, /*from_graph=*/false);
  SlotOf(rank, part).op = &op;
  if (!IsTransfer(op.kind)) ++At(rank).comms.at(op.comm).open;
  if (caller.in_group) {
    FillOperation(rank, thread, part,
                  &Emit(rank, thread, RecordKind::kBegin, CallOf(op.kind), &op));
    Emit(rank, thread, RecordKind::kEnd, CallOf(op.kind), &op);
    ++caller.entered;
    ++caller.left;
    caller.parts.push_back(part);
    return;
  }
  FillOperation(rank, thread, part, &Enter(rank, thread, CallOf(op.kind), &op));
  SlotOf(rank, part).called = true;
  caller.parts = {part};
  caller.meetings.clear();
}

void Machine::BeginMaking(size_t rank, size_t thread, const Op& op) {
  Thread& caller = At(rank).threads[thread];
  const bool splits = op.kind == OpKind::kCommSplit;
  const Meeting meeting = splits
                              ? Meeting{op.kind, op.parent, At(rank).comms.at(op.parent).splits++}
                              : Meeting{op.kind, op.comm, 0};
  const Call call = splits ? Call::kCommSplit : Call::kCommInit;
  CallRecord& record = caller.in_group ? Emit(rank, thread, RecordKind::kBegin, call, &op)
                                       : Enter(rank, thread, call, &op);
  auto& init = record.Make<ring::CommInitPayload>();
  init.comm = static_cast<model::CommId>(op.comm + 1);
  init.uid = UidOf(meeting);
  init.device = 0;
  if (splits) {
    init.parent = static_cast<model::CommId>(op.parent + 1);
    init.color = op.color;
  } else {
    init.nranks = static_cast<int>(Comm(op.comm).members.size());
    init.rank = At(rank).comms.at(op.comm).place;
  }
  if (launch_order_) record.flags |= model::kLaunchOrder;
  ++meetings_[meeting];
  if (!caller.in_group) {
    caller.parts.clear();
    caller.meetings = {meeting};
    return;
  }
  record.flags |= model::kInGroup;
  CallRecord& ends = Emit(rank, thread, RecordKind::kEnd, call, &op);
  ends.flags |= model::kInGroup;
  auto& end = ends.Make<ring::EndPayload>();
  end.comm = static_cast<model::CommId>(op.comm + 1);
  if (op.comm >= 0) {
    end.nranks = static_cast<int>(Comm(op.comm).members.size());
    end.rank = At(rank).comms.at(op.comm).place;
  }
  ++caller.entered;
  ++caller.left;
  caller.meetings.push_back(meeting);
}

void Machine::BeginWork(size_t rank, size_t thread, const Op& op) {
  Place place{op.stream, At(rank).queues[static_cast<size_t>(op.stream)].items.size()};
  std::vector<Place> after = Legacy(rank, op.stream);
  WorkKind kind = op.kind == OpKind::kKernel ? WorkKind::kKernels : WorkKind::kHostFunction;
  if (op.kind == OpKind::kEventRecord) {
    kind = WorkKind::kEventRecord;
    after.push_back(place);
    At(rank).events[static_cast<size_t>(op.event)] = std::move(after);
  } else {
    if (op.kind == OpKind::kStreamWaitEvent) {
      kind = WorkKind::kEventWait;
      const std::vector<Place>& behind = At(rank).events[static_cast<size_t>(op.event)];
      after.insert(after.end(), behind.begin(), behind.end());
    }
    place = Append(rank, op.stream, std::move(after));
  }
  auto& work =
      Emit(rank, thread, RecordKind::kPoint, Call::kStreamWork, &op).Make<ring::WorkPayload>();
  work.kind = kind;
  work.stream = StreamIdOf(op.stream);
  work.ordinal = place.ordinal;
  if (op.event >= 0) work.event = EventHandle(op.event);
}

void Machine::BeginHostWait(size_t rank, size_t thread, const Op& op) {
  Thread& caller = At(rank).threads[thread];
  caller.covered.clear();
  if (op.stream >= 0)
    caller.covered.push_back(
        {op.stream, At(rank).queues[static_cast<size_t>(op.stream)].items.size()});
  if (op.event >= 0) caller.covered = At(rank).events[static_cast<size_t>(op.event)];
  if (op.kind == OpKind::kDeviceSync || op.kind == OpKind::kFree)
    CoverDevice(At(rank), &(caller.covered = {}));
  if (op.kind == OpKind::kCopy) {
    const std::vector<Place> legacy = Legacy(rank, op.stream);
    caller.covered.insert(caller.covered.end(), legacy.begin(), legacy.end());
  }
  if (op.kind == OpKind::kPoll) {  // leaves no record: only the state shows it
    caller.in_call = true;
    caller.call_since = now_ns_;
    return;
  }
  auto& wait = Enter(rank, thread, Call::kHostWait, &op).Make<ring::HostWaitPayload>();
  wait.device = 0;
  wait.kind = op.kind == OpKind::kStreamSync   ? WaitKind::kStream
              : op.kind == OpKind::kEventSync  ? WaitKind::kEvent
              : op.kind == OpKind::kDeviceSync ? WaitKind::kDevice
              : op.kind == OpKind::kFree       ? WaitKind::kFree
                                               : WaitKind::kCopy;
  if (op.event >= 0) wait.event = EventHandle(op.event);
  if (op.stream < 0) return;
  wait.stream = StreamIdOf(op.stream);
  wait.ordinal = At(rank).queues[static_cast<size_t>(op.stream)].items.size();
}

// W15: the first use waits on the host until the others have made the call too. `part`: of an
// operation that is called; one that is captured (null) has no number yet, and meets whatever the
// others use for the first time.
bool Machine::Connects(size_t rank, const Op& op, const Part* part) const {
  const Local& local = ranks_[rank].comms.at(op.comm);
  const CommState& comm = comms_[static_cast<size_t>(op.comm)];
  const model::FirstUses uses = UsesOf(rank, op);
  const auto called = [&](int member, bool sends) {
    if (part == nullptr) return false;
    if (IsCollective(op.kind))
      return comm.collectives[part->number][static_cast<size_t>(member)].called;
    const auto& [send, receive] = comm.transfers.at(
        sends ? std::pair(local.place, member) : std::pair(member, local.place))[part->number];
    return (sends ? receive : send).called;
  };
  if (uses.collectives) {
    if (!runtime_connect_ || local.used) return true;
    for (int member = 0; member < static_cast<int>(Comm(op.comm).members.size()); ++member) {
      if (!called(member, false) && !Uses(op.comm, member, nullptr)) return false;
    }
    return true;
  }
  for (const auto& peer : uses.peers) {
    const auto& [member, sends] = peer;
    const std::pair<int, bool> answer(local.place, !sends);
    if (!local.peers.contains(peer) && !called(member, sends) && !Uses(op.comm, member, &answer))
      return false;
  }
  return true;
}

bool Machine::Uses(int comm, int member, const std::pair<int, bool>* peer) const {
  const int index = Comm(comm).members[static_cast<size_t>(member)];
  if (index < 0) return false;
  const Rank& rank = ranks_[static_cast<size_t>(index)];
  const auto local = rank.comms.find(comm);
  if (local == rank.comms.end()) return false;
  if (peer == nullptr ? local->second.used : local->second.peers.contains(*peer)) return true;
  const auto is_it = [&](const Op& op) {
    if (op.comm != comm) return false;
    const model::FirstUses uses = UsesOf(static_cast<size_t>(index), op);
    return peer == nullptr
               ? uses.collectives
               : std::find(uses.peers.begin(), uses.peers.end(), *peer) != uses.peers.end();
  };
  for (const Thread& thread : rank.threads) {
    if (!thread.in_call || thread.at >= thread.ops->size()) continue;
    const OpKind kind = (*thread.ops)[thread.at].kind;
    if (kind != OpKind::kGroupEnd && !IsOperation(kind)) continue;
    for (const Part& part : thread.parts) {
      if (is_it(*part.op)) return true;
    }
    for (const Op* op : thread.capturing) {
      if (is_it(*op)) return true;
    }
  }
  return false;
}

// True if everything that the rank launched on the communicator is done.
bool Machine::IsIdle(size_t rank, int comm) const {
  return std::none_of(launches_.begin(), launches_.end(), [&](const Launch& launch) {
    return launch.rank == static_cast<int>(rank) && launch.comm == comm && !launch.done;
  });
}

bool Machine::CanReturn(size_t index, const Thread& thread, const Op* op) const {
  const Rank& rank = ranks_[index];
  if (IsHostWait(op->kind)) {
    return std::all_of(thread.covered.begin(), thread.covered.end(),
                       [&](const Place& place) { return IsDone(rank, place); });
  }
  for (const Meeting& meeting : thread.meetings) {
    if (meetings_.at(meeting) < Comm(std::get<1>(meeting)).members.size()) return false;
  }
  if (op->kind == OpKind::kCommDestroy || op->kind == OpKind::kCommFinalize) {
    if (!IsIdle(index, op->comm)) return false;
    const std::vector<int>& members = Comm(op->comm).members;
    const Local& own = rank.comms.at(op->comm);
    for (size_t place = 0; place < members.size(); ++place) {
      const int member = members[place], peer = static_cast<int>(place);
      if (op->kind == OpKind::kCommFinalize || member < 0) continue;
      // Only members that connect now wait for each other.
      if (runtime_connect_ && !own.used && !own.peers.contains({peer, false}) &&
          !own.peers.contains({peer, true}))
        continue;
      const Rank& other = ranks_[static_cast<size_t>(member)];
      const Local& theirs = other.comms.at(op->comm);
      const bool ended = theirs.destroyed && IsIdle(static_cast<size_t>(member), op->comm);
      if (!ended && !theirs.aborted && !other.dead) return false;
    }
    return true;
  }
  return std::all_of(thread.parts.begin(), thread.parts.end(),
                     [&](const Part& part) { return Connects(index, *part.op, &part); }) &&
         std::all_of(thread.capturing.begin(), thread.capturing.end(),
                     [&](const Op* op) { return Connects(index, *op, nullptr); });
}

void Machine::Return(size_t index, size_t number, const Op& op) {
  Rank& rank = At(index);
  Thread& thread = rank.threads[number];
  thread.in_call = false;
  ++thread.left;
  for (const Op* captured : std::exchange(thread.capturing, {})) NoteUsed(index, *captured);
  if (op.captured && IsOperation(op.kind)) {
    Emit(index, number, RecordKind::kEnd, CallOf(op.kind), &op);
    return;
  }
  switch (op.kind) {
    case OpKind::kCommInit:
    case OpKind::kCommSplit: {
      auto& end = Emit(index, number, RecordKind::kEnd,
                       op.kind == OpKind::kCommSplit ? Call::kCommSplit : Call::kCommInit, &op)
                      .Make<ring::EndPayload>();
      end.comm = static_cast<model::CommId>(op.comm + 1);
      end.device = 0;
      if (op.comm < 0) return;
      end.nranks = static_cast<int>(Comm(op.comm).members.size());
      end.rank = rank.comms.at(op.comm).place;
      rank.comms.at(op.comm).made = true;
      return;
    }
    case OpKind::kGroupEnd:
      Enqueue(index, number, /*group=*/true);
      thread.in_group = false;
      thread.meetings.clear();
      Emit(index, number, RecordKind::kEnd, Call::kGroupEnd, &op);
      return;
    case OpKind::kCommAbort:
      rank.comms.at(op.comm).aborted = true;
      for (Launch& launch : launches_) {
        if (launch.rank != static_cast<int>(index) || launch.comm != op.comm || launch.done)
          continue;
        launch.aborted = true;
        for (const Part& part : launch.parts) {
          SlotOf(index, part).aborted = true;
          std::vector<Started>& started = comms_[static_cast<size_t>(op.comm)].started;
          if (!IsTransfer(part.op->kind) && part.number < started.size())
            started[part.number].aborted = true;
        }
      }
      Emit(index, number, RecordKind::kEnd, Call::kCommAbort, &op);
      return;
    case OpKind::kCommFinalize:
      Emit(index, number, RecordKind::kEnd, Call::kCommFinalize, &op);
      return;
    case OpKind::kCommDestroy:
      Emit(index, number, RecordKind::kEnd, Call::kCommDestroy, &op);
      return;
    case OpKind::kWindowRegister:
      Emit(index, number, RecordKind::kEnd, Call::kCommWindowRegister, &op);
      return;
    case OpKind::kPoll:
      --thread.left;  // it never counted as a call that may block
      return;
    default:
      break;
  }
  if (IsHostWait(op.kind)) {
    Emit(index, number, RecordKind::kEnd, Call::kHostWait, &op);
    return;
  }
  Enqueue(index, number, /*group=*/false);
  auto& end = Emit(index, number, RecordKind::kEnd, CallOf(op.kind), &op).Make<ring::EndPayload>();
  end.stream = StreamIdOf(op.stream);
  end.ordinal = rank.queues[static_cast<size_t>(op.stream)].items.size();
}

}  // namespace gordian::replayer
