#include "analyzer/model/verdict/departure.h"

#include <map>
#include <set>

#include "analyzer/model/verdict/call_history.h"

namespace gordian::model {
namespace {

constexpr size_t kFewestWitnesses = 2;

// How often a member had called something: before its Y (or X), and before the Y before that.
struct Counts {
  uint64_t now = 0, before = 0;
};

std::optional<Counts> CountsAt(const PartNumbers& numbers, uint32_t now, uint32_t before) {
  if (numbers.launched > 0 || !numbers.missing.empty()) return std::nullopt;
  const std::optional<uint64_t> then = CountBefore(numbers, before);
  const std::optional<uint64_t> count = CountBefore(numbers, now);
  if (!then || !count) return std::nullopt;
  return Counts{*count, *then};
}

std::string Times(uint64_t n) { return n == 1 ? "once" : std::to_string(n) + " times"; }

class Search {
 public:
  Search(const WaitForGraph& graph, const Names& names)
      : history_(graph), matcher_(graph.matcher()), names_(names) {}

  // a waits in `wanted`, b in `other`.
  std::optional<Departure> Between(const PartRef& wanted, const PartRef& other) const {
    const int a = names_.MemberRank(wanted.comm, wanted.rank);
    const int b = names_.MemberRank(other.comm, other.rank);
    const int b_there = RankIn(wanted.comm, b), a_there = RankIn(other.comm, a);
    const MemberSlot* const waits = matcher_.Slot(wanted);
    const MemberSlot* const holds = matcher_.Slot(other);
    if (a == b || b_there < 0 || a_there < 0 || waits == nullptr || holds == nullptr) return {};
    const std::optional<Counts> of_a =
        Numbered(wanted, EndOf(other, a_there), waits->order, other.sequence);
    const std::optional<Counts> of_b =
        Numbered(EndOf(wanted, b_there), other, holds->order, other.sequence);
    if (!of_a || !of_b) return {};
    // Both kept step until the Y before; since then a has called X more often, as it is in it now.
    if (of_a->now != wanted.sequence || of_b->now > wanted.sequence) return {};
    if (of_a->before != of_b->before || of_a->before == 0) return {};
    const uint64_t less = of_b->now;
    const uint64_t often = OftenBefore(EndOf(other, a_there), wanted).value_or(of_a->now + 1);
    std::set<int> as_a, as_b;
    for (const Waiter& witness : Witnesses(other, a)) {
      const int rank = names_.MemberRank(other.comm, witness.part.rank);
      if (rank == a || rank == b) continue;
      for (const Counts& counts : Alike(witness, wanted, a, b)) {
        if (counts.before != of_a->before) continue;
        if (counts.now == often) as_a.insert(rank);
        if (counts.now == less) as_b.insert(rank);
      }
    }
    if (as_a.empty() == as_b.empty()) return {};
    const std::set<int>& witnesses = as_a.empty() ? as_b : as_a;
    if (witnesses.size() < kFewestWitnesses) return {};
    const bool one_more = as_a.empty();
    const bool sends = (wanted.kind == PartKind::kSend) == one_more;
    Departure found{one_more ? a : b, ""};
    found.sentence = "Rank " + std::to_string(found.rank) + " departs: it has called ";
    if (wanted.kind == PartKind::kCollective) {
      found.sentence += "collectives on ";
    } else {
      found.sentence +=
          (sends ? "Send to rank " : "Recv from rank ") + std::to_string(one_more ? b : a) + " on ";
    }
    found.sentence +=
        names_.CommName(wanted.comm) + " " + Times(one_more ? often : less) + ", " +
        RankList({witnesses.begin(), witnesses.end()}) + " " + Times(one_more ? less : often) +
        (wanted.kind == PartKind::kCollective ? " on theirs." : " with their own peers.");
    return found;
  }

 private:
  // The rank in the communicator of a rank of the job; -1: no member.
  int RankIn(int comm, int rank) const {
    const int n = static_cast<int>(matcher_.comms()[comm].members.size());
    for (int r = 0; r < n; ++r) {
      if (names_.MemberRank(comm, r) == rank) return r;
    }
    return -1;
  }

  // How often the member had called `wanted` before it called `end`; nothing: it has not called
  // `end`, or not `wanted` before it.
  std::optional<uint64_t> OftenBefore(const PartRef& end, const PartRef& wanted) const {
    const MemberSlot* const slot = matcher_.Slot(end);
    const PartNumbers* const numbers = history_.NumbersOf(wanted);
    if (slot == nullptr || !slot->Called() || numbers == nullptr) return {};
    const std::optional<uint64_t> count = CountBefore(*numbers, static_cast<uint32_t>(slot->order));
    return count && *count > wanted.sequence ? count : std::nullopt;
  }

  // How often the member of `end` had called it before its call with order `now`, and before it
  // called number `sequence` - 1 of `mark`, an end of its own.
  std::optional<Counts> Numbered(const PartRef& end, const PartRef& mark, uint64_t now,
                                 uint64_t sequence) const {
    const PartNumbers* const numbers = history_.NumbersOf(end);
    const PartNumbers* const marks = history_.NumbersOf(mark);
    if (numbers == nullptr || marks == nullptr || marks->launched > 0 || sequence == 0) return {};
    const std::optional<uint32_t> before = OrderOf(*marks, sequence - 1);
    if (!before) return {};
    return CountsAt(*numbers, static_cast<uint32_t>(now), *before);
  }

  // Members that are in the operation `part`, or wait for the same rank (of the job) as it does.
  std::vector<Waiter> Witnesses(const PartRef& part, int awaited) const {
    std::vector<Waiter> waiters;
    if (part.kind != PartKind::kCollective) {
      waiters = WaitersFor(matcher_, part.comm, RankIn(part.comm, awaited));
      std::erase_if(waiters, [](const Waiter& waiter) { return waiter.other_end->Called(); });
      return waiters;
    }
    const Instance* instance = matcher_.FindInstance(part.comm, part.sequence);
    for (size_t r = 0; instance != nullptr && r < instance->members.size(); ++r) {
      const MemberSlot& slot = instance->members[r];
      if (slot.Called()) waiters.push_back({EndOf(part, static_cast<int>(r)), &slot, nullptr});
    }
    return waiters;
  }

  // What the witness has called that is like `wanted`, except from or to ranks a and b.
  std::vector<Counts> Alike(const Waiter& witness, const PartRef& wanted, int a, int b) const {
    std::vector<Counts> alike;
    const CommMember& member = matcher_.comms()[witness.part.comm].members[witness.part.rank];
    const Process* const process = history_.Complete(member);
    const PartNumbers* const marks = history_.NumbersOf(witness.part);
    if (process == nullptr || marks == nullptr || witness.part.sequence == 0) return alike;
    const std::optional<uint32_t> before = OrderOf(*marks, witness.part.sequence - 1);
    if (!before) return alike;
    const auto count = [&](const PartNumbers& numbers) {
      const std::optional<Counts> counts =
          CountsAt(numbers, static_cast<uint32_t>(witness.call->order), *before);
      if (counts) alike.push_back(*counts);
    };
    const int size = matcher_.comms()[wanted.comm].nranks;
    for (const auto& [id, local] : process->comms) {
      if (local.index < 0 || local.device != member.device) continue;
      const Communicator& comm = matcher_.comms()[local.index];
      if (comm.unsure || comm.opaque) continue;
      if (wanted.kind == PartKind::kCollective) {
        if (comm.nranks == size && local.index != witness.part.comm) count(local.collectives);
        continue;
      }
      for (const auto& [end, numbers] : local.transfers) {
        const int peer = names_.MemberRank(local.index, end.first);
        if (peer != a && peer != b) count(numbers);
      }
    }
    return alike;
  }

  const CallHistory history_;
  const Matcher& matcher_;
  const Names& names_;
};

}  // namespace

std::vector<Waiter> WaitersFor(const Matcher& matcher, int comm, int awaited) {
  std::map<int, Waiter> earliest;
  for (const auto& [pair, channel] : matcher.comms()[comm].transfers) {
    const auto& [source, destination] = pair;
    if (source == destination || (source != awaited && destination != awaited)) continue;
    const bool sends = destination == awaited;  // the waiter does
    for (const auto& [sequence, transfer] : channel) {
      const MemberSlot& own = sends ? transfer.send : transfer.receive;
      const MemberSlot& theirs = sends ? transfer.receive : transfer.send;
      if (theirs.state == SlotState::kDone || (own.state == SlotState::kDone && theirs.Called()))
        continue;  // they have met
      if (!own.Called()) break;
      const int rank = sends ? source : destination;
      Waiter& waiter = earliest[rank];
      if (waiter.call == nullptr || own.order < waiter.call->order) {
        const PartKind kind = sends ? PartKind::kSend : PartKind::kReceive;
        waiter = {{kind, comm, rank, awaited, sequence}, &own, &theirs};
      }
      break;  // those behind it on the channel wait for it
    }
  }
  std::vector<Waiter> waiters;
  for (const auto& [rank, waiter] : earliest) waiters.push_back(waiter);
  return waiters;
}

std::optional<Departure> FindDeparture(const WaitForGraph& graph, const Names& names,
                                       const std::vector<Arrow>& cycle) {
  if (cycle.size() != 2) return {};
  std::optional<Departure> found;
  const Search search(graph, names);
  for (size_t i = 0; i < 2; ++i) {
    const Part* const wanted = cycle[i].part;
    const Part* const other = cycle[1 - i].part;
    if (wanted == nullptr || other == nullptr) return {};
    std::optional<Departure> one = search.Between(wanted->ref, other->ref);
    if (!one) continue;
    if (found && found->rank != one->rank) return {};
    found = std::move(one);
  }
  return found;
}

}  // namespace gordian::model
