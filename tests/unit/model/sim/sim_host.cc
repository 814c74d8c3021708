// The host side of the simulated job.
#include <algorithm>

#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {
namespace {}  // namespace

bool SimJob::HostEnabled(int process) const {
  const Proc& p = procs_[process];
  if (p.dead || p.stopped || p.pc >= programs_[process].size()) return false;
  const Op& op = programs_[process][p.pc];
  if (op.what == Do::kSleep || op.what == Do::kSpin || Granted(process)) return false;
  if (p.asleep) return WakesNow(process);
  return !p.in_call || CallCanEnd(process, op);
}

bool SimJob::WakesNow(int process) const {
  const Proc& p = procs_[process];
  const Op& op = programs_[process][p.pc];
  if (p.wakes_ns != 0 && now_ >= p.wakes_ns) return true;
  const auto answered = answers_.find(op.event);
  if (op.what == Do::kRead) return answered != answers_.end() && answered->second > 0;
  if (op.what == Do::kWaitFlag) return p.flags.count(op.event) > 0;
  return op.what == Do::kJoin &&
         p.helpers[op.event].pc >= helper_programs_[process][op.event].size();
}

// What was asked of a non-blocking communicator last: to be made, to connect, to be finalized.
bool SimJob::CommReady(int process, int comm) const {
  const Proc& p = procs_[process];
  for (int member : comms_[comm].members) {
    if (procs_[member].made.count(comm) == 0 && !Granted(member)) return false;
  }
  for (const Launch& launch : launches_) {
    if (launch.process != process || launch.comm != comm) continue;
    if (p.finalized.count(comm) > 0 && !launch.done) return false;
    for (const OpPart& part : launch.parts) {
      for (size_t r = 0; cold_ && r < comms_[comm].members.size(); ++r) {
        if (!Called(comm, static_cast<int>(r), part.sequence)) return false;
      }
    }
  }
  return true;
}

bool SimJob::CallCanEnd(int process, const Op& op) const {
  const Proc& p = procs_[process];
  const bool slow = op.what == Do::kDestroy && now_ < p.call_since + slow_destroy_ns;
  return !slow && NothingHoldsUp(process, op);
}

bool SimJob::NothingHoldsUp(int process, const Op& op) const {
  const Proc& p = procs_[process];
  const bool of_comm = op.what == Do::kInit || op.what == Do::kSplit ||
                       op.what == Do::kCollective || op.what == Do::kFinalize;
  if (of_comm && !comms_[op.comm].blocking) return true;
  switch (op.what) {
    case Do::kInit:
    case Do::kSplit: {
      const int over = op.what == Do::kInit ? op.comm : comms_[op.comm].parent;
      const CommUid uid = UidOf(op.comm);
      if (op.comm == never_made) return false;
      for (int member : comms_[over].members) {
        const Proc& other = procs_[member];
        bool called = false;
        for (int made : other.made) called = called || UidOf(made) == uid;
        if (!called && !Granted(member)) return false;
      }
      return true;
    }
    case Do::kCollective:
    case Do::kSend:
    case Do::kRecv:
    case Do::kGroupEnd:
      for (const OpPart& part : p.group_ops) {
        if (!Connects(process, part.op, part.sequence)) return false;
      }
      return true;
    case Do::kGraph:
      return process != slow_capture && Connects(process, Now(process), std::nullopt);
    case Do::kPollComm:
      return CommReady(process, op.comm);
    case Do::kFinalize:
    case Do::kDestroy:
      for (const Launch& launch : launches_) {
        if (launch.process == process && launch.comm == op.comm && !launch.done) return false;
      }
      if (op.what == Do::kFinalize) return true;
      for (int member : comms_[op.comm].members) {
        const Proc& other = procs_[member];
        if (other.destroyed.count(op.comm) == 0 && other.aborted.count(op.comm) == 0 &&
            other.finalized.count(op.comm) == 0 && !other.dead && !Granted(member)) {
          return false;
        }
      }
      return true;
    case Do::kWindow:
      for (int member : comms_[op.comm].members) {
        auto theirs = procs_[member].windows.find(op.comm);
        if (Granted(member)) continue;
        if (theirs == procs_[member].windows.end() || theirs->second < p.windows.at(op.comm)) {
          return false;
        }
      }
      return true;
    default:
      if (p.polled && p.wakes_ns != 0 && now_ >= p.wakes_ns) return true;
      for (const auto& [stream, ordinal] : p.covered) {
        if (!DoneTo(p, stream, ordinal)) return false;
      }
      return true;
  }
}

void SimJob::Host(int process) {
  Proc& p = procs_[process];
  const Op& op = programs_[process][p.pc];
  ++p.steps;
  if (p.asleep) {
    p.asleep = false;
    if (op.what == Do::kRead && answers_[op.event] > 0) --answers_[op.event];
    ++p.pc;
    return;
  }
  if (!p.in_call) Begin(process, op);
  if (p.in_call && CallCanEnd(process, op)) {
    EndCall(process, op);
    p.in_call = false;
    ++p.left;
    ++p.pc;
  }
}

SimJob::OpPart SimJob::Number(int process, const Op& op) {
  Proc& p = procs_[process];
  OpPart part;
  part.op = op;
  part.called = op.what == Do::kCollective
                    ? p.eager[op.comm]++
                    : p.eager_p2p[{op.comm, op.root_or_peer, op.what == Do::kSend}]++;
  part.sequence = op.what == Do::kCollective
                      ? p.next_sequence[op.comm]++
                      : p.next_p2p[{op.comm, op.root_or_peer, op.what == Do::kSend}]++;
  return part;
}

void SimJob::FillOperation(CallRecord* r, const OpPart& part, int process) {
  auto& operation = r->Make<ring::OperationPayload>();
  operation.comm = CommIdOf(part.op.comm);
  operation.stream = Id(part.op.stream);
  operation.count = part.op.count;
  operation.datatype = part.op.datatype;
  operation.reduce_op = part.op.call == Call::kAllReduce ? part.op.reduce_op : 255;
  operation.root_or_peer = part.op.root_or_peer;
  operation.sequence = part.called;
  if (part.op.in_place) r->flags |= kInPlace;
  if (procs_[process].in_group) {
    r->flags |= kInGroup;
    operation.group = static_cast<uint16_t>(procs_[process].group);
  }
}

void SimJob::Cover(Proc* p, int stream, bool and_legacy) {
  const auto it = p->streams.find(stream);
  p->covered.push_back({stream, it == p->streams.end() ? 0 : it->second.size()});
  if (!and_legacy) return;
  for (const auto& [other, works] : p->streams) {
    if (stream == 0 ? other != 0 : other == 0) p->covered.push_back({other, works.size()});
  }
}

// Streams 1.. are blocking ones when a program uses stream 0 at all, else non-blocking.
void SimJob::Begin(int process, const Op& op) {
  Proc& p = procs_[process];
  const bool legacy = p.legacy;
  auto stream_of = [&](int stream) -> std::vector<Work>& {
    if (p.streams.count(stream) == 0) {
      Emit(process, RecordKind::kPoint, Call::kStreamCreate).payload =
          ring::StreamPayload{.stream = Id(stream),
                              .flags = stream == 0 ? kStreamLegacy
                                       : legacy    ? kStreamBlocking
                                                   : 0u,
                              .device = 0,
                              .connections = one_queue ? 1u : 0u,
                              .handle = 0x5000u + static_cast<uint64_t>(stream)};
    }
    return p.streams[stream];
  };
  auto blocks = [&](Call call) -> CallRecord& {
    CallRecord& r = Emit(process, RecordKind::kBegin, call);
    p.in_call = true;
    p.call_order = r.order;
    p.call_since = now_;
    ++p.entered;
    return r;
  };
  auto host_wait = [&](WaitKind kind) -> ring::HostWaitPayload& {
    auto& wait = blocks(Call::kHostWait).Make<ring::HostWaitPayload>();
    wait.kind = kind;
    wait.device = 0;
    p.covered.clear();
    return wait;
  };
  auto work = [&](WorkKind kind) {
    std::vector<Work>& works = stream_of(op.stream);
    Work w;
    w.what = op.what;
    w.endless = op.endless;
    for (const auto& [other, others] : p.streams) {
      if (other == op.stream || !legacy) continue;
      if (op.stream == 0 || other == 0) w.after.push_back({other, others.size()});
    }
    if (kind == WorkKind::kEventWait && p.events.count(op.event) > 0) {
      for (const auto& place : p.events[op.event]) w.after.push_back(place);
    }
    if (op.flags) w.word = op.event;
    const bool memory = kind == WorkKind::kMemoryWait || kind == WorkKind::kMemoryWrite;
    if (memory) {
      w.word = op.event;
      w.value = op.value;
      w.condition = op.condition;
    }
    if (op.what == Do::kSignal || op.what == Do::kWaitSignal) {
      w.comm = op.comm;
      w.peer = op.root_or_peer;
      w.value = op.count;
      uint64_t& called = p.signals[{op.comm, op.root_or_peer, op.what == Do::kSignal}];
      w.number = called;
      called += op.count;
      works.push_back(w);
      const Call call = op.what == Do::kSignal ? Call::kSignal : Call::kWaitSignal;
      CallRecord& begin = Emit(process, RecordKind::kBegin, call);
      begin.payload = ring::SignalPayload{.comm = CommIdOf(op.comm),
                                          .stream = Id(op.stream),
                                          .peer = op.root_or_peer,
                                          .count = static_cast<uint32_t>(op.count),
                                          .number = static_cast<uint32_t>(w.number)};
      works.back().order = begin.order;
      Emit(process, RecordKind::kEnd, call).payload =
          ring::EndPayload{.stream = Id(op.stream), .ordinal = works.size()};
      ++p.entered;
      ++p.left;
      ++p.pc;
      return;
    }
    works.push_back(w);
    CallRecord& r = Emit(process, RecordKind::kPoint, Call::kStreamWork);
    auto& payload = r.Make<ring::WorkPayload>();
    payload.kind = kind;
    payload.stream = Id(op.stream);
    payload.ordinal = works.size();
    payload.event = kind == WorkKind::kEventWait ? 0x9000u + static_cast<uint64_t>(op.event) : 0;
    if (memory) {
      payload.event = 0x7000u + 16 * static_cast<uint64_t>(op.event);
      payload.value = op.value;
      r.flags =
          static_cast<uint8_t>(static_cast<uint8_t>(op.condition) | (op.own ? kMemoryOwn : 0));
    }
    ++p.pc;
  };
  switch (op.what) {
    case Do::kInit:
    case Do::kSplit: {
      const bool grows = comms_[op.comm].grown_from >= 0;
      CallRecord& r = blocks(grows                  ? Call::kCommGrow
                             : op.what == Do::kInit ? Call::kCommInit
                                                    : Call::kCommSplit);
      auto& init = r.Make<ring::CommInitPayload>();
      init.comm = CommIdOf(op.comm);
      init.uid = NameOf(op.comm, process);
      init.device = 0;
      if (op.what == Do::kInit) {
        init.nranks = static_cast<int>(comms_[op.comm].members.size());
        init.rank = RankIn(op.comm, process);
      } else {
        init.parent = CommIdOf(comms_[op.comm].parent);
        init.color = comms_[op.comm].color;
      }
      if (launch_order) r.flags |= kLaunchOrder;
      p.made.insert(op.comm);
      if (const CommUid other = OtherNameOf(op.comm, process); other != 0) {
        CallRecord same = r;
        same.kind = RecordKind::kPoint;
        std::get<ring::CommInitPayload>(same.payload).uid = other;
        CallRecord& point = Emit(process, RecordKind::kPoint, Call::kCommGrow);
        same.order = point.order;
        point = same;
      }
      if (!comms_[op.comm].name.empty()) {
        auto& name = Emit(process, RecordKind::kText, Call::kCommInit).Make<ring::TextPayload>();
        name.comm = CommIdOf(op.comm);
        comms_[op.comm].name.copy(name.text, sizeof name.text);
      }
      break;
    }
    case Do::kCollective:
    case Do::kSend:
    case Do::kRecv: {
      stream_of(op.stream);
      OpPart part = Number(process, op);
      if (p.in_group) {
        CallRecord& r = Emit(process, RecordKind::kBegin, op.call);
        FillOperation(&r, part, process);
        part.order = r.order;
        p.group_ops.push_back(part);
        Emit(process, RecordKind::kEnd, op.call);
        ++p.entered;
        ++p.left;
        ++p.pc;
        break;
      }
      CallRecord& r = blocks(op.call);
      FillOperation(&r, part, process);
      part.order = r.order;
      p.group_ops = {part};
      break;
    }
    case Do::kGroupStart:
      p.in_group = true;
      ++p.group;
      p.group_ops.clear();
      ++p.pc;
      break;
    case Do::kGroupEnd:
      blocks(Call::kGroupEnd).Make<ring::GroupPayload>().group = p.group;
      break;
    case Do::kKernel:
      work(WorkKind::kKernels);
      break;
    case Do::kHostFunction:
      work(WorkKind::kHostFunction);
      break;
    case Do::kEventWait:
      work(WorkKind::kEventWait);
      break;
    case Do::kMemoryWait:
      work(WorkKind::kMemoryWait);
      break;
    case Do::kMemoryWrite:
      work(WorkKind::kMemoryWrite);
      break;
    case Do::kSignal:
    case Do::kWaitSignal:
      work(WorkKind::kNoWork);
      break;
    case Do::kEventRecord: {
      const size_t size = stream_of(op.stream).size();
      std::vector<std::pair<int, uint64_t>> behind = {{op.stream, size}};
      for (const auto& [other, others] : p.streams) {
        if (other != op.stream && legacy && (op.stream == 0 || other == 0)) {
          behind.push_back({other, others.size()});
        }
      }
      p.events[op.event] = behind;
      Emit(process, RecordKind::kPoint, Call::kStreamWork).payload =
          ring::WorkPayload{.stream = Id(op.stream),
                            .kind = WorkKind::kEventRecord,
                            .ordinal = size,
                            .event = 0x9000u + static_cast<uint64_t>(op.event)};
      ++p.pc;
      break;
    }
    case Do::kStreamSync:
    case Do::kCopy: {
      const size_t size = stream_of(op.stream).size();
      auto& wait = host_wait(op.what == Do::kCopy ? WaitKind::kCopy : WaitKind::kStream);
      wait.stream = Id(op.stream);
      wait.ordinal = size;
      Cover(&p, op.stream, op.what == Do::kCopy && legacy);
      break;
    }
    case Do::kDeviceSync:
    case Do::kFree:
      host_wait(op.what == Do::kFree ? WaitKind::kFree : WaitKind::kDevice);
      for (const auto& [stream, works] : p.streams) p.covered.push_back({stream, works.size()});
      break;
    case Do::kEventSync:
      host_wait(WaitKind::kEvent).event = 0x9000u + static_cast<uint64_t>(op.event);
      p.covered = p.events[op.event];
      break;
    case Do::kPoll:  // no record: the state tells
    case Do::kPollComm:
      p.in_call = p.polled = true;
      p.call_since = now_;
      p.wakes_ns = op.after_ns == 0 ? 0 : now_ + op.after_ns;
      p.covered.clear();
      if (op.what == Do::kPoll) p.covered = p.events[op.event];
      break;
    case Do::kExit:
    case Do::kKill:
      p.dead = true;
      (op.what == Do::kExit ? p.exit_code : p.exit_signal) = op.root_or_peer;
      p.ended_ns = now_;
      break;
    case Do::kStop:
      p.stopped = true;
      break;
    case Do::kAbort:
      blocks(Call::kCommAbort).Make<ring::CommCallPayload>().comm = CommIdOf(op.comm);
      p.covered.clear();
      break;
    case Do::kDestroy:
      blocks(Call::kCommDestroy).Make<ring::CommCallPayload>().comm = CommIdOf(op.comm);
      p.destroyed.insert(op.comm);
      break;
    case Do::kFinalize:
      blocks(Call::kCommFinalize).Make<ring::CommCallPayload>().comm = CommIdOf(op.comm);
      p.covered.clear();
      break;
    case Do::kWindow:
      blocks(Call::kCommWindowRegister).Make<ring::CommCallPayload>().comm = CommIdOf(op.comm);
      ++p.windows[op.comm];
      break;
    case Do::kGraph:
      stream_of(op.stream);
      if (p.captured.count(op.event) == 0 && p.capturing < op.inside.size()) {
        OpPart part;
        part.op = Now(process);
        CallRecord& r = blocks(part.op.call);
        FillOperation(&r, part, process);
        auto& operation = std::get<ring::OperationPayload>(r.payload);
        operation.stream = Id(part.op.stream + 50);
        operation.sequence = 0x100 + static_cast<uint64_t>(op.event);
        r.flags |= kCapturing;
        break;
      }
      p.capturing = 0;
      LaunchGraph(process, op);
      ++p.pc;
      break;
    case Do::kNap:
    case Do::kRead:
    case Do::kWaitFlag:
    case Do::kJoin:
      p.asleep = true;
      p.wakes_ns = op.after_ns == 0 ? 0 : now_ + op.after_ns;
      break;
    case Do::kSetFlag:
      p.flags.insert(op.event);
      ++p.pc;
      break;
    case Do::kAnswer:
      ++answers_[op.event];
      ++p.pc;
      break;
    case Do::kFork:
      p.parent_waits = !op.endless;
      ++p.child;
      ++p.pc;
      break;
    case Do::kSleep:
    case Do::kSpin:
      break;
  }
}

void SimJob::LaunchGraph(int process, const Op& op) {
  Proc& p = procs_[process];
  const uint64_t number = static_cast<uint64_t>(op.event);
  if (p.captured.insert(op.event).second) {
    Emit(process, RecordKind::kPoint, Call::kGraphEndCapture).payload = ring::GraphPayload{
        .what = ring::GraphCall::kEndCapture, .graph = 0x1000 + number, .capture = 0x100 + number};
    Emit(process, RecordKind::kPoint, Call::kGraphInstantiate).payload = ring::GraphPayload{
        .what = ring::GraphCall::kInstantiate, .graph = 0x1000 + number, .made = 0x2000 + number};
  }
  Work w;
  w.launch = 0;
  const bool legacy = p.legacy;
  for (const auto& [other, others] : p.streams) {
    if (other != op.stream && legacy && (op.stream == 0 || other == 0)) {
      w.after.push_back({other, others.size()});
    }
  }
  std::vector<Work>& works = p.streams[op.stream];
  works.push_back(w);
  std::vector<int> mine;
  for (const Op& inner : op.inside) {
    Launch launch;
    launch.process = process;
    launch.comm = inner.comm;
    launch.places = {{op.stream, works.size()}};
    OpPart part;
    part.op = inner;
    part.sequence = inner.what == Do::kCollective
                        ? p.next_sequence[inner.comm]++
                        : p.next_p2p[{inner.comm, inner.root_or_peer, inner.what == Do::kSend}]++;
    launch.parts = {part};
    auto last = p.last_launch.find(inner.comm);
    if (last != p.last_launch.end()) launch.before = last->second;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (op.inside[i].stream == inner.stream) launch.behind.push_back(mine[i]);
    }
    mine.push_back(static_cast<int>(launches_.size()));
    p.last_launch[inner.comm] = mine.back();
    launches_.push_back(std::move(launch));
  }
  Emit(process, RecordKind::kPoint, Call::kStreamWork).payload =
      ring::WorkPayload{.stream = Id(op.stream),
                        .kind = WorkKind::kGraphLaunch,
                        .ordinal = works.size(),
                        .event = 0x2000 + number};
}

void SimJob::Enqueue(int process, std::vector<OpPart> parts, bool group, uint64_t group_number) {
  Proc& p = procs_[process];
  const bool legacy = p.legacy;
  std::map<int, size_t> before;  // the group does not stand behind itself
  for (const auto& [stream, works] : p.streams) before[stream] = works.size();
  // Nor do the operations of a group behind each other.
  const int issued = p.last_issued;
  std::map<int, uint64_t> place;  // stream -> ordinal
  std::map<int, int> launch_of;   // communicator -> launch
  for (const OpPart& part : parts) {
    auto [at, added] = place.try_emplace(part.op.stream, 0);
    if (added) {
      Work w;
      w.launch = 0;
      for (const auto& [other, others] : p.streams) {
        if (other != part.op.stream && legacy && (part.op.stream == 0 || other == 0)) {
          w.after.push_back({other, before[other]});
        }
      }
      p.streams[part.op.stream].push_back(w);
      at->second = p.streams[part.op.stream].size();
      if (group) {
        Emit(process, RecordKind::kEnqueue, Call::kGroupEnd).payload =
            ring::EnqueuePayload{.group = static_cast<uint32_t>(group_number),
                                 .stream = Id(part.op.stream),
                                 .ordinal = at->second};
      }
    }
    auto [it, fresh] = launch_of.try_emplace(part.op.comm, static_cast<int>(launches_.size()));
    if (fresh) {
      Launch launch;
      launch.process = process;
      launch.comm = part.op.comm;
      auto last = p.last_launch.find(part.op.comm);
      if (last != p.last_launch.end()) launch.before = last->second;
      p.last_launch[part.op.comm] = it->second;
      launch.issued_before = issued;
      launch.group = group;
      p.last_issued = it->second;
      launches_.push_back(launch);
    }
    Launch& launch = launches_[it->second];
    launch.parts.push_back(part);
    const std::pair<int, uint64_t> here = {part.op.stream, at->second};
    if (std::find(launch.places.begin(), launch.places.end(), here) == launch.places.end()) {
      launch.places.push_back(here);
    }
    NoteUsed(process, part.op);
  }
}

void SimJob::EndCall(int process, const Op& op) {
  Proc& p = procs_[process];
  const bool deferred = !comms_.empty() && !comms_[op.comm].blocking;
  const int32_t result = deferred ? 7 : 0;  // ncclInProgress
  switch (op.what) {
    case Do::kInit:
    case Do::kSplit: {
      const bool grows = comms_[op.comm].grown_from >= 0;
      Emit(process, RecordKind::kEnd,
           grows                  ? Call::kCommGrow
           : op.what == Do::kInit ? Call::kCommInit
                                  : Call::kCommSplit)
          .payload = ring::EndPayload{.result = result,
                                      .comm = CommIdOf(op.comm),
                                      .nranks = static_cast<int>(comms_[op.comm].members.size()),
                                      .rank = RankIn(op.comm, process)};
      return;
    }
    case Do::kCollective:
    case Do::kSend:
    case Do::kRecv: {
      Enqueue(process, p.group_ops, false, 0);
      const size_t ordinal = p.streams[op.stream].size();
      CallRecord& r = Emit(process, RecordKind::kEnd, op.call);
      if (elsewhere.count(op.comm) > 0) r.flags |= kElsewhere;
      auto& end = r.Make<ring::EndPayload>();
      end.result = result;
      end.stream = Id(op.stream);
      end.ordinal = ordinal;
      p.group_ops.clear();
      return;
    }
    case Do::kGroupEnd:
      Enqueue(process, p.group_ops, true, p.group);
      Emit(process, RecordKind::kEnd, Call::kGroupEnd);
      p.group_ops.clear();
      p.in_group = false;
      return;
    case Do::kGraph:
      if (elsewhere.count(Now(process).comm) > 0) {
        Emit(process, RecordKind::kEnd, Now(process).call).flags |= kElsewhere;
      } else {
        Emit(process, RecordKind::kEnd, Now(process).call);
        NoteUsed(process, Now(process));
      }
      ++p.capturing;
      --p.pc;  // there may be more in it, and then it is launched
      return;
    case Do::kPoll:
    case Do::kPollComm:
      p.polled = false;
      --p.left;  // was not entered either
      return;
    case Do::kAbort:
      for (Launch& launch : launches_) {
        if (launch.process != process || launch.comm != op.comm || launch.done) continue;
        launch.aborted = true;
      }
      p.aborted.insert(op.comm);
      Emit(process, RecordKind::kEnd, Call::kCommAbort);
      return;
    case Do::kDestroy:
      Emit(process, RecordKind::kEnd, Call::kCommDestroy);
      return;
    case Do::kFinalize:
      p.finalized.insert(op.comm);
      Emit(process, RecordKind::kEnd, Call::kCommFinalize).payload =
          ring::EndPayload{.result = result};
      return;
    case Do::kWindow:
      Emit(process, RecordKind::kEnd, Call::kCommWindowRegister);
      return;
    default:
      Emit(process, RecordKind::kEnd, Call::kHostWait);
      return;
  }
}

}  // namespace gordian::model::testing
