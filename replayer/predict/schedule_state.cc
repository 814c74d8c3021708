#include "replayer/predict/schedule_state.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gordian::replayer {
namespace {

using explore::Footprint;

constexpr Footprint kAll = {~uint64_t{0}, ~uint64_t{0}};

uint64_t Bit(uint64_t number) { return uint64_t{1} << (number % 64); }
// Two bits are for the legacy stream's order and the launches of a device.
constexpr uint64_t kLegacyBit = 1, kLaunchBit = 2;
uint64_t StreamBit(int stream) { return Bit(2 + 3 * static_cast<uint64_t>(stream)); }
uint64_t CommBit(int comm) { return Bit(3 + 3 * static_cast<uint64_t>(comm)); }
uint64_t EventBit(int event) { return Bit(4 + 3 * static_cast<uint64_t>(event)); }

bool LaunchesInOrder(const Schedule& schedule) {
  return std::any_of(
      schedule.environment.begin(), schedule.environment.end(), [](const auto& setting) {
        return setting.second == "1" && (setting.first == "NCCL_LAUNCH_ORDER_IMPLICIT" ||
                                         setting.first == "CUDA_DEVICE_MAX_CONNECTIONS");
      });
}

class Marker {
 public:
  Marker(const Schedule& schedule, size_t rank)
      : program_(schedule.ranks[rank]), in_order_(LaunchesInOrder(schedule)) {}

  Footprint Of(const Op& op) const {
    if (op.captured) return kAll;
    switch (op.kind) {
      case OpKind::kGroupStart:
        return {};
      case OpKind::kEventRecord:
        return {StreamBit(op.stream) | ReadsLegacy(op.stream), EventBit(op.event)};
      case OpKind::kStreamWaitEvent:
        return Work(op.stream) |= {EventBit(op.event), 0};
      case OpKind::kKernel:
      case OpKind::kHostFunction:
        return Work(op.stream);
      case OpKind::kStreamSync:
        return {StreamBit(op.stream), 0};
      case OpKind::kCopy:
        return {StreamBit(op.stream) | kLegacyBit | AllStreams(), 0};
      case OpKind::kEventSync:
        return {EventBit(op.event), 0};
      case OpKind::kDeviceSync:
      case OpKind::kFree:
        return {AllStreams(), 0};
      default:
        break;
    }
    if (!IsOperation(op.kind)) return kAll;
    if (op.in_group) return {0, CommBit(op.comm)};
    return Launch(op);
  }
  // Of a launch by an operation, in a group or alone.
  Footprint Launch(const Op& op) const {
    Footprint launch = Work(op.stream);
    launch.writes |= CommBit(op.comm) | (in_order_ ? kLaunchBit : 0);
    return launch;
  }

 private:
  StreamKind KindOf(int stream) const { return program_.streams[static_cast<size_t>(stream)].kind; }
  uint64_t ReadsLegacy(int stream) const {
    return KindOf(stream) == StreamKind::kNonBlocking ? 0 : kLegacyBit;
  }
  Footprint Work(int stream) const {
    Footprint work = {ReadsLegacy(stream), StreamBit(stream)};
    if (KindOf(stream) == StreamKind::kLegacy) work.writes |= kLegacyBit;
    return work;
  }
  uint64_t AllStreams() const {
    uint64_t all = 0;
    for (size_t i = 0; i < program_.streams.size(); ++i) all |= StreamBit(static_cast<int>(i));
    return all;
  }

  const RankProgram& program_;
  const bool in_order_;
};

// Calls visit(op) for each operation of the group that the call at `end` ends.
void ForGroup(const std::vector<Op>& ops, size_t end, const std::function<void(const Op&)>& visit) {
  for (size_t i = end; i-- > 0 && ops[i].kind != OpKind::kGroupStart;) visit(ops[i]);
}

// Resources of a rank, as the graph numbers them.
enum class Resource : uint32_t { kStream, kComm, kEvent, kLegacy, kBlocking, kLaunches };
uint32_t NumberOf(Resource resource, int index = 0) {
  return static_cast<uint32_t>(index) * 6 + static_cast<uint32_t>(resource);
}

class Ordering {
 public:
  explicit Ordering(const RecordedOrders& orders)
      : schedule_(orders.schedule),
        recorded_(orders.recorded),
        moments_(orders.moments),
        in_order_(LaunchesInOrder(schedule_)) {}

  OrderedCalls Run() {
    size_t actor = 0;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      std::unordered_map<OpId, std::pair<size_t, size_t>> places;  // thread and index
      const std::vector<ThreadProgram>& threads = schedule_.ranks[rank].threads;
      for (size_t thread = 0; thread < threads.size(); ++thread) {
        for (size_t i = 0; i < threads[thread].ops.size(); ++i)
          places[threads[thread].ops[i].id] = {thread, i};
      }
      for (const OpId id : recorded_[rank]) {
        const auto [thread, index] = places.at(id);
        Add(rank, actor + thread, threads[thread].ops, index);
      }
      actor += std::max<size_t>(threads.size(), 1);
    }
    return std::move(ordered_);
  }

 private:
  void Add(size_t rank, size_t actor, const std::vector<Op>& ops, size_t index) {
    const Op& op = ops[index];
    if (op.kind == OpKind::kGroupStart) return;
    explore::OrderedCall call;
    call.actor = actor;
    call.group = rank;
    std::tie(call.begun, call.returned) = moments_.at(op.id);
    call.fold = std::hash<std::string>()(op.site) ^ (static_cast<uint64_t>(op.comm + 1) << 8) ^
                (static_cast<uint64_t>(op.stream + 1) << 24) ^ static_cast<uint64_t>(op.kind);
    for (const Gate& gate : op.gates) {
      if (const auto earlier = calls_.find(gate.after); earlier != calls_.end())
        call.after.push_back(earlier->second);
    }
    Uses(rank, op, &call);
    if (op.kind == OpKind::kGroupEnd) {
      ForGroup(ops, index, [&](const Op& inner) {
        Uses(rank, inner, &call);
        Launches(rank, inner, &call);
      });
    } else if (IsOperation(op.kind) && !op.in_group) {
      Launches(rank, op, &call);
    }
    calls_[op.id] = ordered_.calls.size();
    ordered_.calls.push_back(std::move(call));
    ordered_.ops.push_back(&op);
    ordered_.steps.push_back({actor, index});
  }

  void Launches(size_t rank, const Op& op, explore::OrderedCall* call) {
    Works(rank, op.stream, call);
    call->adds.push_back(NumberOf(Resource::kComm, op.comm));
    if (in_order_) call->adds.push_back(NumberOf(Resource::kLaunches));
    const Communicator& comm = schedule_.comms[static_cast<size_t>(op.comm)];
    const int me = MemberOf(comm, static_cast<int>(rank));
    const model::Ends ends = model::EndsOf(RoleOf(op, me));
    const auto number = numbers_[{op.comm, ends.source, ends.destination, me}]++;
    const auto [instance, added] = instances_.try_emplace(
        {op.comm, ends.source, ends.destination, number}, static_cast<uint32_t>(instances_.size()));
    call->instances.push_back(instance->second);
    // A first use may make the thread wait (W15).
    if (!comm.connected) call->blocks = true;
  }

  void Works(size_t rank, int stream, explore::OrderedCall* call) const {
    call->adds.push_back(NumberOf(Resource::kStream, stream));
    const StreamKind kind = KindOf(rank, stream);
    if (kind == StreamKind::kNonBlocking) return;
    const bool legacy = kind == StreamKind::kLegacy;
    call->adds.push_back(NumberOf(legacy ? Resource::kLegacy : Resource::kBlocking));
    call->awaits.push_back(NumberOf(legacy ? Resource::kBlocking : Resource::kLegacy));
  }

  StreamKind KindOf(size_t rank, int stream) const {
    return schedule_.ranks[rank].streams[static_cast<size_t>(stream)].kind;
  }

  void Uses(size_t rank, const Op& op, explore::OrderedCall* call) {
    switch (op.kind) {
      case OpKind::kEventRecord:
        Works(rank, op.stream, call);
        call->adds.push_back(NumberOf(Resource::kEvent, op.event));
        return;
      case OpKind::kStreamWaitEvent:
        Works(rank, op.stream, call);
        call->awaits.push_back(NumberOf(Resource::kEvent, op.event));
        return;
      case OpKind::kKernel:
      case OpKind::kHostFunction:
      case OpKind::kGraphLaunch:
        Works(rank, op.stream, call);
        return;
      case OpKind::kStreamSync:
        call->awaits.push_back(NumberOf(Resource::kStream, op.stream));
        call->blocks = true;
        return;
      case OpKind::kEventSync:
        call->awaits.push_back(NumberOf(Resource::kEvent, op.event));
        call->blocks = true;
        return;
      case OpKind::kCopy:
      case OpKind::kDeviceSync:
      case OpKind::kFree:
        for (size_t i = 0; i < schedule_.ranks[rank].streams.size(); ++i)
          call->awaits.push_back(NumberOf(Resource::kStream, static_cast<int>(i)));
        call->blocks = true;
        return;
      default:
        return;
    }
  }

  const Schedule& schedule_;
  const std::vector<std::vector<OpId>>& recorded_;
  const std::unordered_map<OpId, std::pair<uint64_t, uint64_t>>& moments_;
  const bool in_order_;
  OrderedCalls ordered_;
  std::unordered_map<OpId, size_t> calls_;
  std::map<std::tuple<int, int, int, int>, uint64_t> numbers_;
  std::map<std::tuple<int, int, int, uint64_t>, uint32_t> instances_;
};

}  // namespace

Footprints FootprintsOf(const Schedule& schedule) {
  Footprints footprints(schedule.ranks.size());
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const Marker marker(schedule, rank);
    for (const ThreadProgram& thread : schedule.ranks[rank].threads) {
      std::vector<Feet>& of = footprints[rank].emplace_back(thread.ops.size());
      Footprint rest;
      for (size_t i = thread.ops.size(); i-- > 0;) {
        const Op& op = thread.ops[i];
        if (op.kind != OpKind::kGroupEnd || op.captured) {
          of[i].next = marker.Of(op);
        } else {
          ForGroup(thread.ops, i, [&](const Op& inner) {
            of[i].next |= marker.Of(inner);
            if (IsOperation(inner.kind)) of[i].next |= marker.Launch(inner);
          });
        }
        rest |= of[i].next;
        of[i].rest = rest;
      }
    }
    if (footprints[rank].empty()) footprints[rank].emplace_back();
  }
  return footprints;
}

OrderedCalls OrderedCallsOf(const RecordedOrders& orders) { return Ordering(orders).Run(); }

ScheduleState::ScheduleState(const Schedule& schedule, const Footprints& footprints)
    : machine_(schedule), schedule_(schedule), footprints_(footprints) {
  machine_.GoStepwise();
  std::unordered_map<OpId, explore::Step> all, gating;
  for (size_t rank = 0; rank < footprints.size(); ++rank) {
    for (size_t thread = 0; thread < footprints[rank].size(); ++thread) {
      for (size_t i = 0; i < footprints[rank][thread].size(); ++i)
        all[schedule.ranks[rank].threads[thread].ops[i].id] = {places_.size(), i};
      places_.emplace_back(rank, thread);
    }
  }
  ForEachOp(schedule, [&](size_t, size_t, const Op& op) {
    for (const Gate& gate : op.gates) {
      if (const auto found = all.find(gate.after); found != all.end()) gating.insert(*found);
    }
  });
  gating_ = std::make_shared<const std::unordered_map<OpId, explore::Step>>(std::move(gating));
}

// A call of a schedule leaves so much behind in a machine, as measured.
constexpr size_t kBytesOfCall = 700, kBytesOfThread = 700;

size_t ScheduleState::Bytes() const {
  size_t bytes = 0;
  for (const auto& [rank, thread] : places_)
    bytes += kBytesOfThread + kBytesOfCall * machine_.ReturnedFrom(rank, thread);
  return bytes;
}

std::vector<explore::Actor> ScheduleState::Actors() const {
  std::vector<explore::Actor> actors;
  for (const auto& [rank, thread] : places_) {
    explore::Actor& actor = actors.emplace_back();
    const std::vector<Feet>& feet = footprints_[rank][thread];
    actor.group = rank;
    actor.at = machine_.ReturnedFrom(rank, thread);
    actor.in_call = machine_.InCall(rank, thread);
    actor.enabled = machine_.CanMove(rank, thread);
    const Op* const next = machine_.NextOf(rank, thread);
    actor.finished = next == nullptr;
    actor.yields = Yields(rank, thread, next);
    if (actor.finished) continue;
    actor.next = feet[actor.at].next;
    actor.rest = feet[actor.at].rest;
  }
  return actors;
}

bool ScheduleState::Yields(size_t rank, size_t thread, const Op* next) const {
  if (next == nullptr || machine_.InCall(rank, thread)) return true;
  const size_t at = machine_.ReturnedFrom(rank, thread);
  if (at > 0 && IsHostWait(schedule_.ranks[rank].threads[thread].ops[at - 1].kind)) return true;
  return std::any_of(next->gates.begin(), next->gates.end(), [&](const Gate& gate) {
    const auto found = gating_->find(gate.after);
    if (found == gating_->end()) return false;
    const auto& [other_rank, other_thread] = places_[found->second.actor];
    const size_t returned = machine_.ReturnedFrom(other_rank, other_thread);
    return returned < found->second.call ||
           (returned == found->second.call && !machine_.InCall(other_rank, other_thread));
  });
}

void ScheduleState::Move(size_t actor) {
  machine_.Make(places_[actor].first, places_[actor].second);
}

}  // namespace gordian::replayer
