#include "analyzer/model/facts/state_merge.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/facts/signal_merge.h"

namespace gordian::model {

class StateMerge {
 public:
  StateMerge(ExecutionGraph* execution, Process* process, uint64_t now_ns)
      : execution_(*execution),
        matcher_(execution->matcher_),
        process_(*process),
        block_(*process->block),
        now_ns_(now_ns),
        signals_(execution, process, now_ns) {
    for (const PendingStream& stream : block_.streams) {
      whole_ &= stream.whole;
      gap_ |= stream.gap_last != 0;
    }
  }

  void Run() {
    if (process_.Lossy()) Comms();
    Tally();
    if (!process_.Lossy()) return;  // the records tell the rest, and more
    Graphs();
    Streams();
    for (const ThreadState& state : process_.state.threads) {
      if (!process_.ended && state.thread != 0) Thread(state);
    }
    Pending();
    signals_.Pending();
    Retire();
    signals_.Count();
    for (const CalledNumbers& numbers : block_.numbers) {
      if (!IsSignals(numbers.kind)) Numbers(numbers);
    }
    Soft();
  }

 private:
  // Names a part of this process in its own terms.
  using Key = std::tuple<CommId, NumberKind, int32_t, uint64_t>;

  static NumberKind KindOf(PartKind kind) {
    return kind == PartKind::kCollective ? NumberKind::kCollective
           : kind == PartKind::kSend     ? NumberKind::kSend
                                         : NumberKind::kReceive;
  }
  static Key KeyOf(CommId comm, const PartRef& ref) {
    return {comm, KindOf(ref.kind), ref.kind == PartKind::kCollective ? -1 : ref.peer,
            ref.sequence};
  }

  const CalledNumbers* NumbersOf(CommId comm, const PartRef& ref) const {
    return block_.FindNumbers(comm, KindOf(ref.kind), ref.peer);
  }
  LocalComm* Known(CommId id) {
    auto it = process_.comms.find(id);
    const bool known = it != process_.comms.end() && it->second.index >= 0 && it->second.rank >= 0;
    return known ? &it->second : nullptr;
  }
  bool Captured(CommId comm) const {
    const CalledNumbers* numbers = block_.FindNumbers(comm, NumberKind::kCollective, -1);
    return numbers == nullptr || numbers->captured;
  }

  void Comms();
  void NoteMember(const BlockComm& comm, const LocalComm& local);
  void Tally();
  void Graphs();
  void Streams();
  void Thread(const ThreadState& state);
  void OpenFromState(struct Thread* thread, const ThreadState& state);
  void Pending();
  static PartRef RefOf(
      const PendingOperation& operation);  // of this process: without communicator and rank
  void NoteLaunch(const PendingOperation& operation);
  void PendingPart(const PendingStream& stream, const PendingOperation& operation);
  Launch* LaunchOf(const PendingOperation& operation, const LocalComm& local);
  void EventWait(StreamId stream, const PendingOperation& operation);
  void Retire();
  bool IsOver(const Launch& launch, const Part& part) const;
  bool IsUncounted(const Launch& launch) const;
  void Numbers(const CalledNumbers& numbers);
  void Settle(const CalledNumbers& numbers, PartRef ref);
  void Soft();

  ExecutionGraph& execution_;
  Matcher& matcher_;
  Process& process_;
  const StateBlock& block_;
  const uint64_t now_ns_;
  SignalMerge signals_;
  bool whole_ = true;
  bool gap_ = false;
  std::set<Key> pending_;
};

// Another member may wait for this one's call, whose record was lost.
void StateMerge::NoteMember(const BlockComm& comm, const LocalComm& local) {
  InitCall* init = matcher_.FindInit(comm.uid);
  if (init == nullptr || local.init_rank < 0 ||
      local.init_rank >= static_cast<int>(init->members.size())) {
    return;
  }
  InitMember& member = init->members[local.init_rank];
  if (!member.called) {
    ++init->called;
    member.called = true;
    member.process = process_.info.process;
    member.comm = comm.comm;
    member.device = comm.device;
    member.time_ns = now_ns_;
  }
  if (comm.state != CommState::kIniting) matcher_.InitDone(comm.uid, local.init_rank);
}

void StateMerge::Comms() {
  for (const BlockComm& comm : block_.comms) {
    if (comm.uid == 0) continue;  // matches no other member's
    const CommUid uid = matcher_.Resolve(comm.uid);
    if (comm.other_uid != 0) execution_.Unite(comm.other_uid, uid);
    const CalledNumbers* numbers = block_.FindNumbers(comm.comm, NumberKind::kCollective, -1);
    LocalComm& local = process_.comms[comm.comm];
    if (local.id == 0) {
      local.id = comm.comm;
      local.uid = uid;
      local.parent = comm.parent;
      local.device = comm.device;
      local.name = comm.name;
      if (comm.parent == 0) local.init_rank = comm.rank;
    }
    if (comm.parent != 0 && local.init_rank < 0) {
      if (const LocalComm* parent = Known(comm.parent)) local.init_rank = parent->rank;
    }
    if (local.index < 0 && comm.nranks > 0 && comm.rank >= 0 && comm.rank < comm.nranks &&
        (comm.parent == 0 || numbers != nullptr)) {
      local.color = comm.parent == 0 ? 0 : numbers->color;
      local.rank = comm.rank;
      local.index = matcher_.Comm(comm.uid, local.color, comm.nranks);
      matcher_.SetMember(local.index, local.rank, process_.info.process, local.id, local.device);
    }
    if (local.index >= 0) {
      std::string& name = matcher_.comms()[local.index].name;
      if (name.empty()) name = comm.name;
      if (comm.state == CommState::kAborted || comm.state == CommState::kRevoked) {
        CommMember& member = matcher_.comms()[local.index].members[local.rank];
        if (!member.aborted) member.left_ns = now_ns_;
        member.aborted = true;
      }
    }
    NoteMember(comm, local);
    if (numbers != nullptr && numbers->used) local.collective_used = true;
  }
  for (const CalledNumbers& numbers : block_.numbers) {
    LocalComm* local = Known(numbers.comm);
    if (local != nullptr && numbers.used && !IsSignals(numbers.kind) &&
        numbers.kind != NumberKind::kCollective) {
      local->peers_used.emplace(numbers.peer, numbers.kind == NumberKind::kSend);
    }
  }
}

void StateMerge::Tally() {
  for (const CalledNumbers& numbers : block_.numbers) {
    const LocalComm* local = Known(numbers.comm);
    if (local == nullptr || IsSignals(numbers.kind) || matcher_.comms()[local->index].opaque)
      continue;
    if (numbers.kind != NumberKind::kCollective &&
        (numbers.peer < 0 || numbers.peer >= matcher_.comms()[local->index].nranks)) {
      continue;
    }
    matcher_.tallies().Note(local->index, local->rank, numbers, process_.Lossy(), now_ns_);
  }
}

// A lost record may have been about a graph, whose operations take numbers at each launch.
void StateMerge::Graphs() {
  if (block_.only_work_lost) return;
  for (const CalledNumbers& numbers : block_.numbers) {
    if (!numbers.captured) continue;
    execution_.LoseSight(process_, numbers.comm);
    if (const LocalComm* local = Known(numbers.comm)) matcher_.comms()[local->index].unsure = true;
  }
}

void StateMerge::Streams() {
  for (const PendingStream& stream : block_.streams) {
    StreamQueue& queue = execution_.Stream(process_, stream.stream, stream.device);
    if (queue.flags == kStreamFlagsUnknown) {
      queue.flags = stream.flags;
      queue.handle = stream.handle;
    }
    execution_.MarkDone(process_, {stream.stream, stream.done}, now_ns_);
  }
}

void StateMerge::Thread(const ThreadState& state) {
  struct Thread& thread = process_.threads[state.thread];
  thread.id = state.thread;
  if (state.published != state.collected) return;  // its records will tell
  if (thread.open) {
    const uint64_t order = thread.open->record.order;
    // The record of its end was lost. One that is newer than the state stays.
    if (order < state.call_order || (order == state.call_order && state.call_id == 0)) {
      thread.open.reset();
      thread.in_group_end = false;
    }
  }
  if (state.call_id == 0 || state.detail == nullptr) return;
  if (!thread.open) OpenFromState(&thread, state);
  if (!thread.open || thread.open->record.order != state.call_order ||
      state.detail->wait == WaitKind::kNoWait) {
    return;
  }
  OpenCall& open = *thread.open;
  open.certain = true;
  // Which stream, and how far, its record tells exactly; the state names operations that it knows
  // of.
  if (open.record.As<ring::HostWaitPayload>().kind != WaitKind::kStream) open.covered.clear();
  for (const StreamPlace& place : state.detail->covered) {
    open.covered.push_back({place.stream, place.ordinal});
  }
}

// As if the record of its begin had come.
void StateMerge::OpenFromState(struct Thread* thread, const ThreadState& state) {
  const CallDetail& detail = *state.detail;
  if ((detail.flags & (kInGroup | kCapturing)) != 0) return;  // does not wait; or runs later
  CallRecord record;
  record.process = process_.info.process;
  record.thread = state.thread;
  record.kind = RecordKind::kBegin;
  record.call = state.call;
  record.flags = detail.flags;
  record.call_id = state.call_id;
  record.order = state.call_order;
  record.time_ns = state.since_ns;
  record.call_site = state.call_site;
  if (IsOperation(state.call)) {
    const LocalComm* local = Known(detail.comm);
    if (local == nullptr || Captured(detail.comm)) return;
    auto& operation = record.Make<ring::OperationPayload>();
    operation.comm = detail.comm;
    operation.stream = detail.stream;
    operation.count = detail.count;
    operation.sequence = detail.sequence;
    operation.root_or_peer = detail.root_or_peer;
    operation.datatype = detail.datatype;
    operation.reduce_op = detail.reduce_op;
  } else if (MakesCommunicator(state.call)) {
    const BlockComm* comm = block_.FindComm(detail.comm);
    const CalledNumbers* numbers = block_.FindNumbers(detail.comm, NumberKind::kCollective, -1);
    if (comm == nullptr || comm->uid == 0 || numbers == nullptr) return;
    auto& init = record.Make<ring::CommInitPayload>();
    init.comm = detail.comm;
    init.uid = comm->uid;
    init.nranks = comm->nranks;
    init.rank = comm->rank;
    init.device = detail.device;
    init.parent = comm->parent;
    init.color = numbers->color;
  } else if (state.call == Call::kHostWait) {
    auto& wait = record.Make<ring::HostWaitPayload>();
    wait.kind = detail.wait;
    wait.stream = detail.stream;
    wait.device = detail.device;
  } else if (state.call == Call::kCommWindowRegister) {
    // What the records said of its ordinal is short of those that were lost.
    const CalledNumbers* numbers = block_.FindNumbers(detail.comm, NumberKind::kCollective, -1);
    LocalComm* local = Known(detail.comm);
    if (numbers == nullptr || local == nullptr || numbers->windows == 0) return;
    local->windows = numbers->windows - 1;
  } else if (state.call != Call::kCommDestroy && state.call != Call::kCommFinalize &&
             state.call != Call::kCommAbort && state.call != Call::kCommRevoke) {
    return;
  }
  if (std::holds_alternative<std::monostate>(record.payload)) {
    record.Make<ring::CommCallPayload>().comm = detail.comm;
  }
  // Of what the process said itself nothing counts as a record that was read.
  const uint64_t records = process_.records, calls = process_.calls_begun;
  const uint64_t last = process_.last_record_ns, progress = process_.last_progress_ns;
  execution_.Apply(process_, record);
  process_.records = records;
  process_.calls_begun = calls;
  process_.last_record_ns = std::max(last, record.time_ns);
  process_.last_progress_ns = std::max(progress, record.time_ns);
  if (thread->open && thread->open->launch != 0) {
    if (Launch* const launch = execution_.launches_.Find(thread->open->launch); launch != nullptr)
      launch->from_state = true;
  }
}

void StateMerge::Pending() {
  std::vector<std::pair<const PendingStream*, const PendingOperation*>> all;
  for (const PendingStream& stream : block_.streams) {
    for (const PendingOperation& operation : stream.pending) all.emplace_back(&stream, &operation);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second->launch < b.second->launch;
  });
  // Of a group some may be known from records: what else is pending of it is of the same launch.
  for (const auto& [stream, operation] : all) NoteLaunch(*operation);
  for (const auto& [stream, operation] : all) PendingPart(*stream, *operation);
  // Those that are over leave their names free.
  std::erase_if(process_.state_launches,
                [&](const auto& entry) { return execution_.launches_.count(entry.second) == 0; });
}

PartRef StateMerge::RefOf(const PendingOperation& operation) {
  PartRef ref;
  ref.kind = PartKindOf(operation.call);
  ref.sequence = operation.sequence;
  if (ref.kind != PartKind::kCollective) ref.peer = operation.root_or_peer;
  return ref;
}

void StateMerge::NoteLaunch(const PendingOperation& operation) {
  const LocalComm* local = Known(operation.comm);
  if (local == nullptr || Captured(operation.comm)) return;
  PartRef ref = RefOf(operation);
  if (!IsOperation(operation.call)) return;
  ref.comm = local->index;
  ref.rank = local->rank;
  const MemberSlot* slot = matcher_.Slot(ref);
  if (slot == nullptr || slot->state != SlotState::kCalled ||
      execution_.launches_.count(slot->launch) == 0)
    return;
  process_.state_launches.try_emplace({operation.launch, operation.comm}, slot->launch);
}

void StateMerge::PendingPart(const PendingStream& stream, const PendingOperation& operation) {
  if (IsSignal(operation.call)) return EventWait(stream.stream, operation);  // the rest: signals_
  LocalComm* local = Known(operation.comm);
  Part part;
  part.ref = RefOf(operation);
  if (!IsOperation(operation.call)) return;
  pending_.insert(KeyOf(operation.comm, part.ref));
  if (local == nullptr || Captured(operation.comm)) return;
  part.ref.comm = local->index;
  part.ref.rank = local->rank;
  part.signature = SignatureOf(operation);
  part.stream = stream.stream;
  part.site = operation.site;
  part.order = operation.launch;
  part.time_ns = now_ns_;
  const StreamPosition position = {stream.stream, operation.ordinal};
  EventWait(stream.stream, operation);
  const MemberSlot* slot = matcher_.Slot(part.ref);
  if (slot != nullptr && slot->state != SlotState::kNone) {
    Launch* const launch = execution_.launches_.Find(slot->launch);
    if (slot->state == SlotState::kCalled && launch != nullptr) {
      execution_.PlaceFromState(process_, *launch,
                                position);  // only where it went was lost, if anything
    }
    return;
  }
  Launch* launch = LaunchOf(operation, *local);
  execution_.Post(part, launch->id, static_cast<uint32_t>(launch->parts.size()));
  const PartRef ref = part.ref;
  launch->parts.push_back(std::move(part));
  execution_.PlaceFromState(process_, *launch, position);
  matcher_.Accept(ref, now_ns_);
}

// The launch that the operation is a part of.
Launch* StateMerge::LaunchOf(const PendingOperation& operation, const LocalComm& local) {
  LaunchId& id = process_.state_launches[{operation.launch, operation.comm}];
  if (Launch* const found = execution_.launches_.Find(id); found != nullptr) return found;
  Launch& launch = execution_.launches_.Add();
  id = launch.id;
  launch.process = process_.info.process;
  launch.comm = operation.comm;
  launch.comm_index = local.index;
  launch.in_group = operation.in_group;
  launch.enqueued = true;
  launch.from_state = true;
  launch.time_ns = now_ns_;
  // W8: the one before it on the communicator, as far as that is known in the same way.
  for (const auto& [key, earlier] : process_.state_launches) {
    if (key.second != operation.comm || key.first >= operation.launch) continue;
    if (execution_.launches_.count(earlier) > 0) launch.previous_on_comm = earlier;
  }
  return &launch;
}

void ExecutionGraph::PlaceFromState(Process& process, Launch& launch, StreamPosition position) {
  for (const StreamPosition& known : launch.positions) {
    if (known.stream != position.stream) continue;
    launch.enqueued = true;  // the record of the group's end may be lost
    return;
  }
  StreamQueue& queue = Stream(process, position.stream, -1);
  if (position.ordinal <= queue.done) return;
  if (std::find(launch.streams.begin(), launch.streams.end(), position.stream) ==
      launch.streams.end()) {
    launch.streams.push_back(position.stream);
  }
  launch.enqueued = true;
  launch.follows = true;
  launch.positions.push_back(position);
  ++launch.open_positions;
  WorkItem item;
  item.ordinal = position.ordinal;
  item.launches.push_back(launch.id);
  item.site = launch.signal != nullptr ? launch.signal->site
              : launch.parts.empty()   ? 0
                                       : launch.parts.front().site;
  Append(queue, std::move(item));
}

// W3, from what the stream waits for since its operation before.
void StateMerge::EventWait(StreamId stream, const PendingOperation& operation) {
  StreamQueue& queue = execution_.Stream(process_, stream, -1);
  for (const PendingOperation::After& after : operation.after) {
    if (after.back == 0 || after.back > operation.ordinal) continue;
    const uint64_t ordinal = operation.ordinal - after.back;
    if (ordinal <= queue.done) continue;
    auto at = std::lower_bound(queue.items.begin(), queue.items.end(), ordinal,
                               [](const WorkItem& item, uint64_t n) { return item.ordinal < n; });
    if (at == queue.items.end() || at->ordinal != ordinal) {
      WorkItem item;
      item.ordinal = ordinal;
      item.kind = WorkKind::kEventWait;
      ExecutionGraph::Append(queue, std::move(item));
      at = std::lower_bound(queue.items.begin(), queue.items.end(), ordinal,
                            [](const WorkItem& item, uint64_t n) { return item.ordinal < n; });
    }
    if (at->kind != WorkKind::kEventWait) continue;
    if (!at->certain) at->event.clear();
    at->certain = true;
    const auto same = [&](const StreamPosition& p) {
      return p.stream == after.place.stream && p.ordinal == after.place.ordinal;
    };
    if (std::none_of(at->event.begin(), at->event.end(), same)) {
      at->event.push_back({after.place.stream, after.place.ordinal});
    }
    // It is not "soft" before what it waits for is.
    if (queue.soft >= ordinal) queue.soft = std::max(queue.done, ordinal - 1);
  }
}

// Counted, not in an open group, and in no queue.
bool StateMerge::IsOver(const Launch& launch, const Part& part) const {
  const CalledNumbers* numbers = NumbersOf(launch.comm, part.ref);
  return numbers != nullptr && !Captured(launch.comm) && part.ref.sequence < numbers->Launched() &&
         pending_.count(KeyOf(launch.comm, part.ref)) == 0;
}

bool StateMerge::IsUncounted(const Launch& launch) const {
  if (launch.signal != nullptr) return signals_.IsUncounted(launch);
  const Part& part = launch.parts.front();
  const CalledNumbers* numbers = NumbersOf(launch.comm, part.ref);
  return numbers != nullptr && part.ref.sequence >= numbers->next;
}

// Launches whose end was lost, and those that NCCL refused.
void StateMerge::Retire() {
  if (!whole_ || gap_) return;
  std::vector<LaunchId> over;
  std::set<LaunchId> refused;
  for (const auto& [id, launch] : execution_.launches_) {
    if (launch.process != process_.info.process || launch.aborted) continue;
    if (launch.signal == nullptr && launch.parts.empty()) continue;
    if (launch.signal != nullptr
            ? signals_.IsOver(launch)
            : std::all_of(launch.parts.begin(), launch.parts.end(),
                          [&, &k = launch](const Part& part) { return IsOver(k, part); })) {
      over.push_back(id);
      continue;
    }
    if (launch.enqueued || launch.in_group || process_.ended || !IsUncounted(launch)) continue;
    const uint64_t order =
        launch.signal != nullptr ? launch.signal->order : launch.parts.front().order;
    for (const ThreadState& state : process_.state.threads) {
      const bool left = state.thread == launch.thread && state.call_order >= order &&
                        (state.call_id == 0 || state.call_order != order);
      if (left) refused.insert(id);
    }
  }
  for (LaunchId id : over) execution_.LaunchDone(id);
  // Accepted after the numbers were read and left before the thread was, or refused: the next round
  // tells.
  for (LaunchId id : refused) {
    if (process_.perhaps_refused.count(id) > 0) execution_.DropLaunch(id, false);
  }
  process_.perhaps_refused = std::move(refused);
}

// Calls whose records were lost: made, and over unless they are pending.
void StateMerge::Numbers(const CalledNumbers& numbers) {
  LocalComm* local = Known(numbers.comm);
  if (local == nullptr || Captured(numbers.comm) || !whole_) return;
  PartRef ref;
  ref.comm = local->index;
  ref.rank = local->rank;
  if (numbers.kind != NumberKind::kCollective) {
    ref.kind = numbers.kind == NumberKind::kSend ? PartKind::kSend : PartKind::kReceive;
    ref.peer = numbers.peer;
    if (ref.peer < 0 || ref.peer >= matcher_.comms()[ref.comm].nranks) return;
  } else {
    CommMember& member = matcher_.comms()[ref.comm].members[ref.rank];
    member.next_sequence = std::max(member.next_sequence, numbers.next);
  }
  PartNumbers& seen = local->Numbers(ref);
  if (numbers.Launched() > seen.next) {
    seen.missing.emplace_back(seen.next, numbers.Launched());
    seen.next = numbers.Launched();
  }
  std::vector<std::pair<uint64_t, uint64_t>> missing;
  missing.swap(seen.missing);
  for (auto [from, to] : missing) {
    if (to > numbers.Launched()) {  // the state is older than the records
      seen.missing.emplace_back(std::max(from, numbers.Launched()), to);
      to = std::max(from, numbers.Launched());
    }
    // Those of which nothing but their number is known matter only to who waits for them.
    for (uint64_t n : matcher_.Unfinished(ref, from, to)) {
      ref.sequence = n;
      Settle(numbers, ref);
    }
    const uint64_t known = std::max(from, numbers.first);
    for (uint64_t n = known; n < to && n - numbers.first < numbers.last.size(); ++n) {
      ref.sequence = n;
      Settle(numbers, ref);
    }
  }
  if (numbers.kind == NumberKind::kCollective) matcher_.RetireLost(ref.comm);
}

void StateMerge::Settle(const CalledNumbers& numbers, PartRef ref) {
  const MemberSlot* slot = matcher_.Slot(ref);
  if (slot != nullptr && slot->state != SlotState::kNone) return;
  if (pending_.count(KeyOf(numbers.comm, ref)) > 0) return;
  MemberSlot mine;
  mine.state = SlotState::kCalled;
  mine.time_ns = now_ns_;
  const bool told =
      ref.sequence >= numbers.first && ref.sequence - numbers.first < numbers.last.size();
  if (told) {
    const CalledSignature& s = numbers.last[ref.sequence - numbers.first];
    mine.site = s.site;
    mine.signature = {s.call, s.datatype, s.reduce_op, s.root, s.count};
    if (ref.kind != PartKind::kCollective) {  // the block counts bytes, of which a type is made
      mine.signature.call = ref.kind == PartKind::kSend ? Call::kSend : Call::kRecv;
      mine.signature.datatype = 1;
    }
  }
  matcher_.Post(ref, mine);
  if (told) matcher_.Accept(ref, now_ns_);
  // With a gap in a queue it may be unfinished: that it was called is all that is known.
  if (!gap_) matcher_.Done(ref);
}

// Between operations there is nothing on a stream that does not end by itself.
void StateMerge::Soft() {
  for (const PendingStream& stream : block_.streams) {
    if (!stream.whole || stream.gap_last != 0) continue;
    StreamQueue& queue = execution_.Stream(process_, stream.stream, -1);
    uint64_t to = stream.enqueued;
    if (!queue.items.empty()) to = std::min(to, queue.items.front().ordinal - 1);
    for (const PendingOperation& operation : stream.pending) {
      to = std::min(to, operation.ordinal - 1);
    }
    queue.last = std::max(queue.last, stream.enqueued);
    queue.soft = std::max(queue.soft, to);
  }
}

void MergeState(ExecutionGraph* execution, Process* process, uint64_t now_ns) {
  process->signals_counted = false;
  if (process->block == nullptr || process->block->blind) return;
  if (process->first_call_ns == 0 && !process->block->comms.empty()) {
    process->first_call_ns = now_ns;
  }
  if (process->merger.incomplete()) return;  // what is on its way tells more
  StateMerge(execution, process, now_ns).Run();
}

}  // namespace gordian::model
