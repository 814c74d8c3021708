#include "analyzer/model/verdict/departure.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {
namespace {

constexpr size_t kFewestWitnesses = 2;

// What the process of a member knows of the communicator; null if some of it may be lost.
const LocalComm* LocalOf(const WaitForGraph& graph, int comm, int rank) {
  const Communicator& whole = graph.matcher().comms()[comm];
  if (whole.unsure || whole.opaque) return nullptr;
  const CommMember& member = whole.members[rank];
  const Process* process = member.known ? graph.execution().Find(member.process) : nullptr;
  if (process == nullptr || process->Lossy()) return nullptr;
  const auto local = process->comms.find(member.comm);
  return local == process->comms.end() ? nullptr : &local->second;
}

// How many calls with `numbers` the member had made before its call number `order`. Nothing where
// that is not known any more. `of`: any of them.
std::optional<uint64_t> CountBefore(const Matcher& matcher, const PartNumbers& numbers, PartRef of,
                                    uint64_t order) {
  if (numbers.launched > 0 || !numbers.missing.empty()) return std::nullopt;
  for (uint64_t after = 0; after < numbers.next; ++after) {
    const uint64_t count = numbers.next - after;
    if (after < numbers.latest.size()) {
      if (static_cast<int32_t>(numbers.latest[after] - static_cast<uint32_t>(order)) < 0)
        return count;
      continue;
    }
    of.sequence = count - 1;
    const MemberSlot* slot = matcher.Slot(of);
    if (slot == nullptr || slot->state == SlotState::kNone) return std::nullopt;  // all are done
    if (slot->order < order) return count;
  }
  return 0;
}

std::optional<uint64_t> CountBefore(const WaitForGraph& graph, const PartRef& of, uint64_t order) {
  const LocalComm* local = LocalOf(graph, of.comm, of.rank);
  if (local == nullptr) return std::nullopt;
  if (of.kind == PartKind::kCollective)
    return CountBefore(graph.matcher(), local->collectives, of, order);
  const auto numbers = local->transfers.find({of.peer, of.kind == PartKind::kSend});
  if (numbers == local->transfers.end()) return 0;
  return CountBefore(graph.matcher(), numbers->second, of, order);
}

// The other member's end of it.
PartRef EndOf(const PartRef& part, int rank) {
  PartRef end = part;
  end.rank = rank;
  if (part.kind == PartKind::kCollective) return end;
  end.kind = part.kind == PartKind::kSend ? PartKind::kReceive : PartKind::kSend;
  end.peer = part.rank;
  return end;
}

// The rank in the communicator of a rank of the job; -1: no member.
int RankIn(const WaitForGraph& graph, const Names& names, int comm, int rank) {
  const int n = static_cast<int>(graph.matcher().comms()[comm].members.size());
  for (int r = 0; r < n; ++r) {
    if (names.MemberRank(comm, r) == rank) return r;
  }
  return -1;
}

class Search {
 public:
  Search(const WaitForGraph& graph, const Names& names) : graph_(graph), names_(names) {}

  // a waits in `wanted`, b in `other`.
  std::optional<Departure> Between(const PartRef& wanted, const PartRef& other) const {
    const int a = names_.MemberRank(wanted.comm, wanted.rank);
    const int b = names_.MemberRank(other.comm, other.rank);
    const int b_there = RankIn(graph_, names_, wanted.comm, b);
    const int a_there = RankIn(graph_, names_, other.comm, a);
    const MemberSlot* const waits = graph_.matcher().Slot(wanted);
    const MemberSlot* const holds = graph_.matcher().Slot(other);
    if (b_there < 0 || a_there < 0 || a == b || waits == nullptr || holds == nullptr)
      return std::nullopt;
    // Each has called its own and not the other's before it.
    const uint64_t often = wanted.sequence + 1, less = wanted.sequence;
    if (CountBefore(graph_, EndOf(wanted, b_there), holds->order) != less) return std::nullopt;
    const std::optional<uint64_t> came =
        CountBefore(graph_, EndOf(other, a_there), waits->order);
    if (!came || *came > other.sequence) return std::nullopt;
    std::set<int> as_a, as_b;
    for (const auto& [witness, call] : Witnesses(other, a)) {
      const int rank = names_.MemberRank(other.comm, witness);
      if (rank == a || rank == b) continue;
      const std::set<uint64_t> counts = Alike(other.comm, witness, call->order, wanted, {a, b});
      const bool like_a = counts.count(often) > 0, like_b = counts.count(less) > 0;
      if (like_a == like_b) continue;
      (like_a ? as_a : as_b).insert(rank);
    }
    if (as_a.empty() == as_b.empty()) return std::nullopt;
    const std::set<int>& witnesses = as_a.empty() ? as_b : as_a;
    if (witnesses.size() < kFewestWitnesses) return std::nullopt;
    Departure found;
    found.rank = as_a.empty() ? a : b;
    const std::vector<int> list(witnesses.begin(), witnesses.end());
    const bool transfer = wanted.kind != PartKind::kCollective;
    const bool sends = (wanted.kind == PartKind::kSend) == (found.rank == a);
    found.sentence = "Rank " + std::to_string(found.rank) + " departs: it has called " +
                     (transfer ? sends ? "Send to rank " + std::to_string(found.rank == a ? b : a)
                                       : "Recv from rank " + std::to_string(found.rank == a ? b : a)
                               : "collectives") +
                     " on " + names_.CommName(wanted.comm) + " " +
                     Times(found.rank == a ? often : less) + ", " + RankList(list) + " " +
                     Times(found.rank == a ? less : often) +
                     (transfer ? " with their own peers." : " on theirs.");
    return found;
  }

 private:
  static std::string Times(uint64_t n) {
    return n == 1 ? "once" : std::to_string(n) + " times";
  }

  // Members that are in the operation `part`, or wait for the same rank (of the job) as it does,
  // with their calls.
  std::vector<std::pair<int, const MemberSlot*>> Witnesses(const PartRef& part, int awaited) const {
    const Matcher& matcher = graph_.matcher();
    if (part.kind != PartKind::kCollective) {
      return WaitersFor(matcher.comms()[part.comm], RankIn(graph_, names_, part.comm, awaited));
    }
    std::vector<std::pair<int, const MemberSlot*>> ranks;
    const Instance* instance = matcher.FindInstance(part.comm, part.sequence);
    for (size_t r = 0; instance != nullptr && r < instance->members.size(); ++r) {
      if (instance->members[r].Called())
        ranks.emplace_back(static_cast<int>(r), &instance->members[r]);
    }
    return ranks;
  }

  // How often the member had called what is like `wanted` before its call number `order`, except
  // from or to the ranks of `pair`. Empty where some of it is not known.
  std::set<uint64_t> Alike(int comm, int rank, uint64_t order, const PartRef& wanted,
                           const std::pair<int, int>& pair) const {
    std::set<uint64_t> counts;
    const Matcher& matcher = graph_.matcher();
    const CommMember& member = matcher.comms()[comm].members[rank];
    const Process* process = member.known ? graph_.execution().Find(member.process) : nullptr;
    if (process == nullptr || process->Lossy()) return counts;
    const int size = matcher.comms()[wanted.comm].nranks;
    bool all_known = true;
    const auto count = [&](const PartNumbers& numbers, const PartRef& of) {
      const std::optional<uint64_t> often = CountBefore(matcher, numbers, of, order);
      all_known &= often.has_value();
      counts.insert(often.value_or(0));
    };
    for (const auto& [id, local] : process->comms) {
      if (local.index < 0 || local.device != member.device) continue;
      const Communicator& whole = matcher.comms()[local.index];
      if (whole.unsure || whole.opaque) continue;
      PartRef of{.comm = local.index, .rank = local.rank};
      if (wanted.kind == PartKind::kCollective) {
        if (whole.nranks == size && local.index != comm) count(local.collectives, of);
        continue;
      }
      for (const auto& [end, numbers] : local.transfers) {
        const int peer = names_.MemberRank(local.index, end.first);
        if (peer == pair.first || peer == pair.second) continue;
        of.kind = end.second ? PartKind::kSend : PartKind::kReceive;
        of.peer = end.first;
        count(numbers, of);
      }
    }
    if (!all_known) counts.clear();
    return counts;
  }

  const WaitForGraph& graph_;
  const Names& names_;
};

}  // namespace

std::vector<std::pair<int, const MemberSlot*>> WaitersFor(const Communicator& comm, int awaited) {
  std::map<int, const MemberSlot*> earliest;
  for (const auto& [pair, channel] : comm.transfers) {
    const auto& [source, destination] = pair;
    if (source == destination || (source != awaited && destination != awaited)) continue;
    for (const auto& [sequence, transfer] : channel) {
      const MemberSlot& own = source == awaited ? transfer.receive : transfer.send;
      const MemberSlot& theirs = source == awaited ? transfer.send : transfer.receive;
      if (theirs.state == SlotState::kDone) continue;
      if (!own.Called()) break;
      const int rank = source == awaited ? destination : source;
      const auto [it, first] = earliest.emplace(rank, &own);
      if (!first && own.order < it->second->order) it->second = &own;
      break;  // those behind it on the channel wait for it
    }
  }
  return {earliest.begin(), earliest.end()};
}

std::optional<Departure> FindDeparture(const WaitForGraph& graph, const Names& names,
                                       const std::vector<Arrow>& cycle) {
  if (cycle.size() != 2) return std::nullopt;
  std::optional<Departure> found;
  const Search search(graph, names);
  for (size_t i = 0; i < 2; ++i) {
    const Part* const wanted = cycle[i].part;
    const Part* const other = cycle[1 - i].part;
    if (wanted == nullptr || other == nullptr) return std::nullopt;
    std::optional<Departure> one = search.Between(wanted->ref, other->ref);
    if (!one) continue;
    if (found && found->rank != one->rank) return std::nullopt;
    found = std::move(one);
  }
  return found;
}

}  // namespace gordian::model
