#include "analyzer/merge/group_match.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>

#include "analyzer/importers/flight_mismatch.h"
#include "analyzer/merge/nccl_kind.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::merge {
namespace {

using importers::FlightDump;
using importers::FlightEntry;
using importers::FlightGroup;

// One of these that is done at a member was called by all.
bool IsSynchronous(std::string_view kind) {
  return kind == "all_reduce" || kind == "all_gather" || kind == "reduce_scatter";
}

// What one source shows of the collectives of a group.
struct Shown {
  struct Operation {
    std::string_view kind;
    std::string_view name;
    int64_t elements = -1;
    int rank = -1;       // whose entry it is
    int done_at = -1;    // a rank where it is done
    bool mixed = false;  // ranks of this source disagree
  };
  std::map<int64_t, Operation> operations;  // by number
  std::map<int, int64_t> called;            // by rank: the highest number
  bool lists = false;                       // PyTorch may have made several operations of one
};

Shown ShownOf(const std::vector<FlightDump>& dumps, const std::string& key) {
  Shown shown;
  for (const FlightDump& dump : dumps) {
    const auto status = dump.status.find(key);
    if (status != dump.status.end())
      shown.called[dump.rank] = std::max<int64_t>(status->second.enqueued, 0);
    for (const FlightEntry& entry : dump.entries) {
      if (entry.p2p || entry.group != key) continue;
      int64_t& called = shown.called.try_emplace(dump.rank, 0).first->second;
      called = std::max(called, entry.sequence);
      const std::string_view kind = NcclKind(entry.operation);
      shown.lists = shown.lists || !IsOneOfNccl(kind);
      auto [at, added] = shown.operations.try_emplace(entry.sequence);
      Shown::Operation& operation = at->second;
      if (added) {
        operation.kind = kind;
        operation.name = entry.operation;
        operation.elements = entry.elements_in;
        operation.rank = dump.rank;
      } else if (operation.kind != kind ||
                 (operation.name == entry.operation && operation.elements != entry.elements_in)) {
        operation.mixed = true;
      }
      if (entry.completed) operation.done_at = dump.rank;
    }
  }
  return shown;
}

struct Comparison {
  size_t agree = 0;
  std::string contradiction;  // empty: none
  std::set<int> ranks;        // that it is about
};

std::string Text(const Shown::Operation& operation) {
  return std::string(operation.kind) +
         (operation.elements < 0 ? "" : " of " + std::to_string(operation.elements) + " elements");
}

// `one` has done what a rank of `other` has not called.
void CompareProgress(const Shown& one, const char* one_name, const Shown& other,
                     const char* other_name, Comparison* out) {
  for (const auto& [number, operation] : one.operations) {
    if (operation.done_at < 0 || !IsSynchronous(operation.kind)) continue;
    for (const auto& [rank, called] : other.called) {
      if (called >= number) continue;
      out->contradiction = std::string(one_name) + " that " + std::string(operation.kind) + " #" +
                           std::to_string(number) + " is done at rank " +
                           std::to_string(operation.done_at) + ", and " + other_name +
                           " that rank " + std::to_string(rank) + " has called " +
                           (called == 0 ? "none" : "#" + std::to_string(called) + " at most");
      out->ranks = {operation.done_at, rank};
      return;
    }
  }
}

Comparison Compare(const Shown& session, const Shown& dumps) {
  Comparison result;
  for (const auto& [number, theirs] : dumps.operations) {
    const auto found = session.operations.find(number);
    if (found == session.operations.end()) continue;
    const Shown::Operation& ours = found->second;
    if (ours.mixed || theirs.mixed) continue;
    const bool sizes = ours.name == theirs.name && importers::TakesEqualSizes(ours.name) &&
                       ours.elements >= 0 && theirs.elements >= 0;
    if (ours.kind == theirs.kind && (!sizes || ours.elements == theirs.elements)) {
      ++result.agree;
    } else if (ours.done_at >= 0 && theirs.done_at >= 0 && result.contradiction.empty()) {
      result.contradiction = "the session has " + Text(ours) + " as #" + std::to_string(number) +
                             ", done at rank " + std::to_string(ours.done_at) + ", and a dump " +
                             Text(theirs) + ", done at rank " + std::to_string(theirs.done_at);
      result.ranks = {ours.done_at, theirs.done_at};
    }
  }
  if (result.contradiction.empty())
    CompareProgress(dumps, "a dump says", session, "the session", &result);
  if (result.contradiction.empty())
    CompareProgress(session, "the session says", dumps, "a dump", &result);
  return result;
}

class Matching {
 public:
  Matching(const SessionCalls& session, const std::vector<FlightDump>& dumps)
      : session_(session), dumps_(dumps) {
    for (const FlightDump& dump : dumps) groups_.insert(dump.groups.begin(), dump.groups.end());
    for (const FlightDump& dump : session.dumps) seen_.insert(dump.rank);
  }

  GroupMatches Find() {
    for (const auto& [key, group] : session_.groups) {
      if (group.seen.empty()) continue;
      for (const auto& [other, theirs] : groups_) {
        if (HasMembers(group, theirs)) pairs_.insert({key, other});
      }
    }
    // What one step decides leaves fewer for the steps before it.
    bool more = true;
    while (more) {
      more = TakeUnique("members", [](const Pair&) { return true; }) ||
             TakeUnique("members and name", [&](const Pair& pair) { return SameName(pair); }) ||
             TakeUnique("members and calls", [&](const Pair& pair) {
               const Comparison& calls = CallsOf(pair);
               return calls.contradiction.empty() && calls.agree > 0;
             });
    }
    NameUnclear();
    std::sort(result_.matches.begin(), result_.matches.end(),
              [](const GroupMatch& a, const GroupMatch& b) { return a.session < b.session; });
    return std::move(result_);
  }

 private:
  using Pair = std::pair<std::string, std::string>;  // session, dumps

  bool HasMembers(const SessionGroup& group, const FlightGroup& theirs) const {
    if (theirs.ranks.size() != group.group.ranks.size()) return false;
    std::set<int> both;
    for (const int rank : theirs.ranks) {
      if (seen_.count(rank) > 0) both.insert(rank);
    }
    return both == group.seen;
  }

  bool SameName(const Pair& pair) const {
    const std::string& given = session_.groups.at(pair.first).given;
    const FlightGroup& group = groups_.at(pair.second);
    return !given.empty() && (given == group.name || given == group.description);
  }

  const Comparison& CallsOf(const Pair& pair) {
    const auto [found, added] = compared_.try_emplace(pair);
    if (added)
      found->second = Compare(ShownOf(session_.dumps, pair.first), ShownOf(dumps_, pair.second));
    return found->second;
  }

  // Takes pairs of which no other pair has either part, among those that hold.
  bool TakeUnique(const char* by, const std::function<bool(const Pair&)>& holds) {
    std::vector<Pair> held;
    std::map<std::string, int> ours, theirs;
    for (const Pair& pair : pairs_) {
      if (!holds(pair)) continue;
      held.push_back(pair);
      ++ours[pair.first];
      ++theirs[pair.second];
    }
    bool took = false;
    for (const Pair& pair : held) {
      if (ours[pair.first] > 1 || theirs[pair.second] > 1) continue;
      Take(pair, by);
      took = true;
    }
    return took;
  }

  std::string Names(const Pair& pair) const {
    return session_.groups.at(pair.first).name + " of the session and " +
           groups_.at(pair.second).ForPeople() + " of the dumps";
  }

  void Take(const Pair& pair, const char* by) {
    std::erase_if(pairs_, [&](const Pair& other) {
      return other.first == pair.first || other.second == pair.second;
    });
    const SessionGroup& ours = session_.groups.at(pair.first);
    const Comparison& calls = CallsOf(pair);
    if (!calls.contradiction.empty()) {
      result_.contradictions.push_back(Names(pair) + ": " + calls.contradiction +
                                       "; they are not taken together");
      result_.contradicted.insert(calls.ranks.begin(), calls.ranks.end());
      return;
    }
    const std::string whole = " have the same members; they are not taken together, since ";
    if (ours.unsure) {
      result_.unclear.push_back(Names(pair) + whole +
                                "the session cannot follow all operations there");
      return;
    }
    if (ShownOf(dumps_, pair.second).lists &&
        (ours.transfers || !ShownOf(session_.dumps, pair.first).lists)) {
      result_.unclear.push_back(
          Names(pair) + whole +
          "PyTorch may make several operations of NCCL, or sends, of one call");
      return;
    }
    result_.matches.push_back({pair.first, pair.second, by, calls.agree > 0});
  }

  // Communicators for which several candidates are left.
  void NameUnclear() {
    while (!pairs_.empty()) {
      std::set<std::string> ours = {pairs_.begin()->first}, theirs;
      size_t known = 0;
      while (ours.size() + theirs.size() != known) {
        known = ours.size() + theirs.size();
        for (const Pair& pair : pairs_) {
          if (ours.count(pair.first) == 0 && theirs.count(pair.second) == 0) continue;
          ours.insert(pair.first);
          theirs.insert(pair.second);
        }
      }
      std::string text;
      for (const std::string& key : ours)
        text += (text.empty() ? "" : ", ") + session_.groups.at(key).name;
      text += " of the session and ";
      std::string other;
      for (const std::string& key : theirs)
        other += (other.empty() ? "" : ", ") + groups_.at(key).ForPeople();
      result_.unclear.push_back(text + other +
                                " of the dumps have the same members, and neither names nor calls "
                                "tell which is which; they are not taken together");
      std::erase_if(pairs_, [&](const Pair& pair) { return ours.count(pair.first) > 0; });
    }
  }

  const SessionCalls& session_;
  const std::vector<FlightDump>& dumps_;
  std::map<std::string, FlightGroup> groups_;  // of the dumps
  std::set<int> seen_;                         // ranks of the session
  std::set<Pair> pairs_;                       // that may be one, and are not decided
  std::map<Pair, Comparison> compared_;
  GroupMatches result_;
};

}  // namespace

GroupMatches MatchGroups(const SessionCalls& session, const std::vector<FlightDump>& dumps) {
  return Matching(session, dumps).Find();
}

}  // namespace gordian::merge
