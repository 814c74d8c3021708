#include "analyzer/model/verdict/counterparts.h"

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/match/sibling_calls.h"
#include "analyzer/model/verdict/call_history.h"

namespace gordian::model {
namespace {

// A member's end of one of the cycle's operations, or of the sibling's that has the same number.
struct CallOfEnd {
  PartRef ref;
  bool called = false;
  uint32_t order = 0;  // the low half, where it was called
};
using CallsOfEnds = std::map<size_t, CallOfEnd>;  // by operation

class CounterpartSearch {
 public:
  // Every arrow of the cycle has a part.
  CounterpartSearch(const WaitForGraph& graph, const Names& names, const std::vector<Arrow>& cycle)
      : matcher_(graph.matcher()), names_(names), history_(graph) {
    std::set<std::tuple<int, int, int, uint64_t>> seen;
    for (const Arrow& arrow : cycle) {
      in_cycle_.insert(arrow.edge.rank);
      const PartRef& ref = arrow.part->ref;
      const bool collective = ref.kind == PartKind::kCollective;
      const auto [source, target] = EndsOf(ref);
      if (!seen.insert({ref.comm, source, target, ref.sequence}).second) continue;
      const size_t operation = operations_++;
      AddEnds(operation, ref, ref.comm);
      for (const int sibling : SiblingsOf(matcher_, ref.comm)) {
        if (collective && !CalledAlike(matcher_, ref.comm, sibling, ref.sequence)) continue;
        AddEnds(operation, ref, sibling);
      }
    }
  }

  UnlikeCounterparts Find() const {
    UnlikeCounterparts found;
    if (operations_ < 2) return found;
    for (const int rank : in_cycle_) {
      const auto own = ends_.find(rank);
      if (own == ends_.end()) return {};
      const std::optional<size_t> first = FirstOf(own->second, own->second);
      if (!first || MayMove(own->second, *first)) return {};
      std::map<size_t, std::vector<int>> votes;  // by operation: who called it first
      size_t voters = 0;
      for (const auto& [other, theirs] : ends_) {
        if (other == rank) continue;
        const std::optional<size_t> vote = FirstOf(theirs, own->second);
        if (!vote) continue;
        votes[*vote].push_back(other);
        ++voters;
      }
      const size_t like = votes[*first].size();
      if (2 * like == voters) return {};
      if (2 * like > voters) continue;
      found.ranks.push_back(rank);
      if (found.ranks.size() == 1) found.sentence = Sentence(rank, own->second, *first, votes);
    }
    if (found.ranks.size() == in_cycle_.size()) return {};
    if (found.ranks.size() > 1) found.sentence.clear();
    return found;
  }

 private:
  void AddEnds(size_t operation, const PartRef& ref, int comm) {
    const int members = matcher_.comms()[comm].nranks;
    for (int r = 0; r < members; ++r) {
      if (!matcher_.comms()[comm].members[r].known) continue;
      PartRef end = ref;
      end.comm = comm;
      if (ref.kind == PartKind::kCollective) {
        end.rank = r;
      } else if (r == ref.peer) {
        end = EndOf(end, r);
      } else if (r != ref.rank) {
        continue;
      }
      const PartNumbers* const numbers = history_.NumbersOf(end);
      if (numbers == nullptr && !NeverCalled(end)) continue;
      CallOfEnd one{end};
      if (numbers != nullptr) {
        if (numbers->launched > 0 || !numbers->missing.empty()) continue;
        one.called = end.sequence < numbers->next;
        const std::optional<uint32_t> order = OrderOf(*numbers, end.sequence);
        if (one.called && !order) continue;
        one.order = order.value_or(0);
      }
      ends_[names_.MemberRank(comm, r)][operation] = one;
    }
  }

  // It is a transfer with a peer with which the member has made none.
  bool NeverCalled(const PartRef& end) const {
    const Communicator& comm = matcher_.comms()[end.comm];
    return end.kind != PartKind::kCollective && !comm.unsure && !comm.opaque &&
           history_.Complete(comm.members[end.rank]) != nullptr;
  }

  // Which of the operations that `wanted` has was called first. Nothing: some are not known, or none
  // was called.
  static std::optional<size_t> FirstOf(const CallsOfEnds& ends, const CallsOfEnds& wanted) {
    std::optional<size_t> first;
    if (wanted.size() < 2) return first;
    for (const auto& [operation, end] : wanted) {
      const auto theirs = ends.find(operation);
      if (theirs == ends.end()) return std::nullopt;
      if (!theirs->second.called) continue;
      if (!first || static_cast<int32_t>(theirs->second.order - ends.at(*first).order) < 0) {
        first = operation;
      }
    }
    return first;
  }

  // Another of the rank's operations is in the same launch, where the order of calls means nothing.
  bool MayMove(const CallsOfEnds& ends, size_t first) const {
    const MemberSlot* const slot = matcher_.Slot(ends.at(first).ref);
    if (slot == nullptr || slot->launch == 0) return false;
    for (const auto& [operation, end] : ends) {
      const MemberSlot* const other = operation == first ? nullptr : matcher_.Slot(end.ref);
      if (other != nullptr && other->Called() && other->launch == slot->launch) return true;
    }
    return false;
  }

  std::string NameOf(const PartRef& ref) const {
    const std::string number = " #" + std::to_string(ref.sequence);
    if (ref.kind == PartKind::kCollective) {
      return "operation" + number + " on " + names_.CommName(ref.comm);
    }
    const bool sends = ref.kind == PartKind::kSend;
    return std::string(sends ? "Send" : "Recv") + number + (sends ? " to rank " : " from rank ") +
           std::to_string(names_.MemberRank(ref.comm, ref.peer)) + " on " +
           names_.CommName(ref.comm);
  }

  std::string Sentence(int rank, const CallsOfEnds& own, size_t first,
                       const std::map<size_t, std::vector<int>>& votes) const {
    auto most = votes.end();
    for (auto it = votes.begin(); it != votes.end(); ++it) {
      if (it->first == first) continue;
      if (most == votes.end() || it->second.size() > most->second.size()) most = it;
    }
    const int other = most->second.front();
    return "Rank " + std::to_string(rank) + " departs: it called " + NameOf(own.at(first).ref) +
           " first, while rank " + std::to_string(other) +
           ", which has the same part in the job, called " +
           NameOf(ends_.at(other).at(most->first).ref) + " first.";
  }

  const Matcher& matcher_;
  const Names& names_;
  const CallHistory history_;
  std::set<int> in_cycle_;
  size_t operations_ = 0;
  std::map<int, CallsOfEnds> ends_;  // by rank of the job
};

}  // namespace

UnlikeCounterparts FindUnlikeCounterparts(const WaitForGraph& graph, const Names& names,
                                          const std::vector<Arrow>& cycle) {
  for (const Arrow& arrow : cycle) {
    if (arrow.part == nullptr) return {};
  }
  return CounterpartSearch(graph, names, cycle).Find();
}

}  // namespace gordian::model
