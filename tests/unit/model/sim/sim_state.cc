// What the state block of a simulated process says: proto/ring/state_block.h, from the simulation's
// own knowledge instead of the shim's bookkeeping.
#include <algorithm>
#include <functional>

#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {
namespace {

uint64_t Mix(uint64_t hash, const CalledSignature& s) {
  for (const uint64_t word : {s.count, static_cast<uint64_t>(s.call), uint64_t{s.datatype},
                              uint64_t{s.reduce_op}, static_cast<uint64_t>(s.root + 1)}) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 31;
  }
  return hash;
}

bool NamesRoot(Call call) {
  return call == Call::kBroadcast || call == Call::kReduce || call == Call::kGather ||
         call == Call::kScatter;
}

Call CallOf(const Op& op) {
  switch (op.what) {
    case Do::kInit:
      return Call::kCommInit;
    case Do::kSplit:
      return Call::kCommSplit;
    case Do::kCollective:
    case Do::kSend:
    case Do::kRecv:
      return op.call;
    case Do::kGroupEnd:
      return Call::kGroupEnd;
    case Do::kAbort:
      return Call::kCommAbort;
    case Do::kDestroy:
      return Call::kCommDestroy;
    case Do::kFinalize:
      return Call::kCommFinalize;
    case Do::kWindow:
      return Call::kCommWindowRegister;
    default:
      return Call::kHostWait;
  }
}

}  // namespace

CommUid SimJob::UidOf(int comm) const {
  const SimComm& c = comms_[comm];
  if (c.parent < 0) return 100 + static_cast<CommUid>(comm);
  return 10000 + static_cast<CommUid>(c.parent) * 100 + static_cast<CommUid>(c.split);
}

CommUid SimJob::NameOf(int comm, int process) const {
  const int parent = comms_[comm].grown_from;
  const bool by_parent = parent >= 0 && RankIn(parent, process) > 0;
  return UidOf(comm) + (by_parent ? 50'000 : 0);
}

CommUid SimJob::OtherNameOf(int comm, int process) const {
  const int parent = comms_[comm].grown_from;
  return parent >= 0 && RankIn(parent, process) == 0 ? UidOf(comm) + 50'000 : 0;
}

uint64_t SimJob::DoneByMarkers(const Proc& p, int stream) const {
  uint64_t done = 0;
  auto it = p.streams.find(stream);
  if (it == p.streams.end()) return 0;
  for (size_t n = 0; n < it->second.size() && it->second[n].done; ++n) {
    if (Marked(it->second[n])) done = n + 1;
  }
  return done;
}

// The operations that stand at or in front of a place and are not known to be done: the last one on
// the stream, and by way of the waits behind that.
void SimJob::Resolve(const Proc& p, int stream, uint64_t ordinal,
                     std::vector<StreamPlace>* places) const {
  auto it = p.streams.find(stream);
  if (it == p.streams.end()) return;
  for (uint64_t n = std::min<uint64_t>(ordinal, it->second.size()); n > 0; --n) {
    const Work& work = it->second[n - 1];
    if (work.launch >= 0 || work.what == Do::kSignal || work.what == Do::kWaitSignal) {
      if (n > DoneByMarkers(p, stream)) places->push_back({Id(stream), n});
      return;
    }
    for (const auto& [other, position] : work.after) Resolve(p, other, position, places);
  }
}

std::shared_ptr<const StateBlock> SimJob::MakeBlock(int process) const {
  const Proc& p = procs_[process];
  auto block = std::make_shared<StateBlock>();
  const Op* const now =
      p.in_call && p.pc < programs_[process].size() ? &programs_[process][p.pc] : nullptr;
  std::set<int> captured;
  for (const Op& op : programs_[process]) {
    if (op.what != Do::kGraph || p.captured.count(op.event) == 0) continue;
    for (const Op& inner : op.inside) captured.insert(inner.comm);
  }
  if (p.pc < programs_[process].size() && programs_[process][p.pc].what == Do::kGraph) {
    const Op& op = programs_[process][p.pc];
    for (size_t i = 0; i < op.inside.size() && i < p.capturing + (p.in_call ? 1 : 0); ++i)
      captured.insert(op.inside[i].comm);
  }
  for (int comm : p.made) {
    const bool making =
        now != nullptr && (now->what == Do::kInit || now->what == Do::kSplit) && now->comm == comm;
    const SimComm& c = comms_[comm];
    BlockComm& out = block->comms.emplace_back();
    out.comm = CommIdOf(comm);
    out.uid = NameOf(comm, process);
    out.other_uid = OtherNameOf(comm, process);
    out.device = 0;
    out.parent = c.parent < 0 ? 0 : CommIdOf(c.parent);
    const bool known = !making || c.parent < 0;
    out.nranks = known ? static_cast<int>(c.members.size()) : 0;
    out.rank = known ? RankIn(comm, process) : -1;
    const bool destroyed = p.destroyed.count(comm) > 0 &&
                           !(now != nullptr && now->what == Do::kDestroy && now->comm == comm);
    out.state = making                      ? CommState::kIniting
                : p.aborted.count(comm) > 0 ? CommState::kAborted
                : destroyed                 ? CommState::kDestroyed
                                            : CommState::kReady;
    out.name = c.name;
  }
  // Parts in the order of their calls: launched ones, then those of an open group.
  std::map<std::tuple<int, NumberKind, int>, std::vector<std::pair<uint64_t, const OpPart*>>>
      called;
  const auto call = [&](const OpPart& part) {
    const NumberKind kind = part.op.what == Do::kSend   ? NumberKind::kSend
                            : part.op.what == Do::kRecv ? NumberKind::kReceive
                                                        : NumberKind::kCollective;
    const int peer = kind == NumberKind::kCollective ? -1 : part.op.root_or_peer;
    called[{part.op.comm, kind, peer}].emplace_back(part.called, &part);
  };
  for (const Launch& launch : launches_) {
    if (launch.process != process) continue;
    for (const OpPart& part : launch.parts) {
      if (part.order != 0) call(part);
    }
  }
  for (int comm : p.made) called[{comm, NumberKind::kCollective, -1}];
  std::map<std::tuple<int, NumberKind, int>, size_t> launched;
  for (auto& [key, parts] : called) launched[key] = parts.size();
  if (p.in_group) {
    for (const OpPart& part : p.group_ops) call(part);
  }
  for (auto& [key, parts] : called) {
    std::sort(parts.begin(), parts.end());
    const auto [comm, kind, peer] = key;
    CalledNumbers& out = block->numbers.emplace_back();
    out.comm = CommIdOf(comm);
    out.kind = kind;
    out.peer = peer;
    out.next = parts.size();
    out.open = parts.size() - launched[key];
    out.captured = captured.count(comm) > 0;
    out.comparable = !out.captured;
    out.used = kind == NumberKind::kCollective
                   ? p.used.count(comm) > 0
                   : p.peers.count({comm, peer, kind == NumberKind::kSend}) > 0;
    out.color = comms_[comm].color;
    auto windows = p.windows.find(comm);
    out.windows = windows == p.windows.end() ? 0 : windows->second;
    out.first = out.next > 16 ? out.next - 16 : 0;
    for (size_t n = 0; n < parts.size(); ++n) {
      const Op& op = parts[n].second->op;
      CalledSignature s;
      const bool transfer = kind != NumberKind::kCollective;
      s.call = transfer ? Call::kSend : op.call;
      s.count = transfer ? op.count * DatatypeBytes(op.datatype) : op.count;
      s.root = !transfer && NamesRoot(op.call) ? op.root_or_peer : -1;
      s.datatype = transfer ? 0 : op.datatype;
      s.reduce_op = !transfer && op.call == Call::kAllReduce ? op.reduce_op : 255;
      out.hash = s.hash = Mix(out.hash, s);
      if (n >= out.first) out.last.push_back(s);
    }
  }
  block->signals = true;
  for (const auto& [key, count] : p.signals) {
    const auto& [comm, peer, send] = key;
    CalledNumbers& out = block->numbers.emplace_back();
    out.comm = CommIdOf(comm);
    out.kind = send ? NumberKind::kSignalsSent : NumberKind::kSignalsAwaited;
    out.peer = peer;
    out.next = count;
  }
  // What stands between the operation at `ordinal` and the one before it.
  const auto after = [&](const std::vector<Work>& works, PendingStream* out,
                         PendingOperation* pending) {
    const uint64_t ordinal = pending->ordinal;
    const auto waits = [](const Work& w) {
      return w.launch < 0 && w.what != Do::kSignal && w.what != Do::kWaitSignal;
    };
    for (uint64_t n = ordinal - 1; n > 0 && waits(works[n - 1]); --n) {
      std::vector<StreamPlace> places;
      for (const auto& [other, position] : works[n - 1].after) Resolve(p, other, position, &places);
      for (const StreamPlace& place : places) {
        if (place.stream == out->stream || pending->after.size() == 4) continue;
        pending->after.push_back({place, static_cast<uint32_t>(ordinal - n)});
      }
    }
  };
  for (const auto& [stream, works] : p.streams) {
    PendingStream& out = block->streams.emplace_back();
    out.stream = Id(stream);
    out.device = 0;
    out.enqueued = works.size();
    out.done = DoneByMarkers(p, stream);
    out.whole = true;
    for (const Launch& launch : launches_) {
      if (launch.process != process || launch.parts.front().order == 0) continue;
      for (const OpPart& part : launch.parts) {
        if (part.op.stream != stream) continue;
        for (const auto& [at, ordinal] : launch.places) {
          if (at != stream || ordinal <= out.done) continue;
          PendingOperation& pending = out.pending.emplace_back();
          pending.ordinal = ordinal;
          pending.launch = launch.parts.front().order;
          pending.in_group = launch.group;
          pending.comm = CommIdOf(part.op.comm);
          pending.call = part.op.call;
          pending.root_or_peer = part.op.root_or_peer;
          pending.sequence = part.called;
          pending.count = part.op.count;
          pending.datatype = part.op.datatype;
          pending.reduce_op = part.op.call == Call::kAllReduce ? part.op.reduce_op : 255;
          after(works, &out, &pending);
        }
      }
    }
    for (uint64_t ordinal = out.done + 1; ordinal <= works.size(); ++ordinal) {
      const Work& work = works[ordinal - 1];
      if (work.what != Do::kSignal && work.what != Do::kWaitSignal) continue;
      PendingOperation& pending = out.pending.emplace_back();
      pending.ordinal = ordinal;
      pending.launch = work.order;
      pending.comm = CommIdOf(work.comm);
      pending.call = work.what == Do::kSignal ? Call::kSignal : Call::kWaitSignal;
      pending.root_or_peer = work.peer;
      pending.sequence = work.number;
      pending.count = work.value;
      pending.channel_known = true;
      after(works, &out, &pending);
    }
    std::stable_sort(
        out.pending.begin(), out.pending.end(),
        [](const PendingOperation& a, const PendingOperation& b) { return a.ordinal < b.ordinal; });
  }
  return block;
}

std::shared_ptr<const CallDetail> SimJob::MakeDetail(int process) const {
  const Proc& p = procs_[process];
  if (!p.in_call || p.polled || p.pc >= programs_[process].size()) return nullptr;
  const Op& op = Now(process);
  auto detail = std::make_shared<CallDetail>();
  detail->comm = CommIdOf(op.comm);
  detail->device = 0;
  if (programs_[process][p.pc].what == Do::kGraph) {
    detail->flags = kCapturing;
    return detail;
  }
  switch (op.what) {
    case Do::kCollective:
    case Do::kSend:
    case Do::kRecv:
      detail->stream = Id(op.stream);
      detail->count = op.count;
      detail->datatype = op.datatype;
      detail->reduce_op = op.call == Call::kAllReduce ? op.reduce_op : 255;
      detail->root_or_peer = op.root_or_peer;
      detail->sequence = p.group_ops.front().called;
      break;
    case Do::kStreamSync:
      detail->wait = WaitKind::kStream;
      break;
    case Do::kCopy:
      detail->wait = WaitKind::kCopy;
      break;
    case Do::kDeviceSync:
      detail->wait = WaitKind::kDevice;
      break;
    case Do::kFree:
      detail->wait = WaitKind::kFree;
      break;
    case Do::kEventSync:
      detail->wait = WaitKind::kEvent;
      break;
    default:
      break;
  }
  for (const auto& [stream, ordinal] : p.covered) {
    if (detail->wait != WaitKind::kNoWait) Resolve(p, stream, ordinal, &detail->covered);
  }
  if (detail->covered.size() > 5) detail->covered.resize(5);
  return detail;
}

void SimJob::TellState(Round* round, const std::map<ProcessId, uint64_t>& lost) const {
  for (ProcessState& state : round->processes) {
    const auto found = lost.find(state.process);
    if (found == lost.end() || found->second == 0) continue;
    const int process = static_cast<int>(state.process) - 1;
    state.lost_records = found->second;
    state.block = MakeBlock(process);
    if (!state.block->comms.empty()) state.nccl_calls = 1;  // some
    for (ThreadState& thread : state.threads) {
      if (thread.thread != 1) continue;
      thread.detail = MakeDetail(process);
      // Which call it is: the rest of the simulation leaves that to the records.
      if (thread.detail != nullptr) thread.call = CallOf(Now(process));
    }
  }
}

}  // namespace gordian::model::testing
