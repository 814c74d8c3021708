#include "analyzer/importers/flight_calls.h"

#include <algorithm>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/waits/decider.h"

namespace gordian::importers {
namespace {

FlightChannel ChannelOf(const FlightOperation& operation) {
  return {operation.group, operation.p2p, operation.low, operation.high};
}

}  // namespace

FlightCalls::FlightCalls(const std::vector<FlightDump>& dumps) {
  std::map<std::string, std::set<bool>> kinds;
  for (const FlightDump& dump : dumps) {
    FlightRank& rank = ranks_[dump.rank];
    rank.dump = &dump;
    groups_.insert(dump.groups.begin(), dump.groups.end());
    for (const FlightEntry& entry : dump.entries) {
      keys_.insert(entry.group);
      ++entries_;
      kinds[entry.group].insert(entry.p2p);
      FlightOperation operation;
      if (!OperationOf(dump.rank, entry, &operation)) {
        if (entry.operation == kFlightEndOfBatch) continue;
        not_visible_.insert("sends and receives whose peers the dumps do not name");
        continue;
      }
      rank.entries.emplace(operation, &entry);
      if (entry.p2p) rank.ways[operation].insert(entry.sends);
      auto [numbers, added] =
          rank.numbers.try_emplace(ChannelOf(operation), entry.sequence, entry.sequence);
      numbers->second.first = std::min(numbers->second.first, entry.sequence);
      numbers->second.second = std::max(numbers->second.second, entry.sequence);
      users_[operation.group].insert(dump.rank);
      if (!entry.completed) rank.open.emplace(operation, &entry);
      operations_.insert(operation);
    }
  }
  for (const auto& [group, seen] : kinds) {
    if (seen.size() > 1) mixed_.insert(group);
  }
  FindLockstep();
  std::set<int> everybody;
  for (const auto& [key, group] : groups_) everybody.insert(group.ranks.begin(), group.ranks.end());
  for (const auto& [number, rank] : ranks_) everybody.insert(number);
  everybody.erase(kUnknownMember);
  expected_ = static_cast<int>(everybody.size());
  for (const int rank : everybody) {
    if (ranks_.count(rank) == 0)
      not_visible_.insert("rank " + std::to_string(rank) + " left no dump");
  }
}

bool FlightCalls::OperationOf(int rank, const FlightEntry& entry,
                              FlightOperation* operation) const {
  *operation = {GroupKey{&*keys_.find(entry.group)}, entry.p2p, entry.sequence};
  if (!entry.p2p) return true;
  const auto group = groups_.find(entry.group);
  if (group == groups_.end() || entry.peer < 0 ||
      static_cast<size_t>(entry.peer) >= group->second.ranks.size())
    return false;
  const int peer = group->second.ranks[static_cast<size_t>(entry.peer)];
  operation->low = std::min(rank, peer);
  operation->high = std::max(rank, peer);
  return true;
}

std::vector<int> FlightCalls::Members(const FlightOperation& operation) const {
  if (operation.p2p) return {operation.low, operation.high};
  const auto group = groups_.find(operation.group);
  if (group != groups_.end() && !group->second.ranks.empty()) return group->second.ranks;
  const auto users = users_.find(operation.group);  // every rank known to use it
  return users == users_.end() ? std::vector<int>()
                               : std::vector<int>(users->second.begin(), users->second.end());
}

const FlightEntry* FlightCalls::AnyEntry(const FlightOperation& operation) const {
  const FlightEntry* any = nullptr;
  for (const int number : users_.at(operation.group)) {
    const auto entry = ranks_.at(number).entries.find(operation);
    if (entry != ranks_.at(number).entries.end()) any = entry->second;
  }
  return any;
}

std::string FlightCalls::GroupName(const std::string& key) const {
  const auto group = groups_.find(key);
  if (group == groups_.end()) return key.substr(0, key.find('/'));
  return group->second.ForPeople();
}

std::string FlightCalls::Name(const FlightOperation& operation) const {
  const FlightEntry* const entry = AnyEntry(operation);
  std::vector<int> known = Members(operation);
  const size_t unknown = std::erase(known, kUnknownMember);
  return (entry == nullptr ? "" : entry->operation) + " #" + std::to_string(operation.sequence) +
         " on " + GroupName(operation.group) + " (" + model::RankList(known) +
         (unknown > 0 ? " and " + std::to_string(unknown) + " more" : "") + ")";
}

// Each rank numbers its own sends and receives on a group, so the numbers of a pair agree only if
// neither end has another peer there. A group of two has no other peer. A larger group has none, as
// far as dumps show, if no dump shows a rank with two peers and some pair has an operation open at
// both ends under one number.
void FlightCalls::FindLockstep() {
  std::map<std::string, std::map<int, std::set<int>>> peers;
  std::set<std::string> equal;
  for (const auto& [number, rank] : ranks_) {
    for (const auto& [operation, entry] : rank.entries) {
      if (!operation.p2p) continue;
      const int peer = operation.low == number ? operation.high : operation.low;
      peers[operation.group][number].insert(peer);
      const auto other = ranks_.find(peer);
      if (other == ranks_.end()) continue;
      const auto theirs = other->second.entries.find(operation);
      if (theirs != other->second.entries.end() && theirs->second->sends != entry->sends)
        equal.insert(operation.group);
    }
  }
  for (const auto& [key, by_rank] : peers) {
    const auto group = groups_.find(key);
    const bool pair = group != groups_.end() && group->second.ranks.size() == 2;
    const bool single = std::all_of(by_rank.begin(), by_rank.end(),
                                    [](const auto& of) { return of.second.size() == 1; });
    if (pair || (single && equal.count(key) > 0)) lockstep_.insert(key);
  }
}

Made FlightCalls::At(int number, const FlightOperation& operation) const {
  const auto found = ranks_.find(number);
  if (found == ranks_.end()) return Made::kUnknown;
  const FlightRank& rank = found->second;
  const auto entry = rank.entries.find(operation);
  if (entry != rank.entries.end()) return entry->second->completed ? Made::kDone : Made::kOpen;
  if (operation.p2p && lockstep_.count(operation.group) == 0) return Made::kUnknown;
  // A dump drops complete operations, or the oldest: a rank that still has an earlier operation of
  // the group, and no later one, has not called this one.
  const auto numbers = rank.numbers.find(ChannelOf(operation));
  if (numbers != rank.numbers.end()) {
    if (numbers->second.second > operation.sequence) return Made::kDone;
    if (numbers->second.first < operation.sequence) return Made::kNotCalled;
  }
  const auto status = rank.dump->status.find(operation.group);
  if (status == rank.dump->status.end() || mixed_.count(operation.group) > 0) return Made::kUnknown;
  if (operation.sequence > status->second.enqueued) return Made::kNotCalled;
  return operation.sequence <= status->second.completed ? Made::kDone : Made::kCalled;
}

bool FlightCalls::EndsAgree(int number, int other, const FlightOperation& operation) const {
  const auto mine = ranks_.find(number), theirs = ranks_.find(other);
  if (mine == ranks_.end() || theirs == ranks_.end()) return true;
  const auto ways = mine->second.ways.find(operation);
  const auto their_ways = theirs->second.ways.find(operation);
  if (ways == mine->second.ways.end() || their_ways == theirs->second.ways.end()) return true;
  std::set<bool> other_ends;
  for (const bool sends : ways->second) other_ends.insert(!sends);
  return other_ends == their_ways->second;
}

bool FlightCalls::HasBegun(int number, const FlightOperation& operation) const {
  const auto rank = ranks_.find(number);
  if (rank == ranks_.end()) return false;
  const auto entry = rank->second.open.find(operation);
  return entry != rank->second.open.end() && entry->second->begun == FlightBegun::kYes;
}

std::set<std::pair<int, FlightOperation>> FlightCalls::Stuck(Order order) const {
  using Kind = model::AndOrGraph::Kind;
  model::AndOrGraph waits;
  const uint32_t can = waits.AddNode(Kind::kCan), cannot = waits.AddNode(Kind::kCannot);
  std::map<std::pair<int, FlightOperation>, uint32_t> starts, dones;
  for (const auto& [number, rank] : ranks_) {
    for (const auto& [operation, entry] : rank.open) {
      starts[{number, operation}] = waits.AddNode(Kind::kAnd);
      dones[{number, operation}] = waits.AddNode(Kind::kAnd);
    }
  }
  for (const auto& [number, rank] : ranks_) {
    std::map<GroupKey, uint32_t> last;  // of the group at this rank, or of all groups (one key)
    std::vector<std::pair<int64_t, const FlightOperation*>> in_order;
    std::vector<uint32_t> on_device;  // done-nodes of operations that have begun
    for (const auto& [operation, entry] : rank.open)
      in_order.emplace_back(entry->record, &operation);
    std::sort(in_order.begin(), in_order.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [record, operation] : in_order) {
      const uint32_t start = starts[{number, *operation}], done = dones[{number, *operation}];
      waits.AddEdge(done, start);
      const GroupKey queue = order == Order::kGroup ? operation->group : GroupKey{&*keys_.begin()};
      const auto before = last.find(queue);
      const FlightBegun begun = rank.open.at(*operation)->begun;
      if (before != last.end() && begun != FlightBegun::kYes) waits.AddEdge(start, before->second);
      last[queue] = done;
      // The device has begun others that were called before, and not this one: it stands behind them.
      if (begun == FlightBegun::kNo) {
        for (const uint32_t earlier : on_device) waits.AddEdge(start, earlier);
      } else if (begun == FlightBegun::kYes) {
        on_device.push_back(done);
      }
      for (const int member : Members(*operation)) {
        if (member == number) continue;
        const Made made = At(member, *operation);
        if (made == Made::kOpen) {
          waits.AddEdge(done, starts[{member, *operation}]);
        } else {
          waits.AddEdge(done, made == Made::kNotCalled || made == Made::kUnknown ? cannot : can);
        }
      }
    }
  }
  const std::vector<bool> decided = waits.Decide();
  std::set<std::pair<int, FlightOperation>> stuck;
  for (const auto& [which, done] : dones) {
    if (!decided[done]) stuck.insert(which);
  }
  return stuck;
}

}  // namespace gordian::importers
