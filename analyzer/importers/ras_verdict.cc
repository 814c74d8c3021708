#include <algorithm>
#include <deque>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/importers/ras.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::importers {
namespace {

using model::Confidence;
using model::Finding;

constexpr size_t kMostOperations = 16;

using Identity =
    std::string;  // of a process and its device; of a member alone if those are unknown

Identity Of(const RasCommunicator& comm, const RasMember& member) {
  return member.process.empty() ? comm.key + "#" + std::to_string(member.rank) : member.process;
}

class Reports {
 public:
  explicit Reports(std::vector<RasReport> reports);
  model::Verdict Decide();

 private:
  void NameRanks();
  void FindWhatMoves();
  Finding Make(const char* check) const;
  std::vector<int> RanksOf(const std::set<Identity>& who) const;
  std::string Name(const RasCommunicator& comm) const;
  model::StuckOperation Describe(const RasCommunicator& comm) const;
  void FindGone(std::vector<Finding>* findings) const;
  void FindMismatches(std::vector<Finding>* findings) const;
  void FindWaiting(std::vector<Finding>* findings) const;
  Finding Nothing() const;

  std::vector<RasReport> reports_;  // by time
  const RasReport* last_ = nullptr;
  bool twice_ = false;             // there are reports of two times
  std::set<Identity> moves_;       // members whose counts differ between reports
  std::map<Identity, int> ranks_;  // of the job: in its largest communicator
  std::set<Identity> silent_;      // neither answers nor is known to be dead
};

Reports::Reports(std::vector<RasReport> reports) : reports_(std::move(reports)) {
  std::sort(reports_.begin(), reports_.end(), [](const RasReport& a, const RasReport& b) {
    return std::tie(a.time, a.path) < std::tie(b.time, b.path);
  });
  last_ = &reports_.back();
  // Reports in words have no time: nothing says that they are of two.
  twice_ = !reports_.front().time.empty() && reports_.front().time != last_->time;
  NameRanks();
  FindWhatMoves();
}

void Reports::NameRanks() {
  std::vector<const RasCommunicator*> by_size;
  for (const RasCommunicator& comm : last_->communicators) by_size.push_back(&comm);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const auto* a, const auto* b) { return a->size > b->size; });
  for (const RasCommunicator* comm : by_size) {
    for (const RasMember& member : comm->members) {
      ranks_.emplace(Of(*comm, member), member.rank);
      if (!member.answered && !member.dead) silent_.insert(Of(*comm, member));
    }
  }
}

void Reports::FindWhatMoves() {
  std::map<std::pair<std::string, int>, std::map<std::string, uint64_t>> now;
  for (const RasCommunicator& comm : last_->communicators) {
    for (const RasMember& member : comm.members) now[{comm.key, member.rank}] = member.counts;
  }
  // A member that is missing in the first report has joined since.
  std::set<std::pair<std::string, int>> before;
  for (const RasCommunicator& comm : reports_.front().communicators) {
    for (const RasMember& member : comm.members) {
      before.insert({comm.key, member.rank});
      const auto found = now.find({comm.key, member.rank});
      if (found == now.end() || found->second != member.counts) moves_.insert(Of(comm, member));
    }
  }
  for (const RasCommunicator& comm : last_->communicators) {
    for (const RasMember& member : comm.members) {
      if (before.count({comm.key, member.rank}) == 0) moves_.insert(Of(comm, member));
    }
  }
}

Finding Reports::Make(const char* id) const {
  Finding finding = model::MakeFinding(id, Confidence::kSuspected);
  std::set<Identity> seen;
  uint64_t calls = 0;
  size_t unnamed = 0;
  for (const RasCommunicator& comm : last_->communicators) {
    unnamed += static_cast<size_t>(comm.size) -
               std::min(static_cast<size_t>(comm.size), comm.members.size());
    for (const RasMember& member : comm.members) {
      if (member.answered) seen.insert(Of(comm, member));
      calls += member.Total();
    }
  }
  finding.evidence.ranks_seen = static_cast<int>(seen.size());
  finding.evidence.ranks_expected = static_cast<int>(ranks_.size());
  finding.evidence.records = calls;
  finding.evidence.nccl_calls = calls;
  auto& unseen = finding.evidence.not_visible;
  if (!silent_.empty()) unseen.push_back(model::RankList(RanksOf(silent_)) + " did not answer RAS");
  if (unnamed > 0) unseen.push_back(std::to_string(unnamed) + " members that RAS does not name");
  unseen.push_back(
      "order, streams, host waits, sends and receives, operations in CUDA graphs and the device's "
      "progress: RAS counts launches of five functions");
  for (const RasReport& report : reports_) {
    if (report.repaired_commas == 0) continue;
    finding.evidence.assumes.push_back(
        "a comma belongs behind nvml_dev of a missing rank, where NCCL " + report.nccl_version +
        " leaves it out");
    break;
  }
  if (last_->words) {
    unseen.push_back(
        "counts of members that launched equally many operations, and times: a report in words "
        "holds none");
  }
  if (!twice_) {
    unseen.push_back(
        last_->words ? "whether anything moves: reports in words have no time"
                     : "whether anything moves: one report shows one moment; take a second one");
  }
  for (const RasReport& report : reports_) {
    for (const std::string& what : report.unknown) {
      std::string text = "what " + what + " means, which NCCL " + report.nccl_version +
                         " writes and gordian does not know";
      if (std::find(unseen.begin(), unseen.end(), text) == unseen.end())
        unseen.push_back(std::move(text));
    }
  }
  return finding;
}

std::vector<int> Reports::RanksOf(const std::set<Identity>& who) const {
  std::set<int> ranks;
  for (const Identity& identity : who) ranks.insert(ranks_.at(identity));
  return {ranks.begin(), ranks.end()};
}

std::string Reports::Name(const RasCommunicator& comm) const {
  return "communicator " + comm.key.substr(0, comm.key.find('/')) + " of " +
         std::to_string(comm.size) + " ranks";
}

model::StuckOperation Reports::Describe(const RasCommunicator& comm) const {
  model::StuckOperation out;
  out.op = "Operation";  // of any of the five functions
  out.comm_name = Name(comm);
  uint64_t most = 0;
  for (const RasMember& member : comm.members) most = std::max(most, member.Total());
  out.sequence = static_cast<int64_t>(most);
  for (const RasMember& member : comm.members) {
    model::OperationMember shown;
    shown.rank = ranks_.at(Of(comm, member));
    shown.state = member.Total() == most ? model::PartState::kCalled : model::PartState::kNotCalled;
    shown.instead =
        !member.answered ? "did not answer RAS" : "has launched " + std::to_string(member.Total());
    out.members.push_back(std::move(shown));
  }
  return out;
}

void Reports::FindGone(std::vector<Finding>* findings) const {
  std::set<Identity> dead, aborted, others_of_dead, others_of_aborted;
  for (const RasCommunicator& comm : last_->communicators) {
    std::set<Identity> here_dead, here_aborted, rest;
    for (const RasMember& member : comm.members) {
      (member.dead ? here_dead : member.aborted ? here_aborted : rest).insert(Of(comm, member));
    }
    if (rest.empty()) continue;  // all are dead or aborted: no rank waits
    dead.insert(here_dead.begin(), here_dead.end());
    aborted.insert(here_aborted.begin(), here_aborted.end());
    if (!here_dead.empty()) others_of_dead.insert(rest.begin(), rest.end());
    if (!here_aborted.empty()) others_of_aborted.insert(rest.begin(), rest.end());
  }
  const auto add = [&](const char* check, const std::set<Identity>& who,
                       const std::set<Identity>& others, const std::string& what) {
    if (who.empty()) return;
    Finding finding = Make(check);
    finding.culprit_ranks = RanksOf(who);
    finding.victim_ranks = RanksOf(others);
    std::erase_if(finding.victim_ranks, [&](int rank) {
      return std::binary_search(finding.culprit_ranks.begin(), finding.culprit_ranks.end(), rank);
    });
    finding.summary =
        model::RankList(finding.culprit_ranks, true) + what + "; " +
        (finding.victim_ranks.empty() ? "others are"
                                      : model::RankList(finding.victim_ranks) +
                                            (finding.victim_ranks.size() == 1 ? " is" : " are")) +
        " in communicators with " + (who.size() == 1 ? "it" : "them") + ".";
    findings->push_back(std::move(finding));
  };
  add("rank-exited", dead, others_of_dead,
      dead.size() == 1 ? " is dead, as RAS reports" : " are dead, as RAS reports");
  add("rank-aborted", aborted, others_of_aborted,
      aborted.size() == 1 ? " has aborted" : " have aborted");
}

// Finds members that have launched equally many operations, but not the same ones.
void Reports::FindMismatches(std::vector<Finding>* findings) const {
  if (!twice_) return;  // RAS reads the counts one after another
  for (const RasCommunicator& comm : last_->communicators) {
    std::map<uint64_t, std::map<std::map<std::string, uint64_t>, std::set<Identity>>> by_total;
    for (const RasMember& member : comm.members) {
      if (!member.answered || moves_.count(Of(comm, member)) > 0) continue;
      by_total[member.Total()][member.counts].insert(Of(comm, member));
    }
    for (const auto& [total, by_counts] : by_total) {
      if (by_counts.size() < 2) continue;
      size_t most = 0, same = 0;
      for (const auto& [counts, who] : by_counts) {
        same = who.size() == most ? same + 1 : who.size() > most ? 1 : same;
        most = std::max(most, who.size());
      }
      Finding finding = Make("mismatch-kind");
      std::set<Identity> culprits;
      std::string text;
      for (const auto& [counts, who] : by_counts) {
        if (same > 1 || who.size() < most) culprits.insert(who.begin(), who.end());
        std::string had;
        for (const auto& [name, count] : counts) {
          if (count > 0) had += (had.empty() ? "" : ", ") + std::to_string(count) + " " + name;
        }
        text += (text.empty() ? "" : "; ") + model::RankList(RanksOf(who)) + " launched " + had;
      }
      finding.culprit_ranks = RanksOf(culprits);
      finding.summary = "Of " + std::to_string(total) + " operations on " + Name(comm) +
                        " not all were the same: " + text + ".";
      finding.operations.push_back(Describe(comm));
      findings->push_back(std::move(finding));
      break;
    }
  }
}

void Reports::FindWaiting(std::vector<Finding>* findings) const {
  if (!twice_) return;
  std::map<Identity, std::set<Identity>> waits;  // from a member ahead to one behind
  std::map<Identity, std::set<Identity>> back;
  std::set<Identity> hidden;  // may wait for a member that did not answer
  std::vector<const RasCommunicator*> uneven;
  for (const RasCommunicator& comm : last_->communicators) {
    // By total, not by pair of members: a member waits for every member with a smaller total.
    std::map<uint64_t, std::set<Identity>> by_total;
    bool silent = false, moving = false;
    for (const RasMember& member : comm.members) {
      const Identity who = Of(comm, member);
      silent |= !member.answered && !member.dead;
      moving |= moves_.count(who) > 0;
      if (member.answered && !member.aborted) by_total[member.Total()].insert(who);
    }
    if (by_total.size() < 2 || moving) {
      if (silent) {
        for (const auto& [total, who] : by_total) hidden.insert(who.begin(), who.end());
      }
      continue;
    }
    uneven.push_back(&comm);
    // The furthest behind hold up all others; those in between wait for them too.
    const std::set<Identity>& behind = by_total.begin()->second;
    for (auto it = std::next(by_total.begin()); it != by_total.end(); ++it) {
      for (const Identity& who : it->second) {
        waits[who].insert(behind.begin(), behind.end());
        if (silent) hidden.insert(who);
      }
    }
  }
  for (const auto& [from, to] : waits) {
    for (const Identity& rank : to) back[rank].insert(from);
  }
  std::set<Identity> culprits;
  for (const auto& [rank, who] : back) {
    if (waits.count(rank) == 0 && hidden.count(rank) == 0) culprits.insert(rank);
  }
  // Walks back from where waiting ends, or may end at a silent member; the others wait in a cycle.
  std::set<Identity> explained = culprits;
  explained.insert(hidden.begin(), hidden.end());
  std::deque<Identity> work(explained.begin(), explained.end());
  while (!work.empty()) {
    const auto from = back.find(work.front());
    work.pop_front();
    if (from == back.end()) continue;
    for (const Identity& who : from->second) {
      if (explained.insert(who).second) work.push_back(who);
    }
  }
  std::set<Identity> cycle, victims;
  for (const auto& [from, to] : waits) {
    const bool waited_for = back.count(from) > 0;
    if (explained.count(from) == 0 && waited_for) cycle.insert(from);
    if (culprits.count(from) == 0 && (explained.count(from) > 0 || !waited_for))
      victims.insert(from);
  }
  const auto describe = [&](const std::set<Identity>& who, Finding* finding) {
    for (const RasCommunicator* comm : uneven) {
      const bool theirs =
          std::any_of(comm->members.begin(), comm->members.end(),
                      [&](const RasMember& m) { return who.count(Of(*comm, m)) > 0; });
      if (theirs && finding->operations.size() < kMostOperations)
        finding->operations.push_back(Describe(*comm));
    }
  };
  if (!cycle.empty()) {
    Finding finding = Make("communicator-order-cycle");
    finding.culprit_ranks = RanksOf(cycle);
    finding.summary = model::RankList(finding.culprit_ranks, true) +
                      " wait for each other: each is ahead of another on one communicator and "
                      "behind on the next, "
                      "and no count has moved between the reports.";
    finding.evidence.assumes.push_back("a rank that is ahead on a communicator waits there");
    describe(cycle, &finding);
    findings->push_back(std::move(finding));
  }
  if (!culprits.empty()) {
    Finding finding = Make("rank-not-joined");
    finding.culprit_ranks = RanksOf(culprits);
    finding.victim_ranks = RanksOf(victims);
    const bool one = culprits.size() == 1;
    finding.summary = model::RankList(finding.culprit_ranks, true) + (one ? " is" : " are") +
                      " behind the others on " + std::to_string(uneven.size()) +
                      (uneven.size() == 1 ? " communicator" : " communicators") +
                      " and ahead on none, and no count has "
                      "moved between the reports.";
    describe(culprits, &finding);
    findings->push_back(std::move(finding));
  }
}

Finding Reports::Nothing() const {
  Finding finding = Make("evidence-missing");
  const RasCommunicator* uneven = nullptr;
  for (const RasCommunicator& comm : last_->communicators) {
    std::set<uint64_t> totals;
    for (const RasMember& member : comm.members) {
      if (member.answered) totals.insert(member.Total());
    }
    if (totals.size() > 1) {
      if (uneven == nullptr) uneven = &comm;
      if (finding.operations.size() < kMostOperations) finding.operations.push_back(Describe(comm));
    }
  }
  const bool unnamed = std::any_of(last_->communicators.begin(), last_->communicators.end(),
                                   [](const RasCommunicator& comm) {
                                     return comm.members.size() < static_cast<size_t>(comm.size);
                                   });
  if (uneven == nullptr && unnamed) {
    finding.summary = "The counts that the report gives do not differ, and it gives not all.";
  } else if (uneven == nullptr && last_->words) {
    finding.summary =
        "The report speaks of no member whose counts differ from those of others: it does not show "
        "whether anything is stuck.";
  } else if (uneven == nullptr) {
    finding.summary =
        "All members of every communicator have launched equally many operations: the counts do "
        "not show whether anything is stuck.";
  } else if (!twice_) {
    finding.summary = "The members of " + Name(*uneven) +
                      " have not launched equally many operations at this moment: "
                      "a rank that is behind may still be on its way.";
  } else {
    finding.summary =
        "Counts moved between the reports, or not all members answered: uneven counts may even "
        "out.";
  }
  return finding;
}

model::Verdict Reports::Decide() {
  std::vector<Finding> findings;
  FindGone(&findings);
  FindMismatches(&findings);
  FindWaiting(&findings);
  if (findings.empty()) findings.push_back(Nothing());
  return model::WorstFirst(std::move(findings));
}

}  // namespace

model::Verdict DecideRasReports(std::vector<RasReport> reports) {
  return Reports(std::move(reports)).Decide();
}

}  // namespace gordian::importers
