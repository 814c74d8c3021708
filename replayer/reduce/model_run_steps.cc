// The machine, move by move.
#include <algorithm>

#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer {
namespace {

void AppendNumber(uint64_t number, std::string* key) {
  do {
    key->push_back(static_cast<char>((number & 0x7f) | (number > 0x7f ? 0x80 : 0)));
    number >>= 7;
  } while (number != 0);
}

// No other thread can change what comes after its return.
bool ReturnsAlone(const Op& op) { return IsHostWait(op.kind); }

}  // namespace

void Machine::GoStepwise() {
  stepwise_ = true;
  Settle();
}

const Op* Machine::NextOf(size_t index, size_t number) const {
  const Rank& rank = ranks_[index];
  const Thread& thread = rank.threads[number];
  return rank.dead || rank.stopped || thread.at >= thread.ops->size() ? nullptr
                                                                      : &(*thread.ops)[thread.at];
}

bool Machine::CanMove(size_t rank, size_t number) const {
  const Op* const op = NextOf(rank, number);
  if (op == nullptr) return false;
  const Thread& thread = ranks_[rank].threads[number];
  if (thread.in_call) return CanReturn(rank, thread, op);
  return !begun_.contains(op->id) && MayBegin(*op);
}

void Machine::Make(size_t rank, size_t thread) {
  MoveThread(rank, thread);
  Settle();
}

void Machine::Settle() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      moved |= RunStreams(rank);
      for (size_t i = 0; i < ranks_[rank].threads.size(); ++i) {
        const Op* const op = NextOf(rank, i);
        if (op == nullptr || (InCall(rank, i) && ReturnsAlone(*op))) moved |= MoveThread(rank, i);
      }
    }
  }
}

bool Machine::MustConnect(size_t rank, const Thread& thread) const {
  return std::any_of(thread.parts.begin(), thread.parts.end(), [&](const Part& part) {
    const model::FirstUses uses = UsesOf(rank, *part.op);
    const Local& local = ranks_[rank].comms.at(part.op->comm);
    return (uses.collectives && runtime_connect_ && !local.used) ||
           std::any_of(uses.peers.begin(), uses.peers.end(),
                       [&](const auto& peer) { return !local.peers.contains(peer); });
  });
}

void Machine::AppendPlace(const Rank& rank, const Place& place, std::string* key) const {
  const Queue& queue = rank.queues[static_cast<size_t>(place.stream)];
  if (place.ordinal <= queue.done) return;
  AppendNumber(static_cast<uint64_t>(place.stream) + 1, key);
  AppendNumber(place.ordinal - queue.done, key);
}

void Machine::AppendQueues(const Rank& rank, std::string* key) const {
  for (const Queue& queue : rank.queues) {
    for (size_t i = queue.done; i < queue.items.size(); ++i) {
      const Item& item = queue.items[i];
      for (const Place& place : item.after) AppendPlace(rank, place, key);
      AppendNumber(0, key);
      for (const int number : item.launches) {
        const Launch& launch = launches_[static_cast<size_t>(number)];
        AppendNumber(1u + launch.started + 2u * launch.done, key);
        for (const Part& part : launch.parts) {
          AppendNumber(part.op->id, key);
          AppendNumber(part.number, key);
        }
        const bool held = launch.before >= 0 && !launches_[static_cast<size_t>(launch.before)].done;
        AppendNumber(held ? launches_[static_cast<size_t>(launch.before)].parts.front().op->id : 0,
                     key);
      }
      AppendNumber(0, key);
    }
    AppendNumber(0, key);
  }
  for (const std::vector<Place>& event : rank.events) {
    for (const Place& place : event) AppendPlace(rank, place, key);
    AppendNumber(0, key);
  }
}

// Which calls met, or will meet, where not all members have started.
void Machine::AppendComms(std::string* key) const {
  for (const CommState& comm : comms_) {
    for (size_t number = 0; number < comm.collectives.size(); ++number) {
      const std::vector<Slot>& slots = comm.collectives[number];
      if (std::all_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.started; }))
        continue;
      AppendNumber(number + 1, key);
      for (const Slot& slot : slots) {
        AppendNumber(slot.op == nullptr ? 0 : slot.op->id, key);
        AppendNumber(slot.called + 2u * slot.started, key);
      }
    }
    AppendNumber(0, key);
    for (const auto& [pair, transfers] : comm.transfers) {
      for (size_t number = 0; number < transfers.size(); ++number) {
        const auto& [send, receive] = transfers[number];
        if (send.started && receive.started) continue;
        AppendNumber(number + 1, key);
        AppendNumber(send.op == nullptr ? 0 : send.op->id, key);
        AppendNumber(receive.op == nullptr ? 0 : receive.op->id, key);
        AppendNumber(send.called + 2u * send.started, key);
        AppendNumber(receive.called + 2u * receive.started, key);
      }
      AppendNumber(0, key);
    }
  }
}

std::string Machine::Key() const {
  std::string key;
  if (launch_order_ || one_queue_) return key;
  for (const Rank& rank : ranks_) {
    if (!rank.graphs.empty()) return "";
    AppendNumber(rank.dead + 2u * rank.stopped, &key);
    for (const Thread& thread : rank.threads) {
      AppendNumber(thread.at, &key);
      AppendNumber(thread.in_call + 2u * thread.in_group, &key);
      for (const Part& part : thread.parts) {
        AppendNumber(part.op->id, &key);
        AppendNumber(part.number, &key);
      }
      if (!thread.in_call) continue;
      for (const Place& place : thread.covered) AppendPlace(rank, place, &key);
      AppendNumber(0, &key);
    }
    for (const auto& [comm, local] : rank.comms) {
      AppendNumber(local.used + 2u * local.aborted + 4u * local.destroyed, &key);
      AppendNumber(local.peers.size(), &key);
    }
    AppendQueues(rank, &key);
  }
  AppendComms(&key);
  return key;
}

}  // namespace gordian::replayer
