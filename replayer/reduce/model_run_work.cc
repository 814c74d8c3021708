// The machine's streams and launches: rules W1 to W3, W7, W8, W12 and W13 of docs/wait-model.md.
#include <algorithm>
#include <utility>

#include "replayer/record/buffers.h"
#include "replayer/reduce/mismatch.h"
#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer {

bool Machine::IsDone(const Rank& rank, const Place& place) const {
  return rank.queues[static_cast<size_t>(place.stream)].done >= place.ordinal;
}

// W13: the last work on the streams that hold up new work on this one.
std::vector<Machine::Place> Machine::Legacy(size_t rank, int stream) const {
  const std::vector<Stream>& streams = schedule_.ranks[rank].streams;
  const StreamKind kind = streams[static_cast<size_t>(stream)].kind;
  std::vector<Place> places;
  if (kind == StreamKind::kNonBlocking) return places;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (static_cast<int>(i) == stream || streams[i].kind == StreamKind::kNonBlocking) continue;
    const size_t last = ranks_[rank].queues[i].items.size();
    if ((kind == StreamKind::kLegacy) != (streams[i].kind == StreamKind::kLegacy) && last > 0) {
      places.push_back({static_cast<int>(i), last});
    }
  }
  return places;
}

Machine::Place Machine::Append(size_t rank, int stream, std::vector<Place> after) {
  Queue& queue = At(rank).queues[static_cast<size_t>(stream)];
  queue.items.emplace_back().after = std::move(after);
  return {stream, queue.items.size()};
}

Machine::Part Machine::Number(size_t rank, const Op& op, bool from_graph) {
  Local& local = At(rank).comms.at(op.comm);
  Numbers& numbers = IsTransfer(op.kind)
                         ? local.transfers[{op.root_or_peer, op.kind == OpKind::kSend}]
                         : local.collectives;
  Part part;
  part.op = &op;
  part.number = numbers.launched++;
  if (!from_graph) part.called = numbers.called++;
  return part;
}

Machine::Slot& Machine::SlotOf(size_t rank, const Part& part) {
  CommState& comm = comms_[static_cast<size_t>(part.op->comm)];
  const int place = At(rank).comms.at(part.op->comm).place;
  if (!IsTransfer(part.op->kind)) {
    auto& all = comm.collectives;
    while (all.size() <= part.number) all.emplace_back(Comm(part.op->comm).members.size());
    return all[part.number][static_cast<size_t>(place)];
  }
  const bool sends = part.op->kind == OpKind::kSend;
  const int peer = part.op->root_or_peer;
  auto& all = comm.transfers[sends ? std::pair(place, peer) : std::pair(peer, place)];
  if (all.size() <= part.number) all.resize(part.number + 1);
  return sends ? all[part.number].first : all[part.number].second;
}

int Machine::AddLaunch(size_t rank, int comm) {
  const int index = static_cast<int>(launches_.size());
  Launch& launch = launches_.emplace_back();
  launch.rank = static_cast<int>(rank);
  launch.comm = comm;
  launch.before = std::exchange(At(rank).comms.at(comm).last_launch, index);
  return index;
}

// W7: the operations of a group on one communicator are one launch, on all its streams.
void Machine::Enqueue(size_t rank, size_t thread, bool group) {
  Thread& caller = At(rank).threads[thread];
  std::map<int, std::vector<Place>> legacy;  // the group does not wait for itself
  for (const Part& part : caller.parts)
    legacy.try_emplace(part.op->stream, Legacy(rank, part.op->stream));
  const int issued = At(rank).last_issued;
  std::map<int, size_t> ordinals;  // by stream
  std::map<int, int> launches;     // by communicator
  for (const Part& part : caller.parts) {
    const int stream = part.op->stream;
    const auto [ordinal, added] = ordinals.try_emplace(stream, 0);
    if (added) {
      ordinal->second = Append(rank, stream, std::move(legacy.at(stream))).ordinal;
      if (group) {
        Emit(rank, thread, model::RecordKind::kEnqueue, model::Call::kGroupEnd, nullptr).payload =
            ring::EnqueuePayload{.group = caller.group,
                                 .stream = static_cast<model::StreamId>(stream + 1),
                                 .ordinal = ordinal->second};
      }
    }
    Local& local = At(rank).comms.at(part.op->comm);
    if (!IsTransfer(part.op->kind) && local.open > 0) --local.open;
    NoteUsed(rank, *part.op);
    if (model::IsEmpty(RoleIn(rank, *part.op))) continue;
    const auto [found, fresh] = launches.try_emplace(part.op->comm, 0);
    if (fresh) {
      found->second = AddLaunch(rank, part.op->comm);
      launches_.back().issued_before = issued;
      At(rank).last_issued = found->second;
    }
    Launch& launch = launches_[static_cast<size_t>(found->second)];
    launch.parts.push_back(part);
    const bool there = std::any_of(launch.places.begin(), launch.places.end(),
                                   [&](const Place& p) { return p.stream == stream; });
    if (there) continue;
    launch.places.push_back({stream, ordinal->second});
    Item& item = At(rank).queues[static_cast<size_t>(stream)].items[ordinal->second - 1];
    item.launches.push_back(found->second);
    ++item.running;
  }
  caller.parts.clear();
}

// W15: a connected pair does not connect again.
void Machine::NoteUsed(size_t rank, const Op& op) {
  Local& local = At(rank).comms.at(op.comm);
  const model::FirstUses uses = UsesOf(rank, op);
  local.peers.insert(uses.peers.begin(), uses.peers.end());
  local.used |= uses.collectives;
}

bool Machine::RunStreams(size_t index) {
  Rank& rank = At(index);
  bool moved = false;
  if (rank.dead || rank.stopped) return false;
  for (Queue& queue : rank.queues) {
    while (queue.done < queue.items.size()) {
      const Item& item = queue.items[queue.done];
      if (!std::all_of(item.after.begin(), item.after.end(),
                       [&](const Place& place) { return IsDone(rank, place); }))
        break;
      for (const int number : item.launches) {
        Launch& launch = launches_[static_cast<size_t>(number)];
        if (!launch.started && CanStart(launch)) {
          launch.started = moved = true;
          for (const Part& part : launch.parts) NoteStart(index, part);
        }
        if (launch.started && !launch.done && CanEnd(launch)) {
          End(&launch);
          moved = true;
        }
      }
      if (item.running > 0) break;
      ++queue.done;
      if (!item.launches.empty()) queue.marked = queue.done;
      moved = true;
    }
  }
  return moved;
}

bool Machine::CanStart(const Launch& launch) const {
  const Rank& rank = ranks_[static_cast<size_t>(launch.rank)];
  const auto done = [&](int other) { return launches_[static_cast<size_t>(other)].done; };
  for (const Place& place : launch.places) {
    const Queue& queue = rank.queues[static_cast<size_t>(place.stream)];
    if (queue.done + 1 < place.ordinal) return false;
    for (const Place& after : queue.items[place.ordinal - 1].after) {
      if (!IsDone(rank, after)) return false;
    }
  }
  if (launch.before >= 0 && !done(launch.before)) return false;
  if (!std::all_of(launch.behind.begin(), launch.behind.end(), done)) return false;
  return !(launch_order_ || one_queue_) || launch.issued_before < 0 ||
         launches_[static_cast<size_t>(launch.issued_before)].started;
}

bool Machine::CanEnd(const Launch& launch) const {
  return launch.aborted || std::all_of(launch.parts.begin(), launch.parts.end(),
                                       [&](const Part& part) { return PartCanEnd(launch, part); });
}

void Machine::NoteStart(size_t rank, const Part& part) {
  Slot& slot = SlotOf(rank, part);
  const bool again = std::exchange(slot.started, true);
  if (again || IsTransfer(part.op->kind)) return;
  std::vector<Started>& all = comms_[static_cast<size_t>(part.op->comm)].started;
  if (all.size() <= part.number) all.resize(part.number + 1);
  Started& started = all[part.number];
  ++started.members;
  if (started.first == nullptr) started.first = part.op;
  const Op& first = *started.first;
  started.alike &= first.kind == part.op->kind && first.root_or_peer == part.op->root_or_peer &&
                   Bytes(first) == Bytes(*part.op);
}

bool Machine::PartCanEnd(const Launch& launch, const Part& part) const {
  const Op& op = *part.op;
  const CommState& comm = comms_[static_cast<size_t>(op.comm)];
  const int me = ranks_[static_cast<size_t>(launch.rank)].comms.at(op.comm).place;
  const model::Role role = RoleOf(op, me);
  if (model::NeedsOf(role) == model::Needs::kNoOther) return true;
  if (op.kind == OpKind::kRecv) {
    const auto& [send, receive] = comm.transfers.at({op.root_or_peer, me})[part.number];
    if (!send.started || send.aborted) return false;
    return Bytes(*send.op) >= Bytes(op) || Bytes(op) >= kSmallBelowBytes;
  }
  const std::vector<Slot>& members = comm.collectives[part.number];
  if (model::NeedsOf(role) == model::Needs::kAll) {  // without a look at each of thousands
    const Started& started = comm.started[part.number];
    if (started.members < members.size()) return false;
    if (started.alike && !started.aborted) return true;
  }
  std::vector<Slot> others;
  for (int i = 0; i < static_cast<int>(members.size()); ++i) {
    if (i == me || !model::NeedsStartOf(role, i)) continue;
    const Slot& other = members[static_cast<size_t>(i)];
    if (!other.started || other.aborted) return false;
    others.push_back(other);
  }
  return EndsBeside(op, others);
}

// True if a member may end without the `others`, whose data it waits for, having the same operation:
// all of them have started one.
bool Machine::EndsBeside(const Op& own, const std::vector<Slot>& others) {
  bool kinds = false, roots = false;
  uint64_t least = Bytes(own), most = Bytes(own);
  for (const Slot& other : others) {
    kinds |= other.op->kind != own.kind;
    roots |= HasRoot(own.kind) && other.op->root_or_peer != own.root_or_peer;
    least = std::min(least, Bytes(*other.op));
    most = std::max(most, Bytes(*other.op));
  }
  if (kinds) return most >= kSmallBelowBytes && own.kind == OpKind::kAllGather;
  if (roots) return false;
  if (least == most) return true;
  if (IsPairwise(own.kind)) return Bytes(own) == least;
  return EndsUnequal(Bytes(own), least, most, /*two=*/others.size() == 1);
}

void Machine::End(Launch* launch) {
  launch->done = true;
  for (const Place& place : launch->places) {
    --At(static_cast<size_t>(launch->rank))
          .queues[static_cast<size_t>(place.stream)]
          .items[place.ordinal - 1]
          .running;
  }
}

// Handles a call on a capturing stream. Streams join a capture by waiting for its events.
void Machine::Capture(size_t rank, size_t thread, const Op& op) {
  Thread& caller = At(rank).threads[thread];
  const auto graph_of = [&](int stream) {
    const auto found = caller.captures.find(stream);
    if (found != caller.captures.end()) return found->second;
    return caller.captures.empty() ? -1 : caller.captures.begin()->second;
  };
  if (op.kind == OpKind::kStreamWaitEvent) {
    const auto event = caller.captured_events.find(op.event);
    if (event == caller.captured_events.end()) return;
    const auto& [number, behind] = event->second;
    caller.captures.try_emplace(op.stream, number);
    auto& frontier = At(rank).graphs[static_cast<size_t>(number)].frontier[op.stream];
    frontier.insert(frontier.end(), behind.begin(), behind.end());
    return;
  }
  const int number = graph_of(op.stream);
  if (number < 0) return;
  Graph& graph = At(rank).graphs[static_cast<size_t>(number)];
  if (op.kind == OpKind::kEventRecord) {
    caller.captured_events[op.event] = {number, graph.frontier[op.stream]};
    return;
  }
  if (!IsOperation(op.kind)) return;  // other contents end by themselves
  model::CallRecord& record =
      caller.in_group ? Emit(rank, thread, model::RecordKind::kBegin, CallOf(op.kind), &op)
                      : Enter(rank, thread, CallOf(op.kind), &op);
  FillOperation(rank, thread, {.op = &op}, &record);
  record.flags |= model::kCapturing;
  std::get<ring::OperationPayload>(record.payload).sequence =
      0x100u + static_cast<uint64_t>(number);
  if (caller.in_group) {  // connects at the group's end
    Emit(rank, thread, model::RecordKind::kEnd, CallOf(op.kind), nullptr);
  } else {
    caller.parts.clear();
    caller.meetings.clear();
  }
  caller.capturing.push_back(&op);
  if (model::IsEmpty(RoleIn(rank, op))) return;
  const uint32_t group = caller.in_group ? caller.group : 0;
  auto launch =
      std::find_if(graph.launches.begin(), graph.launches.end(), [&](const Captured& other) {
        return group != 0 && other.group == group && other.comm == op.comm;
      });
  if (launch == graph.launches.end()) {
    launch =
        graph.launches.insert(launch, Captured{.comm = op.comm, .group = group, .thread = thread});
  }
  const int index = static_cast<int>(launch - graph.launches.begin());
  std::vector<int>& frontier = graph.frontier[op.stream];
  for (const int before : frontier) {
    if (before != index) launch->behind.push_back(before);
  }
  launch->ops.push_back(&op);
  frontier = {index};
}

void Machine::LaunchGraph(size_t rank, size_t thread, const Op& op) {
  const Place place = Append(rank, op.stream, Legacy(rank, op.stream));
  const Graph& graph = At(rank).graphs[static_cast<size_t>(op.graph)];
  std::vector<int> made;
  for (const Captured& captured : graph.ready ? graph.launches : std::vector<Captured>()) {
    const int number = AddLaunch(rank, captured.comm);
    Launch& launch = launches_.back();
    launch.places = {place};
    for (const int before : captured.behind)
      launch.behind.push_back(made[static_cast<size_t>(before)]);
    for (const Op* const inner : captured.ops) {
      launch.parts.push_back(Number(rank, *inner, /*from_graph=*/true));
      Slot& slot = SlotOf(rank, launch.parts.back());
      slot.op = inner;
      slot.called = true;
    }
    made.push_back(number);
  }
  Item& item = At(rank).queues[static_cast<size_t>(op.stream)].items[place.ordinal - 1];
  item.launches = made;
  item.running = made.size();
  Emit(rank, thread, model::RecordKind::kPoint, model::Call::kStreamWork, &op).payload =
      ring::WorkPayload{.stream = static_cast<model::StreamId>(op.stream + 1),
                        .kind = model::WorkKind::kGraphLaunch,
                        .ordinal = place.ordinal,
                        .event = 0x2000u + static_cast<uint64_t>(op.graph)};
}

}  // namespace gordian::replayer
