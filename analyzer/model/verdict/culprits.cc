#include "analyzer/model/verdict/culprits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/match/wrong_peer.h"
#include "analyzer/model/verdict/call_history.h"
#include "analyzer/model/verdict/counterparts.h"
#include "analyzer/model/verdict/departure.h"

namespace gordian::model {
namespace {

constexpr uint64_t kNot = UINT64_MAX;  // the order of a call that the rank has not made

// Orders calls, and the operations of one graph launch among themselves.
uint64_t CallOrder(uint64_t order, uint32_t place) {
  constexpr uint32_t kPlaces = 1 << 16;
  return order * kPlaces + std::min(place, kPlaces - 1);
}

uint64_t CallOrder(const MemberSlot& slot) {
  return slot.state == SlotState::kNone ? kNot : CallOrder(slot.order, slot.place);
}

std::optional<uint64_t> FirstUse(const WaitForGraph& graph, int comm, int rank) {
  const std::optional<uint64_t> order = graph.begun_uses().Order(comm, rank);
  return order ? std::optional(CallOrder(*order, 0)) : std::nullopt;
}

// For each rank, the cycle's operations that it is a member of, by the order of its calls.
class Ballot {
 public:
  Ballot(const WaitForGraph& graph, const Names& names, const std::vector<Arrow>& cycle)
      : graph_(graph), matcher_(graph.matcher()), names_(names) {
    std::set<std::tuple<int, int, int, uint64_t, CommUid>> seen;
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Arrow& arrow = cycle[i];
      if (arrow.part != nullptr) {
        const PartRef& ref = arrow.part->ref;
        const bool collective = ref.kind == PartKind::kCollective;
        const auto [source, target] = EndsOf(ref);
        if (!seen.insert({ref.comm, source, target, ref.sequence, 0}).second) continue;
        collective ? OfCollective(i, ref) : OfTransfer(i, ref, source, target);
      } else if (arrow.captured != nullptr) {
        const int comm = arrow.captured->ref.comm;
        if (arrow.captured->ref.kind != PartKind::kCollective) continue;
        if (seen.insert({comm, -2, -2, 0, 0}).second) OfCapture(i, comm);
      } else if (arrow.init != nullptr) {
        if (seen.insert({-1, -1, -1, 0, arrow.init->uid}).second) OfInit(i, *arrow.init);
      }
    }
    AddSupporters();
  }

  std::vector<int> Fewer() const {
    std::map<size_t, std::vector<int>> first;  // operation -> ranks that call it first
    size_t voters = 0;
    for (const auto& [rank, calls] : orders_) {
      if (calls.size() < 2) continue;
      const auto earliest =
          std::min_element(calls.begin(), calls.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (earliest->second == kNot) continue;
      first[earliest->first].push_back(rank);
      ++voters;
    }
    for (const auto& [op, ranks] : first) {
      if (2 * ranks.size() <= voters || ranks.size() == voters) continue;
      std::vector<int> fewer;
      for (const auto& [other, departing] : first) {
        if (other != op) fewer.insert(fewer.end(), departing.begin(), departing.end());
      }
      std::sort(fewer.begin(), fewer.end());
      return fewer;
    }
    return {};
  }

 private:
  void OfCollective(size_t i, const PartRef& ref) {
    const Instance* instance = matcher_.FindInstance(ref.comm, ref.sequence);
    if (instance == nullptr) return;
    const Communicator& comm = matcher_.comms()[ref.comm];
    for (int r = 0; r < comm.nranks; ++r) {
      if (!comm.members[r].known) continue;
      const MemberSlot& slot = instance->members[r];
      orders_[names_.MemberRank(ref.comm, r)][i] =
          slot.state == SlotState::kNone ? FirstUse(graph_, ref.comm, r).value_or(kNot)
                                         : CallOrder(slot);
    }
  }

  void OfTransfer(size_t i, const PartRef& ref, int source, int target) {
    const Transfer* transfer = matcher_.FindTransfer(ref);
    if (transfer == nullptr) return;
    orders_[names_.MemberRank(ref.comm, source)][i] = CallOrder(transfer->send);
    orders_[names_.MemberRank(ref.comm, target)][i] = CallOrder(transfer->receive);
    if (MeantAnotherPeer(matcher_, ref) != WrongPeer::kNo) return;
    const MemberSlot& awaited = ref.kind == PartKind::kSend ? transfer->receive : transfer->send;
    for (const Waiter& waiter : WaitersFor(matcher_, ref.comm, ref.peer)) {
      // It waits for the same call: for none yet, or for one in the same group.
      const MemberSlot& end = *waiter.other_end;
      if (end.Called() && (!awaited.Called() || end.launch != awaited.launch)) continue;
      if (MeantAnotherPeer(matcher_, waiter.part) != WrongPeer::kNo) continue;
      supporters_.push_back(
          {names_.MemberRank(ref.comm, waiter.part.rank), i, CallOrder(*waiter.call)});
    }
  }

  void OfCapture(size_t i, int comm) {
    for (int r = 0; r < matcher_.comms()[comm].nranks; ++r) {
      if (!matcher_.comms()[comm].members[r].known) continue;
      const std::optional<uint64_t> order = FirstUse(graph_, comm, r);
      // A rank that has begun its first use before has no vote.
      if (!order && graph_.begun_uses().HasBegun(comm, r, std::nullopt)) continue;
      orders_[names_.MemberRank(comm, r)][i] = order.value_or(kNot);
    }
  }

  void OfInit(size_t i, const InitCall& init) {
    for (size_t r = 0; r < init.members.size(); ++r) {
      const InitMember& member = init.members[r];
      if (member.called) {
        orders_[names_.Rank(member.process, member.device)][i] = CallOrder(member.order, 0);
      } else if (init.parent >= 0) {
        orders_[names_.MemberRank(init.parent, static_cast<int>(r))][i] = kNot;
      }
    }
  }

  // A rank that waits for the same rank as one of the cycle, and called that before the cycle's
  // other operations, votes as the one in the cycle does. One that called it after them says
  // nothing: its own earlier transfers with that rank may all have been met.
  void AddSupporters() {
    for (const Supporter& one : supporters_) {
      const auto calls = orders_.find(one.rank);
      if (calls == orders_.end() || calls->second.count(one.operation) > 0) continue;
      const bool before_all = std::all_of(calls->second.begin(), calls->second.end(),
                                          [&](const auto& c) { return one.order < c.second; });
      if (before_all) calls->second[one.operation] = one.order;
    }
  }

  struct Supporter {
    int rank = -1;
    size_t operation = 0;
    uint64_t order = 0;
  };
  const WaitForGraph& graph_;
  const Matcher& matcher_;
  const Names& names_;
  std::map<int, std::map<size_t, uint64_t>> orders_;
  std::vector<Supporter> supporters_;
};

// Ranks of the job that wait for the member `rank` of `comm` on any of its communicators: in a
// collective that it has not called before its call number `order`, or in a transfer, or in one
// with a rank that waits so.
std::set<int> RanksWaitingFor(const WaitForGraph& graph, int comm, int rank, uint64_t order,
                              const Names& names) {
  std::set<int> waiting;
  const Matcher& matcher = graph.matcher();
  const CommMember& member = matcher.comms()[comm].members[rank];
  const Process* process = member.known ? graph.execution().Find(member.process) : nullptr;
  if (process == nullptr) return waiting;
  for (const auto& [id, local] : process->comms) {
    if (local.index < 0 || local.rank < 0 || local.device != member.device) continue;
    for (const auto& [sequence, instance] : matcher.comms()[local.index].instances) {
      const MemberSlot& own = instance.members[local.rank];
      if (own.Called() && own.order < order) continue;
      for (size_t r = 0; r < instance.members.size(); ++r) {
        if (instance.members[r].Called())
          waiting.insert(names.MemberRank(local.index, static_cast<int>(r)));
      }
    }
    std::set<int> awaited = {local.rank};
    for (std::vector<int> work = {local.rank}; !work.empty();) {
      const int at = work.back();
      work.pop_back();
      for (const Waiter& waiter : WaitersFor(matcher, local.index, at)) {
        if (waiter.other_end->Called()) continue;
        if (MeantAnotherPeer(matcher, waiter.part) != WrongPeer::kNo) continue;
        if (!awaited.insert(waiter.part.rank).second) continue;
        work.push_back(waiter.part.rank);
        waiting.insert(names.MemberRank(local.index, waiter.part.rank));
      }
    }
  }
  return waiting;
}

// The rank of arrow i waits in a collective that no other member, of two or more, has called, while
// most of those wait for it elsewhere, or are in what the rank that it waits for is in. Linear in
// what its communicators have unfinished.
bool WaitsAlone(const WaitForGraph& graph, const std::vector<Arrow>& cycle, size_t i,
                const Names& names) {
  const Matcher& matcher = graph.matcher();
  const PartRef& ref = cycle[i].part->ref;
  const Instance* instance = matcher.FindInstance(ref.comm, ref.sequence);
  const std::vector<CommMember>& members = matcher.comms()[ref.comm].members;
  if (instance == nullptr || members.size() < 3 || instance->called != 1) return false;
  const Part* const next = cycle[(i + 1) % cycle.size()].part;
  std::set<int> elsewhere =
      RanksWaitingFor(graph, ref.comm, ref.rank, instance->members[ref.rank].order, names);
  const Instance* theirs = next == nullptr || next->ref.kind != PartKind::kCollective
                               ? nullptr
                               : matcher.FindInstance(next->ref.comm, next->ref.sequence);
  for (size_t r = 0; theirs != nullptr && r < theirs->members.size(); ++r) {
    if (theirs->members[r].Called())
      elsewhere.insert(names.MemberRank(next->ref.comm, static_cast<int>(r)));
  }
  size_t others = 0, agree = 0;
  for (int r = 0; r < static_cast<int>(members.size()); ++r) {
    if (!members[r].known) return false;
    if (r == ref.rank) continue;
    if (FirstUse(graph, ref.comm, r)) return false;  // captures it instead
    ++others;
    agree += elsewhere.count(names.MemberRank(ref.comm, r));
  }
  return 2 * agree > others;
}

}  // namespace

std::vector<int> FewerInOrder(const WaitForGraph& graph, const Names& names,
                              const std::vector<Arrow>& cycle) {
  return Ballot(graph, names, cycle).Fewer();
}

Culprits FindCulprits(const WaitForGraph& graph, const Names& names,
                      const std::vector<Arrow>& cycle) {
  const std::vector<int> fewer = FewerInOrder(graph, names, cycle);
  if (!fewer.empty()) return {fewer, ""};
  if (const std::optional<Departure> departure = FindDeparture(graph, names, cycle)) {
    return {{departure->rank}, departure->sentence};
  }
  std::set<int> in_cycle, alone, mistaken;
  bool doubt = false;  // another of the cycle may be mistaken as well
  for (size_t i = 0; i < cycle.size(); ++i) {
    in_cycle.insert(cycle[i].edge.rank);
    if (cycle[i].part == nullptr) continue;
    const PartRef& ref = cycle[i].part->ref;
    const int rank = names.MemberRank(ref.comm, ref.rank);
    if (ref.kind == PartKind::kCollective) {
      if (WaitsAlone(graph, cycle, i, names)) alone.insert(rank);
      continue;
    }
    const WrongPeer how = MeantAnotherPeer(graph.matcher(), ref);
    if (how == WrongPeer::kLikely) mistaken.insert(rank);
    doubt |= how == WrongPeer::kPossible;
  }
  if (alone.size() == 1) return {{*alone.begin()}, ""};
  if (mistaken.size() == 1 && !doubt) return {{*mistaken.begin()}, ""};
  const UnlikeCounterparts unlike = FindUnlikeCounterparts(graph, names, cycle);
  if (!unlike.ranks.empty()) return {unlike.ranks, unlike.sentence};
  return {{in_cycle.begin(), in_cycle.end()}, ""};
}

}  // namespace gordian::model
