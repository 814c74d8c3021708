#include "analyzer/model/facts/execution_graph.h"

#include <algorithm>

#include "analyzer/model/facts/state_merge.h"

namespace gordian::model {
namespace {

bool CountsAsNcclCall(Call call) {
  switch (call) {
    case Call::kStreamCreate:
    case Call::kStreamDestroy:
    case Call::kStreamWork:
    case Call::kHostWait:
    case Call::kPoll:
      return false;
    default:
      return true;
  }
}

// Which of the threads that may call for the application used a processor since the round before,
// whose state `process` still holds.
void NoteAwake(const ProcessState& now, uint64_t now_ns, Process* process) {
  const std::vector<ThreadState>& before = process->state.threads;
  boost::container::flat_map<uint32_t, uint64_t> awake;  // of those that are still there
  awake.reserve(process->awake_ns.size());
  constexpr size_t kTries = 1024;
  size_t at = 0;  // both name the threads in nearly the same order
  for (const ThreadState& state : now.threads) {
    if (state.library_thread || (state.thread != 0 && !state.gpu_thread)) continue;
    const ThreadState* old = nullptr;
    const size_t begun = at;
    for (size_t tried = 0; tried < before.size() && tried < kTries && old == nullptr; ++tried) {
      if (before[at].tid == state.tid) old = &before[at];
      at = (at + 1) % before.size();
    }
    if (old == nullptr) at = begun;  // a new one; that counts as awake
    const bool runs = state.os_state == OsState::kRunning;
    // A new thread has been started, and one that reads a file may be loading a program.
    if (runs || state.os_state == OsState::kDisk || old == nullptr ||
        old->cpu_ticks != state.cpu_ticks)
      process->last_busy_ns = now_ns;
    // A short nap in a loop shows in the switches alone.
    const bool slept = !runs && old != nullptr && old->cpu_ticks == state.cpu_ticks &&
                       old->context_switches == state.context_switches;
    const auto last = process->awake_ns.find(state.tid);
    awake[state.tid] = slept && last != process->awake_ns.end() ? last->second : now_ns;
  }
  process->awake_ns = std::move(awake);
}

Unknown UnknownOf(const Process& process) {
  Unknown unknown;
  const bool lossy = process.Lossy();
  unknown.calls = unknown.events = unknown.first_uses = lossy;
  unknown.writes = lossy || process.lost_sight;
  const bool accounted =
      process.signals_counted || (process.block != nullptr && process.block->only_work_lost);
  unknown.signals = lossy && !accounted;
  return unknown;
}

}  // namespace

Process& ExecutionGraph::Start(const ProcessInfo& info) {
  Process& process = Known(info.process);
  process.info = info;
  matcher_.NoteProcesses(processes_.size());
  return process;
}

// Finds or makes.
Process& ExecutionGraph::Known(ProcessId id) {
  if (Process* const known = Find(id); known != nullptr) return *known;
  Process& process = processes_[id];
  process.info.process = id;
  if (id != 0) by_id_.Insert(id, &process);
  return process;
}

Process* ExecutionGraph::Find(ProcessId id) {
  Process* const* const found = by_id_.Find(id);
  return found == nullptr ? nullptr : *found;
}

const Process* ExecutionGraph::Find(ProcessId id) const {
  Process* const* const found = by_id_.Find(id);
  return found == nullptr ? nullptr : *found;
}

const Launch* ExecutionGraph::FindLaunch(LaunchId id) const { return launches_.Find(id); }

void ExecutionGraph::End(ProcessId id, ExitKind kind, int exit_value, uint64_t time_ns) {
  Process* process = Find(id);
  if (process == nullptr || process->ended) return;
  process->ended = true;
  process->exit_kind = kind;
  process->exit_value = exit_value;
  process->ended_ns = time_ns;
  // The process writes no more: what has not come by now is lost, and the rest need not wait for it.
  process->merger.AtRound(true, [&](const CallRecord& r) { Apply(*process, r); });
  MergeState(this, process, time_ns);
}

void ExecutionGraph::FinalCounts(ProcessId id, uint64_t lost_records, uint64_t nccl_calls) {
  Process* process = Find(id);
  if (process == nullptr) return;
  process->state.lost_records = std::max(process->state.lost_records, lost_records);
  process->state.nccl_calls = std::max(process->state.nccl_calls, nccl_calls);
}

void ExecutionGraph::FinalBlock(ProcessId id, std::shared_ptr<const StateBlock> block) {
  Process* process = Find(id);
  if (process != nullptr && block != nullptr) process->block = std::move(block);
}

void ExecutionGraph::RecordsMissing(ProcessId id) {
  if (Process* process = Find(id); process != nullptr) process->records_missing = true;
}

void ExecutionGraph::Record(const CallRecord& record) {
  if (latest_ == nullptr || latest_->info.process != record.process)
    latest_ = &Known(record.process);
  Process& process = *latest_;
  process.merger.Add(record, [&](const CallRecord& r) { Apply(process, r); });
}

void ExecutionGraph::TakeRound(Round* taken) {
  const Round& round = *taken;
  for (auto& [id, process] : processes_) {
    process.has_state = false;
    if (process.ended)
      process.merger.AtRound(true, [&, &own = process](const CallRecord& r) { Apply(own, r); });
  }
  // Before any of what they say is used: what one member knows by two names, others know by one of
  // them.
  for (const ProcessState& told : taken->processes) {
    if (told.block == nullptr) continue;
    for (const BlockComm& comm : told.block->comms) {
      if (comm.uid != 0 && comm.other_uid != 0) Unite(comm.other_uid, comm.uid);
    }
  }
  for (ProcessState& told : taken->processes) {
    Process& process = Known(told.process);
    // Only who is in the round has sent all that came before it: the missing records of a node that
    // is away are not lost, they come with the node.
    if (!process.ended) {
      process.merger.AtRound(false, [&](const CallRecord& r) { Apply(process, r); });
    }
    NoteAwake(told, round.end_ns, &process);
    process.state = std::move(told);  // but for its number
    told.process = process.state.process;
    const ProcessState& state = process.state;
    process.has_state = true;
    if (state.block != nullptr) process.block = state.block;
    if (!process.ended) MergeState(this, &process, round.begin_ns);
    if (!state.stopped) {
      process.stopped_since_ns = 0;
    } else if (process.stopped_since_ns == 0) {
      process.stopped_since_ns = round.begin_ns;
    }
    for (const StreamState& now : state.streams) {
      auto it = process.streams.find(now.stream);
      if (it == process.streams.end()) continue;
      it->second.now = now;
      // "At the head" says that everything before it is done.
      MarkDone(process, {now.stream, std::max(now.done, now.head > 0 ? now.head - 1 : 0)},
               round.begin_ns);
    }
    for (const CommStateNow& now : state.comms) {
      auto it = process.comms.find(now.comm);
      if (it == process.comms.end()) continue;
      LocalComm& comm = it->second;
      if (comm.unsettled && now.state == CommState::kReady) {
        comm.unsettled = false;
        matcher_.InitDone(comm.uid, comm.init_rank);
      }
      if (comm.index < 0 || comm.rank < 0) continue;
      CommMember& member = matcher_.comms()[comm.index].members[comm.rank];
      member.next_sequence =
          std::max(member.next_sequence, now.next_sequence + comm.collectives.launched);
      if (now.state == CommState::kAborted || now.state == CommState::kRevoked) {
        if (!member.aborted) member.left_ns = round.begin_ns;
        member.aborted = true;
      }
    }
  }
  for (auto& [id, process] : processes_) {
    Soften(process);
    process.unknown = UnknownOf(process);
  }
}

const WorkItem* ExecutionGraph::ItemAt(const Process& process, StreamPosition position) {
  auto it = process.streams.find(position.stream);
  if (it == process.streams.end()) return nullptr;
  const auto& items = it->second.items;
  auto after = std::upper_bound(items.begin(), items.end(), position.ordinal,
                                [](uint64_t n, const WorkItem& item) { return n < item.ordinal; });
  return after == items.begin() ? nullptr : &*std::prev(after);
}

size_t ExecutionGraph::Held() const {
  size_t held = launches_.size();
  for (const auto& [id, process] : processes_) {
    held += process.events.size() + process.streams.size();
    for (const auto& [stream, queue] : process.streams) held += queue.items.size();
  }
  return held;
}

void ExecutionGraph::Apply(Process& process, const CallRecord& record) {
  ++process.records;
  // ncclCommInitAll is one call that begins a record for each rank.
  const bool further =
      record.call == Call::kCommInitAll && record.As<ring::CommInitPayload>().rank > 0;
  if (record.kind == RecordKind::kBegin && CountsAsNcclCall(record.call) && !further) {
    ++process.calls_begun;
    if (process.first_call_ns == 0) process.first_call_ns = record.time_ns;
  }
  process.last_record_ns = std::max(process.last_record_ns, record.time_ns);
  process.last_progress_ns = std::max(process.last_progress_ns, record.time_ns);
  if (process.latest == nullptr || process.latest->id != record.thread) {
    process.latest = &process.threads[record.thread];
    process.latest->id = record.thread;
  }
  Thread& thread = *process.latest;
  thread.last_ns = record.time_ns;
  thread.calls_nccl |= record.kind == RecordKind::kBegin && CountsAsNcclCall(record.call);
  const WorkKind work = record.As<ring::WorkPayload>().kind;
  const bool ours = work == WorkKind::kGraphMarkers || work == WorkKind::kGraphProgress;
  if ((record.kind == RecordKind::kBegin || record.kind == RecordKind::kPoint) && !ours) {
    thread.last_call = record.call;
    thread.last_site = record.call_site;
  }
  if (record.kind == RecordKind::kText) {
    const auto& text = record.As<ring::TextPayload>();
    auto it = process.comms.find(text.comm);
    if (it == process.comms.end()) return;
    it->second.name = NameOf(text);
    if (it->second.index >= 0) matcher_.comms()[it->second.index].name = it->second.name;
    return;
  }
  if (record.kind == RecordKind::kEnqueue) return ApplyEnqueue(process, thread, record);
  if (record.kind == RecordKind::kBegin)
    thread.signal_call = 0;  // the record of that one's end was lost, if it is not over
  if (record.kind == RecordKind::kBegin && (record.flags & kInGroup) == 0) {
    thread.open.emplace();
    thread.open->record = record;
  }
  if (IsOperation(record.call)) {
    if (record.kind == RecordKind::kPoint) ApplyHostOperation(process, record);
    if (record.kind == RecordKind::kBegin) ApplyOperationBegin(process, thread, record);
    if (record.kind == RecordKind::kEnd) ApplyOperationEnd(process, thread, record);
  } else if (IsSignal(record.call)) {
    ApplySignal(process, thread, record);
  } else if (MakesCommunicator(record.call)) {
    if (record.kind == RecordKind::kPoint) {
      ApplyGrowth(process, record);
    } else if (record.kind == RecordKind::kBegin) {
      ApplyInitBegin(process, thread, record);
    } else if (record.kind == RecordKind::kEnd) {
      auto it = process.comms.find(record.As<ring::EndPayload>().comm);
      if (it != process.comms.end()) {
        ApplyInitEnd(process, thread, record, it->second.uid, it->second.init_rank);
      } else if (thread.open && thread.open->init != 0) {
        ApplyInitEnd(process, thread, record, thread.open->init, thread.open->init_rank);
      }
    }
  } else {
    switch (record.call) {
      case Call::kGroupEnd:
        if (record.kind == RecordKind::kBegin) {
          InGroup(process, thread, record.As<ring::GroupPayload>().group);
          thread.in_group_end = true;
        }
        if (record.kind == RecordKind::kEnd) ApplyGroupEnd(process, thread, record);
        break;
      case Call::kCommFinalize:
      case Call::kCommDestroy:
      case Call::kCommAbort:
      case Call::kCommRevoke:
      case Call::kCommWindowRegister:
        ApplyCommCall(process, thread, record);
        break;
      case Call::kStreamCreate: {
        const auto& stream = record.As<ring::StreamPayload>();
        StreamQueue& queue = Stream(process, stream.stream, stream.device);
        queue.flags = stream.flags;
        queue.handle = stream.handle;
        queue.connections = stream.connections;
        break;
      }
      case Call::kStreamDestroy: {
        auto it = process.streams.find(record.As<ring::StreamPayload>().stream);
        if (it != process.streams.end()) it->second.destroyed = true;
        break;
      }
      case Call::kStreamWork:
        ApplyWork(process, record);
        break;
      case Call::kHostWait:
        ApplyHostWait(process, thread, record);
        break;
      case Call::kGraphEndCapture:
      case Call::kGraphDestroy:
      case Call::kGraphClone:
      case Call::kGraphNest:
      case Call::kGraphInstantiate:
      case Call::kGraphExecDestroy:
        ApplyGraphCall(process, record);
        break;
      default:
        break;
    }
  }
  if (record.kind == RecordKind::kEnd && thread.open && thread.open->record.call == record.call &&
      (record.flags & kInGroup) == 0) {
    thread.open.reset();
  }
}

bool ExecutionGraph::HaveRoom(Process& process, CommId comm) {
  constexpr size_t kLaunches = 1 << 16, kLaunchesOfProcess = 1 << 13;
  if (launches_.size() < kLaunches + kLaunchesOfProcess * processes_.size()) return true;
  beyond_ = true;
  LoseSight(process, comm);
  return false;
}

void ExecutionGraph::ApplyOperationBegin(Process& process, Thread& thread,
                                         const CallRecord& record) {
  const auto& operation = record.As<ring::OperationPayload>();
  auto local = process.comms.find(operation.comm);
  Part part;
  part.signature = {record.call, operation.datatype, operation.reduce_op,
                    HasRoot(record.call) ? operation.root_or_peer : -1, operation.count};
  part.stream = operation.stream;
  part.site = record.call_site;
  part.order = record.order;
  part.time_ns = record.time_ns;
  part.ref.sequence = operation.sequence;
  part.ref.kind = PartKindOf(record.call);
  if (part.ref.kind != PartKind::kCollective) part.ref.peer = operation.root_or_peer;
  if (local != process.comms.end()) {
    part.ref.comm = local->second.index;
    part.ref.rank = local->second.rank;
    if (part.ref.rank < 0) part.ref.comm = -1;
  }
  if ((record.flags & kCapturing) != 0) {
    if (local != process.comms.end()) {
      ApplyCaptured(process, thread, record, local->second, std::move(part));
    }
    return;
  }
  if (local != process.comms.end()) {
    PartNumbers& numbers = local->second.Numbers(part.ref);
    numbers.See(operation.sequence, record.order);
    part.ref.sequence += numbers.launched;
  }
  Launch* launch = nullptr;
  const bool in_group = (record.flags & kInGroup) != 0;
  if (in_group) {
    InGroup(process, thread, operation.group);
  } else {
    InNoGroup(process, thread);
  }
  for (LaunchId id : thread.group_launches) {
    Launch* const earlier = launches_.Find(id);
    if (earlier != nullptr && earlier->comm == operation.comm && earlier->signal == nullptr)
      launch = earlier;
  }
  if (launch == nullptr) {
    if (!HaveRoom(process, operation.comm)) return;
    launch = &launches_.Add();
    launch->process = process.info.process;
    launch->thread = thread.id;
    launch->comm = operation.comm;
    launch->comm_index = part.ref.comm;
    launch->in_group = in_group;
    launch->time_ns = record.time_ns;
    if (in_group) {
      thread.group_launches.push_back(launch->id);
    } else {
      thread.open->launch = launch->id;
    }
  }
  if (!IsEmpty(RoleOf(part)) && std::find(launch->streams.begin(), launch->streams.end(),
                                          operation.stream) == launch->streams.end()) {
    launch->streams.push_back(operation.stream);
  }
  Post(part, launch->id, /*place=*/0);
  launch->parts.push_back(std::move(part));
  if (in_group) thread.group_call = launch->id;
}

// Tells the matcher that the part was called, as a share of this launch.
void ExecutionGraph::Post(const Part& part, LaunchId launch, uint32_t place) {
  MemberSlot slot;
  slot.state = SlotState::kCalled;
  slot.launch = launch;
  slot.order = part.order;
  slot.place = place;
  slot.time_ns = part.time_ns;
  slot.site = part.site;
  slot.signature = part.signature;
  matcher_.Post(part.ref, slot);
}

void ExecutionGraph::ApplyOperationEnd(Process& process, Thread& thread, const CallRecord& record) {
  const auto& end = record.As<ring::EndPayload>();
  if (thread.capture != 0) return EndCaptured(process, thread, record);
  if (thread.group_call != 0) {  // comes back at once; GroupEnd launches it
    Launch* const found = launches_.Find(thread.group_call);
    thread.group_call = 0;
    if (found == nullptr) return;  // the process itself has said that it is over
    Launch& launch = *found;
    const PartRef ref = launch.parts.back().ref;
    NoteElsewhere(record, &launch.parts.back());
    if (Took(end.result)) {
      matcher_.Accept(ref, record.time_ns);
    } else {
      Withdraw(process, launch, launch.parts.back());
      launch.parts.pop_back();
    }
    return;
  }
  if (!thread.open || thread.open->launch == 0) return;
  if (thread.open->record.call != record.call)
    return;  // of one whose begin was lost, as the open one's end was
  Launch* const found = launches_.Find(thread.open->launch);
  if (found == nullptr) return;
  Launch& launch = *found;
  if (!Took(end.result)) {
    DropLaunch(launch.id, false);
    return;
  }
  for (Part& part : launch.parts) {
    NoteElsewhere(record, &part);
    matcher_.Accept(part.ref, record.time_ns);
  }
  if (end.result == kInProgress) Deferred(process, &launch);
  for (const Part& part : launch.parts) NoteUsed(process, launch.comm, part);
  OrderAmongComms(process, thread, record, launch);
  if (launch.streams.empty()) {
    LaunchDone(launch.id);
    AppendNothing(process, {end.stream, end.ordinal});
    return;
  }
  if (end.stream == 0) {
    launch.follows = false;
    Enqueued(process, launch);
    return;
  }
  Enqueued(process, launch);
  PlaceLaunch(process, launch, {end.stream, end.ordinal});
}

void ExecutionGraph::NoteElsewhere(const CallRecord& record, Part* part) {
  part->elsewhere = (record.flags & kElsewhere) != 0;
  any_elsewhere_ |= part->elsewhere;
}

// Its non-blocking communicator took it: NCCL connects and launches it while the thread goes on.
void ExecutionGraph::Deferred(const Process& process, Launch* launch) {
  launch->deferred = true;
  const auto local = process.comms.find(launch->comm);
  if (local == process.comms.end()) return;
  for (const Part& part : launch->parts) {
    if (part.ref.comm < 0 || part.elsewhere) continue;
    const FirstUses uses = FirstUsesOf(RoleOf(part), matcher_.comms()[part.ref.comm].nranks);
    launch->connecting |=
        uses.collectives && process.info.runtime_connect && !local->second.collective_used;
    for (const auto& peer : uses.peers)
      launch->connecting |= local->second.peers_used.count(peer) == 0;
  }
}

// W15: what has connected once does not connect again.
void ExecutionGraph::NoteUsed(Process& process, CommId comm, const Part& part) {
  auto local = process.comms.find(comm);
  if (local == process.comms.end()) return;
  local->second.elsewhere |= part.elsewhere;
  if (part.ref.comm < 0 || part.elsewhere) return;
  const FirstUses uses =
      FirstUsesOf(RoleOf(part), matcher_.comms()[static_cast<size_t>(part.ref.comm)].nranks);
  local->second.collective_used |= uses.collectives;
  local->second.peers_used.insert(uses.peers.begin(), uses.peers.end());
}

void ExecutionGraph::Enqueued(Process& process, Launch& launch) {
  launch.enqueued = true;
  auto local = process.comms.find(launch.comm);
  if (local == process.comms.end() || launch.signal != nullptr) return;
  if (local->second.last_launch != launch.id) launch.previous_on_comm = local->second.last_launch;
  local->second.last_launch = launch.id;
}

void ExecutionGraph::PlaceLaunch(Process& process, Launch& launch, StreamPosition position) {
  StreamQueue& queue = Stream(process, position.stream, -1);
  if (position.ordinal <= queue.done) {  // evidence overtook the record
    launch.positions.push_back(position);
    if (launch.enqueued && launch.open_positions == 0 &&
        launch.positions.size() == launch.streams.size()) {
      LaunchDone(launch.id);
    }
    return;
  }
  launch.positions.push_back(position);
  ++launch.open_positions;
  if (!queue.items.empty() && queue.items.back().ordinal == position.ordinal) {
    queue.items.back().launches.push_back(launch.id);
    return;
  }
  WorkItem item;
  item.ordinal = position.ordinal;
  item.launches.push_back(launch.id);
  item.legacy = LegacyOrder(process, queue);
  if (launch.signal != nullptr) {
    item.order = launch.signal->order;
    item.site = launch.signal->site;
  } else if (!launch.parts.empty()) {
    item.order = launch.parts.front().order;
    item.site = launch.parts.front().site;
  }
  Append(queue, std::move(item));
}

void ExecutionGraph::ApplyWork(Process& process, const CallRecord& record) {
  const auto& work = record.As<ring::WorkPayload>();
  if (work.kind == WorkKind::kEventForgotten) {  // the handle may be another event's from here on
    process.events.erase(work.event);
    return;
  }
  if (work.kind == WorkKind::kMemoryShared) return ApplyMemoryShared(process, record);
  if (work.kind == WorkKind::kGraphMarkers) return ApplyGraphMarkers(process, record);
  if (work.kind == WorkKind::kGraphProgress) return ApplyGraphProgress(process, record);
  StreamQueue& queue = Stream(process, work.stream, -1);
  if (work.kind == WorkKind::kEventRecord) {
    EventTarget target;
    queue.last = std::max(queue.last, work.ordinal);
    Behind(process, queue, &target.behind);
    process.events[work.event] = std::move(target);
    TrimEvents(process);
    return;
  }
  if (work.ordinal <= queue.done && work.kind != WorkKind::kGraphLaunch) return;
  WorkItem item;
  item.ordinal = work.ordinal;
  item.kind = work.kind;
  item.order = record.order;
  item.site = record.call_site;
  item.legacy = LegacyOrder(process, queue);
  if (work.kind == WorkKind::kHostFunction || work.kind == WorkKind::kGraphLaunch) {
    queue.host_code = std::max(queue.host_code, work.ordinal);
    if (work.kind == WorkKind::kHostFunction)
      queue.host_function = std::max(queue.host_function, work.ordinal);
  }
  if (work.kind == WorkKind::kGraphLaunch) {
    return ApplyGraphLaunch(process, record, std::move(item));
  }
  if (work.kind == WorkKind::kEventWait) {
    auto it = process.events.find(work.event);
    if (it != process.events.end()) item.event = it->second.behind;
  }
  if (work.kind == WorkKind::kMemoryWait || work.kind == WorkKind::kMemoryWrite) {
    item.memory = {work.event, work.value, record.flags};
  }
  if (work.kind == WorkKind::kMemoryWrite) {
    NoteWrite(process, item.memory, {work.stream, work.ordinal});
  }
  Append(queue, std::move(item));
}

void ExecutionGraph::ApplyHostWait(Process& process, Thread& thread, const CallRecord& record) {
  if (record.kind == RecordKind::kPoint) {
    const auto& seen = record.As<ring::HostWaitPayload>();
    if (seen.kind == WaitKind::kOperation) LaunchDone(HostLaunch(process, seen));
    if (seen.kind == WaitKind::kStore) NoteKeySet(seen.event);
    return;
  }
  if (record.kind == RecordKind::kEnd) {
    if (!thread.open || thread.open->record.call != Call::kHostWait ||
        record.As<ring::EndPayload>().result != 0) {
      return;
    }
    // By implementation, not by contract: these may not have waited at all.
    const WaitKind wait = thread.open->record.As<ring::HostWaitPayload>().kind;
    if (wait == WaitKind::kAsyncCopy || wait == WaitKind::kFree) return;
    if (wait == WaitKind::kOperation) return LaunchDone(thread.open->launch);
    if (wait == WaitKind::kStore) {
      return NoteKeySet(thread.open->record.As<ring::HostWaitPayload>().event);
    }
    const StreamPositions covered = thread.open->covered;
    for (const StreamPosition& position : covered) MarkDone(process, position, record.time_ns);
    return;
  }
  if (record.kind != RecordKind::kBegin || !thread.open) return;
  OpenCall& open = *thread.open;
  const auto& wait = record.As<ring::HostWaitPayload>();
  switch (wait.kind) {
    case WaitKind::kStream:
      open.covered.push_back({wait.stream, wait.ordinal});
      break;
    case WaitKind::kCopy:
    case WaitKind::kAsyncCopy: {
      open.covered.push_back({wait.stream, wait.ordinal});
      auto it = process.streams.find(wait.stream);
      // The copy itself is work on its stream (W13).
      if (it != process.streams.end()) {
        for (const StreamPosition& p : LegacyOrder(process, it->second)) open.covered.push_back(p);
      }
      break;
    }
    case WaitKind::kEvent: {
      auto it = process.events.find(wait.event);
      if (it != process.events.end()) open.covered = it->second.behind;
      break;
    }
    case WaitKind::kDevice:
    case WaitKind::kFree:
      for (const auto& [id, queue] : process.streams) {
        if (queue.device == wait.device && queue.last > queue.done) {
          open.covered.push_back({id, queue.last});
        }
      }
      break;
    case WaitKind::kOperation:
      open.launch = HostLaunch(process, wait);
      break;
    case WaitKind::kStore:
    case WaitKind::kNoWait:
      open.covered_known = false;
      break;
  }
}

}  // namespace gordian::model
