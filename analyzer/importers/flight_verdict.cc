#include "analyzer/importers/flight_verdict.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <functional>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/importers/flight_calls.h"
#include "analyzer/importers/flight_mismatch.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::importers {
namespace {

using model::Confidence;
using model::Finding;
using model::PartState;
using model::VerdictKind;

constexpr size_t kMostOperations = 16;  // in one finding

std::string RankText(int rank) { return "rank " + std::to_string(rank); }

// "rank 3 waits", "14 ranks wait".
std::string Waiting(const std::vector<int>& ranks) {
  constexpr size_t kNamed = 4;
  if (ranks.size() == 1) return model::RankList(ranks) + " waits";
  return (ranks.size() <= kNamed ? model::RankList(ranks)
                                 : std::to_string(ranks.size()) + " ranks") +
         " wait";
}

using Operation = FlightOperation;

// A rank that has an operation open which some member has not called, or which waits behind such a
// one.
struct Waits {
  // The ranks for whose calls or starts it waits, and those whose part is unknown.
  std::set<int> waits_for, unseen;
};

class Dumps {
 public:
  explicit Dumps(const std::vector<FlightDump>& dumps) : calls_(dumps), ranks_(calls_.ranks()) {}
  model::Verdict Decide();

 private:
  Made At(int rank, const Operation& operation) const { return calls_.At(rank, operation); }
  std::vector<int> Members(const Operation& operation) const { return calls_.Members(operation); }
  bool Stuck(int rank) const { return stuck_.count(rank) > 0; }
  // A rank that has the operation open waits in it for this member, which has not called it, or has
  // it behind others.
  bool Awaits(int rank, const Operation& operation, int member) const {
    const Made made = At(member, operation);
    return made == Made::kNotCalled ||
           (made == Made::kOpen && Stuck(member) && !calls_.HasBegun(member, operation) &&
            HasEarlier(member, operation) && !StandsBehind(rank, operation));
  }
  // Whether the rank has an operation open that it called before this one.
  bool HasEarlier(int rank, const Operation& operation) const {
    const std::map<Operation, const FlightEntry*>& open = ranks_.at(rank).open;
    const int64_t record = open.at(operation)->record;
    return std::any_of(open.begin(), open.end(),
                       [&](const auto& other) { return other.second->record < record; });
  }
  // The rank's device has not begun the operation, and is in another one that cannot end: the rank
  // waits there, and not for members that have called this one, too.
  bool StandsBehind(int rank, const Operation& operation) const {
    return in_.count(rank) > 0 && !calls_.HasBegun(rank, operation);
  }
  void FindStuck();
  void FindWaits();
  void FindMismatches(std::vector<Finding>* findings) const;
  void FindWaiting(std::vector<Finding>* findings) const;
  void FindStandingStill(std::vector<Finding>* findings) const;
  std::vector<int> FewerInOrder(const std::vector<int>& cycle,
                                const std::set<Operation>& operations) const;
  void FindCycle(const std::set<int>& left, std::vector<Finding>* findings) const;
  bool HasCycle(const std::set<int>& ranks, int without) const;
  std::vector<int> WhoDeparts(const std::set<int>& left, const std::vector<int>& cycle) const;
  Finding Make(const char* check) const;
  std::string Name(const Operation& operation) const { return calls_.Name(operation); }
  model::StuckOperation Describe(const Operation& operation) const;
  std::string Instead(int rank) const;

  const FlightCalls calls_;
  const std::map<int, FlightRank>& ranks_;
  std::map<int, Waits> stuck_;
  std::set<int> in_;  // ranks whose device has begun an operation that cannot end
  std::map<int, std::map<Operation, std::set<int>>>
      missing_;  // operations that a rank has open, and the members that have not called them
};

void Dumps::FindStuck() {
  for (const auto& [number, operation] : calls_.Stuck(FlightCalls::Order::kGroup)) {
    stuck_[number];
    if (calls_.HasBegun(number, operation)) in_.insert(number);
  }
  for (const auto& [number, rank] : ranks_) {
    for (const auto& [operation, entry] : rank.open) {
      for (const int member : Members(operation)) {
        if (member == number) continue;
        const Made made = At(member, operation);
        if (made == Made::kNotCalled || made == Made::kUnknown)
          missing_[number][operation].insert(member);
      }
    }
  }
}

void Dumps::FindWaits() {
  for (auto& [number, waits] : stuck_) {
    for (const auto& [operation, entry] : ranks_.at(number).open) {
      for (const int member : Members(operation)) {
        if (member == number) continue;
        const Made made = At(member, operation);
        if (made == Made::kUnknown) {
          waits.unseen.insert(member);
        } else if (Awaits(number, operation, member)) {
          waits.waits_for.insert(member);
        }
      }
    }
  }
}

// What a rank that has not called does instead, as far as the dumps show.
std::string Dumps::Instead(int number) const {
  const auto found = ranks_.find(number);
  if (found == ranks_.end()) return "left no dump";
  const FlightRank& rank = found->second;
  const FlightEntry* last = nullptr;
  for (const auto& [operation, entry] : rank.open) {
    if (last == nullptr || entry->record > last->record) last = entry;
  }
  if (last == nullptr) return "has nothing open";
  return "last called " + last->operation + (last->site.empty() ? "" : " at " + last->site);
}

model::StuckOperation Dumps::Describe(const Operation& operation) const {
  model::StuckOperation out;
  out.comm_name = calls_.GroupName(operation.group);
  out.comm = std::hash<std::string>{}(operation.group);
  out.sequence = operation.sequence;
  for (const int number : Members(operation)) {
    model::OperationMember member;
    member.rank = number;
    const Made made = At(number, operation);
    const auto rank = ranks_.find(number);
    if (rank != ranks_.end()) {
      const auto entry = rank->second.entries.find(operation);
      if (entry != rank->second.entries.end()) out.op = entry->second->operation;
    }
    member.state = made == Made::kDone                            ? PartState::kDone
                   : made == Made::kOpen || made == Made::kCalled ? PartState::kCalled
                                                                  : PartState::kNotCalled;
    if (made == Made::kNotCalled) member.instead = Instead(number);
    if (made == Made::kUnknown)
      member.instead =
          rank == ranks_.end() ? "left no dump" : "does something that its dump does not show";
    out.members.push_back(std::move(member));
  }
  return out;
}

Finding Dumps::Make(const char* id) const {
  Finding finding = model::MakeFinding(id, Confidence::kSuspected);
  finding.evidence.ranks_seen = static_cast<int>(ranks_.size());
  finding.evidence.ranks_expected = calls_.expected();
  finding.evidence.records = calls_.entries();
  finding.evidence.nccl_calls = calls_.entries();
  finding.evidence.not_visible.assign(calls_.not_visible().begin(), calls_.not_visible().end());
  finding.evidence.not_visible.push_back(
      "streams, events, host waits and the device's progress: Flight Recorder dumps do not hold "
      "them");
  return finding;
}

// Finds members that have the same operation open with different arguments.
void Dumps::FindMismatches(std::vector<Finding>* findings) const {
  for (FlightMismatch& mismatch :
       FindFlightMismatches(calls_, [](int, const Operation&) { return true; })) {
    Finding finding = Make(mismatch.check);
    finding.culprit_ranks = std::move(mismatch.culprits);
    finding.summary =
        "The members of " + Name(mismatch.operation) + " disagree: " + mismatch.disagree + ".";
    finding.operations.push_back(Describe(mismatch.operation));
    findings->push_back(std::move(finding));
  }
}

void Dumps::FindWaiting(std::vector<Finding>* findings) const {
  // Walks from each end of waiting back to the ranks that wait for it.
  std::set<int> culprits, unseen, waits;
  std::map<int, std::vector<int>> back;
  for (const auto& [number, rank] : stuck_) {
    waits.insert(number);
    unseen.insert(rank.unseen.begin(), rank.unseen.end());
    for (const int to : rank.waits_for) {
      back[to].push_back(number);
      if (!Stuck(to)) culprits.insert(to);
    }
  }
  // Such an end, or a rank without a dump, explains a rank that reaches it; the others wait in a
  // cycle.
  std::set<int> explained = culprits;
  for (const int number : waits) {
    if (!stuck_.at(number).unseen.empty()) explained.insert(number);
  }
  std::deque<int> work(explained.begin(), explained.end());
  while (!work.empty()) {
    for (const int from : back[work.front()]) {
      if (explained.insert(from).second) work.push_back(from);
    }
    work.pop_front();
  }
  std::set<int> left;
  std::set_difference(waits.begin(), waits.end(), explained.begin(), explained.end(),
                      std::inserter(left, left.end()));
  if (!left.empty()) FindCycle(left, findings);
  if (!culprits.empty()) {
    Finding finding = Make("rank-not-joined");
    finding.culprit_ranks.assign(culprits.begin(), culprits.end());
    std::map<Operation, int> owed;  // and how many ranks have it open
    bool nothing_open = true;
    for (const auto& [number, by_operation] : missing_) {
      for (const auto& [operation, who] : by_operation) {
        const bool theirs = std::any_of(who.begin(), who.end(), [&, &what = operation](int r) {
          return culprits.count(r) > 0 && At(r, what) == Made::kNotCalled;
        });
        if (theirs) ++owed[operation];
      }
    }
    for (const int rank : culprits) nothing_open = nothing_open && ranks_.at(rank).open.empty();
    // Collectives first, then those that hold up most ranks, then in the order of the calls.
    std::vector<std::pair<Operation, int>> in_order(owed.begin(), owed.end());
    std::stable_sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.first.p2p, -a.second, a.first.sequence) <
             std::tuple(b.first.p2p, -b.second, b.first.sequence);
    });
    const std::string first = Name(in_order.front().first);
    if (in_order.size() > kMostOperations) in_order.resize(kMostOperations);
    for (const auto& [operation, waiters] : in_order)
      finding.operations.push_back(Describe(operation));
    for (const int number : waits) {
      if (culprits.count(number) == 0) finding.victim_ranks.push_back(number);
    }
    const bool one = culprits.size() == 1;
    finding.summary =
        model::RankList(finding.culprit_ranks, true) + (one ? " has" : " have") +
        " not called an operation that others wait for (" + first +
        (owed.size() > 1 ? " and " + std::to_string(owed.size() - 1) + " more" : "") + "), and " +
        (one ? "waits" : "wait") + " for no other rank" +
        (nothing_open ? (one ? ": it has" : ": they have") + std::string(" no operation open")
                      : std::string(": all members have called ") + (one ? "its" : "their") +
                            " open operations") +
        "; " + Waiting(finding.victim_ranks) + ".";
    findings->push_back(std::move(finding));
  } else if (left.empty() && !waits.empty()) {
    Finding finding = Make("evidence-missing");
    const std::vector<int> waiting(waits.begin(), waits.end());
    finding.victim_ranks = waiting;
    std::vector<int> who(unseen.begin(), unseen.end());
    std::erase(who, kUnknownMember);
    finding.summary = Waiting(waiting) + " for an operation that " +
                      (who.empty() ? "members of unknown ranks" : model::RankList(who)) +
                      " may not have called: no dump shows it.";
    finding.summary[0] =
        static_cast<char>(std::toupper(static_cast<unsigned char>(finding.summary[0])));
    std::set<Operation> shown;
    for (const auto& [number, by_operation] : missing_) {
      for (const auto& [operation, ranks] : by_operation) {
        if (finding.operations.size() < kMostOperations && shown.insert(operation).second)
          finding.operations.push_back(Describe(operation));
      }
    }
    findings->push_back(std::move(finding));
  }
}

// Finds ranks that have an operation open which the other members have done: those needed the
// rank's start, so that it is the rank's device that does not go on. Others wait for what it has
// called behind that.
void Dumps::FindStandingStill(std::vector<Finding>* findings) const {
  // A member may end these before the others have begun.
  static const std::set<std::string> kOneSided = {"broadcast",   "_broadcast_oop", "reduce",
                                                  "_reduce_oop", "scatter",        "gather",
                                                  "send",        "recv",           "coalesced"};
  std::map<int, const Operation*> standing;
  for (const auto& [number, rank] : ranks_) {
    const FlightEntry* first = nullptr;
    for (const auto& [operation, entry] : rank.open) {
      if (first == nullptr || entry->record < first->record) first = entry;
    }
    for (const auto& [operation, entry] : rank.open) {
      size_t done = 0, still_open = 0, unclear = 0;  // among all members
      for (const int member : Members(operation)) {
        const Made made = At(member, operation);
        ++(!calls_.EndsAgree(number, member, operation) ? unclear
           : made == Made::kDone                        ? done
           : made == Made::kOpen                        ? still_open
                                                        : unclear);
      }
      // One that stands still may hold up neighbours in the middle of the operation: a minority.
      if (done < still_open || unclear > 0) continue;
      // What is not the first may stand behind another operation of the rank.
      const bool alone = kOneSided.count(entry->operation) > 0;
      if (alone && (still_open > 1 || entry != first)) continue;
      const Operation*& known = standing[number];
      if (known == nullptr || entry->record < rank.open.at(*known)->record) known = &operation;
    }
  }
  // Who has an operation open that a standing rank has open, too, and so on.
  std::set<int> held;
  std::deque<int> work;
  for (const auto& [number, operation] : standing) work.push_back(number);
  while (!work.empty()) {
    const int to = work.front();
    work.pop_front();
    for (const auto& [operation, entry] : ranks_.at(to).open) {
      for (const int member : Members(operation)) {
        if (member == to || standing.count(member) > 0 || ranks_.count(member) == 0) continue;
        if (At(member, operation) == Made::kOpen && held.insert(member).second) {
          work.push_back(member);
        }
      }
    }
  }
  if (held.empty()) return;  // no rank waits: the watchdog may not have looked yet
  Finding finding = Make("stuck-kernel");
  std::set<Operation> shown;
  std::string text;
  for (const auto& [number, operation] : standing) {
    finding.culprit_ranks.push_back(number);
    if (!shown.insert(*operation).second) continue;
    if (finding.operations.size() >= kMostOperations) continue;
    if (text.empty()) text = Name(*operation);
    finding.operations.push_back(Describe(*operation));
  }
  finding.victim_ranks.assign(held.begin(), held.end());
  const bool one = standing.size() == 1;
  finding.summary = model::RankList(finding.culprit_ranks, true) + (one ? " has" : " have") +
                    " an operation open that the other members have done (" + text +
                    (shown.size() > 1 ? " and " + std::to_string(shown.size() - 1) + " more" : "") +
                    "): " + (one ? "its device does" : "their devices do") + " not go on; " +
                    Waiting(finding.victim_ranks) + ".";
  finding.evidence.assumes.push_back("the dumps were written at about the same time");
  findings->push_back(std::move(finding));
}

// The ranks of a cycle over two operations that call these in another order than most members do.
// Empty: no majority, or all of the cycle.
std::vector<int> Dumps::FewerInOrder(const std::vector<int>& cycle,
                                     const std::set<Operation>& operations) const {
  if (operations.size() != 2) return {};
  const Operation &one = *operations.begin(), &other = *operations.rbegin();
  std::set<int> by_order[2];
  for (const auto& [number, rank] : ranks_) {
    const auto a = rank.entries.find(one), b = rank.entries.find(other);
    if (a == rank.entries.end() || b == rank.entries.end()) continue;
    by_order[a->second->record < b->second->record].insert(number);
  }
  if (by_order[0].size() == by_order[1].size()) return {};
  const std::set<int>& few = by_order[by_order[0].size() > by_order[1].size()];
  std::vector<int> ranks;
  std::copy_if(cycle.begin(), cycle.end(), std::back_inserter(ranks),
               [&](int rank) { return few.count(rank) > 0; });
  return ranks.size() < cycle.size() ? ranks : std::vector<int>();
}

// Whether some of the ranks but one wait for each other in a cycle.
bool Dumps::HasCycle(const std::set<int>& ranks, int without) const {
  std::map<int, size_t> waits;  // of each rank for how many of the others
  std::map<int, std::vector<int>> back;
  std::deque<int> free;
  for (const int from : ranks) {
    if (from == without) continue;
    size_t& count = waits[from];
    for (const int to : stuck_.at(from).waits_for) {
      if (to == without || ranks.count(to) == 0) continue;
      ++count;
      back[to].push_back(from);
    }
    if (count == 0) free.push_back(from);
  }
  size_t ended = 0;
  for (; !free.empty(); free.pop_front(), ++ended) {
    for (const int from : back[free.front()]) {
      if (--waits[from] == 0) free.push_back(from);
    }
  }
  return ended < waits.size();
}

// Returns the rank of the cycle that breaks every cycle when it is taken out; all of the cycle where
// no rank does, or several do.
std::vector<int> Dumps::WhoDeparts(const std::set<int>& left, const std::vector<int>& cycle) const {
  std::vector<int> breaks;
  for (const int rank : cycle) {
    if (!HasCycle(left, rank)) breaks.push_back(rank);
    if (breaks.size() > 1) break;
  }
  return breaks.size() == 1 ? breaks : cycle;
}

// Finds the shortest cycle among ranks that wait for each other only.
void Dumps::FindCycle(const std::set<int>& left, std::vector<Finding>* findings) const {
  std::vector<int> best;
  for (const int start : left) {
    std::map<int, int> via;
    std::deque<int> work = {start};
    bool round = false;
    while (!work.empty() && !round) {
      const int rank = work.front();
      work.pop_front();
      for (const int to : stuck_.at(rank).waits_for) {
        if (to == start) {
          std::vector<int> cycle = {rank};
          while (cycle.back() != start) cycle.push_back(via[cycle.back()]);
          std::reverse(cycle.begin(), cycle.end());
          if (best.empty() || cycle.size() < best.size()) best = cycle;
          round = true;
          break;
        }
        if (left.count(to) > 0 && via.emplace(to, rank).second) work.push_back(to);
      }
    }
  }
  if (best.empty()) return;
  Finding finding = Make("communicator-order-cycle");
  std::string text;
  std::set<Operation> shown;
  bool behind = true;  // every member has called
  for (size_t i = 0; i < best.size(); ++i) {
    const int from = best[i], to = best[(i + 1) % best.size()];
    model::WaitEdge edge;
    edge.rank = from;
    edge.waits_for_rank = to;
    for (const auto& [operation, entry] : ranks_.at(from).open) {
      const std::vector<int> members = Members(operation);
      if (std::find(members.begin(), members.end(), to) == members.end()) continue;
      if (!Awaits(from, operation, to)) continue;
      const Made made = At(to, operation);
      edge.reason =
          made == Made::kNotCalled ? model::Reason::kNotCalled : model::Reason::kStartedCollective;
      behind = behind && made != Made::kNotCalled;
      edge.op = entry->operation;
      edge.comm = std::hash<std::string>{}(operation.group);
      edge.comm_name = Describe(operation).comm_name;
      edge.sequence = operation.sequence;
      edge.detail =
          RankText(to) +
          (made == Made::kNotCalled ? " has not called it" : " has called it behind others") +
          ": it " + Instead(to);
      text += (text.empty() ? "" : "; ") + RankText(from) + " is in " + Name(operation) +
              ", which " + RankText(to) +
              (made == Made::kNotCalled ? " has not called" : " has behind others");
      if (shown.insert(operation).second) finding.operations.push_back(Describe(operation));
      if (made == Made::kNotCalled) break;
    }
    finding.cycle.push_back(std::move(edge));
  }
  std::vector<int> cycle = best;
  std::sort(cycle.begin(), cycle.end());
  std::string departs;
  const std::vector<int> fewer = FewerInOrder(cycle, shown);
  finding.culprit_ranks = fewer.empty() ? WhoDeparts(left, cycle) : fewer;
  if (!fewer.empty()) {
    departs = " " + model::RankList(fewer, true) + (fewer.size() == 1 ? " calls" : " call") +
              " them in another order than most.";
  }
  for (const int rank : left) {
    const std::vector<int>& culprits = finding.culprit_ranks;
    if (!std::binary_search(culprits.begin(), culprits.end(), rank))
      finding.victim_ranks.push_back(rank);
  }
  finding.summary = model::RankList(cycle, true) + " wait for each other: " + text + "." + departs;
  finding.evidence.assumes.push_back(
      behind ? "an operation that the device has not begun stands behind those that it has"
             : "a rank makes no further calls while it waits in an operation");
  findings->push_back(std::move(finding));
}

model::Verdict Dumps::Decide() {
  FindStuck();
  FindWaits();
  std::vector<Finding> findings;
  FindMismatches(&findings);
  FindWaiting(&findings);
  // What no dump shows explains less than a device that does not go on.
  const bool unexplained =
      std::all_of(findings.begin(), findings.end(),
                  [](const Finding& finding) { return finding.check == "evidence-missing"; });
  if (unexplained) FindStandingStill(&findings);
  if (findings.empty()) {
    size_t open = 0;
    for (const auto& [number, rank] : ranks_) open += rank.open.size();
    Finding finding = Make("evidence-missing");
    finding.summary =
        open == 0
            ? "No dump has an open operation: the dumps do not show why the job stopped."
            : "All members have called every open operation: the dumps do not show what holds "
              "them up.";
    findings.push_back(std::move(finding));
  }
  return model::WorstFirst(std::move(findings));
}

}  // namespace

model::Verdict DecideFlightDumps(const std::vector<FlightDump>& dumps) {
  return Dumps(dumps).Decide();
}

}  // namespace gordian::importers
