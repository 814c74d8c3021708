// Findings about callers of ncclCommInitRank that contradict each other: two pass the same rank, or
// they pass different numbers of ranks. NCCL's root finds the contradiction, stops, and tells none
// of them, so that those that have reached it wait for ever (measured with 2.28.9; bootstrap.cc).
#include <algorithm>
#include <map>
#include <set>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/hangs.h"

namespace gordian::model {
namespace {

constexpr uint64_t kSettleNs = 300'000'000;  // further callers may decide which ones are the fewer

using Claims = std::vector<const InitClaim*>;

// The largest first; equal ones in the order of the number of ranks.
std::vector<Claims> BySize(const InitCall& init) {
  std::map<int, Claims> sizes;
  for (const InitClaim& claim : init.claims) sizes[claim.nranks].push_back(&claim);
  std::vector<Claims> camps;
  for (auto& [nranks, claims] : sizes) camps.push_back(std::move(claims));
  std::stable_sort(camps.begin(), camps.end(),
                   [](const Claims& a, const Claims& b) { return a.size() > b.size(); });
  return camps;
}

// Those that pass a rank that another one passes too, by rank.
std::vector<Claims> SameRanks(const InitCall& init) {
  std::map<int, Claims> ranks;
  for (const InitClaim& claim : init.claims) ranks[claim.rank].push_back(&claim);
  std::vector<Claims> shared;
  for (auto& [rank, claims] : ranks) {
    if (claims.size() > 1) shared.push_back(std::move(claims));
  }
  return shared;
}

class Report {
 public:
  Report(const InitCall& init, const ExecutionGraph& execution, const Names& names)
      : init_(init), execution_(execution), names_(names) {
    finding_ = MakeFinding("communicator-init-mismatch",
                           // An id that served before may serve again: NCCL_COMM_ID.
                           init.made_before ? Confidence::kSuspected : Confidence::kConfirmed);
    operation_.op = Name(init);
    operation_.comm = init.uid;
    if (init.comm >= 0) operation_.comm_name = names.CommName(init.comm);
  }

  Finding Take() {
    const std::vector<Claims> camps = BySize(init_);
    if (camps.size() > 1) {
      OtherSizes(camps);
    } else {
      for (const Claims& claims : SameRanks(init_)) SameRank(claims);
    }
    std::sort(finding_.culprit_ranks.begin(), finding_.culprit_ranks.end());
    Claims claims;
    for (const InitClaim& claim : init_.claims) claims.push_back(&claim);
    std::sort(claims.begin(), claims.end(),
              [&](const InitClaim* a, const InitClaim* b) { return Rank(*a) < Rank(*b); });
    for (const InitClaim* const each : claims) {
      const InitClaim& claim = *each;
      const int rank = Rank(claim);
      OperationMember member;
      member.rank = rank;
      member.state = PartState::kCalled;
      member.instead =
          "passes rank " + std::to_string(claim.rank) + " of " + std::to_string(claim.nranks);
      member.site = {claim.process, claim.site};
      operation_.members.push_back(std::move(member));
      if (std::find(finding_.culprit_ranks.begin(), finding_.culprit_ranks.end(), rank) ==
          finding_.culprit_ranks.end()) {
        finding_.victim_ranks.push_back(rank);
      }
    }
    std::sort(finding_.victim_ranks.begin(), finding_.victim_ranks.end());
    finding_.summary += std::string(" to ") + Name(init_) + " of " + operation_.comm_name + ".";
    finding_.operations.push_back(std::move(operation_));
    return std::move(finding_);
  }

 private:
  int Rank(const InitClaim& claim) const { return names_.Rank(claim.process, claim.device); }

  std::vector<int> Ranks(const Claims& claims) const {
    std::vector<int> ranks;
    for (const InitClaim* claim : claims) ranks.push_back(Rank(*claim));
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  void Blame(const std::vector<int>& ranks) {
    finding_.culprit_ranks.insert(finding_.culprit_ranks.end(), ranks.begin(), ranks.end());
  }

  void OtherSizes(const std::vector<Claims>& camps) {
    const bool tie = camps[0].size() == camps[1].size();
    for (size_t c = 0; c < camps.size(); ++c) {
      const std::vector<int> ranks = Ranks(camps[c]);
      if (tie || c > 0) Blame(ranks);
      if (c >= 4) continue;
      finding_.summary += (c == 0 ? "" : ", ") + RankList(ranks, c == 0) +
                          (ranks.size() == 1 ? " passes" : " pass") + " nranks " +
                          std::to_string(camps[c].front()->nranks);
    }
  }

  void SameRank(const Claims& claims) {
    const std::vector<int> ranks = Ranks(claims);
    finding_.summary += (finding_.summary.empty() ? "" : ", ") +
                        RankList(ranks, finding_.summary.empty()) + " pass the same rank, " +
                        std::to_string(claims.front()->rank) + ",";
    // Where the launcher ranks every caller, and all others pass that rank, it says who errs.
    std::vector<int> err;
    const bool ranked =
        std::all_of(init_.claims.begin(), init_.claims.end(), [&](const InitClaim& claim) {
          const Process* const process = execution_.Find(claim.process);
          const bool same = process != nullptr && process->info.env_rank == claim.rank;
          const bool in_doubt = claim.rank == claims.front()->rank;
          if (in_doubt && !same) err.push_back(Rank(claim));
          return process != nullptr && process->info.env_world_size == claim.nranks &&
                 (same || in_doubt);
        });
    Blame(ranked && err.size() + 1 == claims.size() ? err : ranks);
  }

  const InitCall& init_;
  const ExecutionGraph& execution_;
  const Names& names_;
  Finding finding_;
  StuckOperation operation_;
};

}  // namespace

std::vector<Finding> InitMismatchFindings(const Matcher& matcher, const ExecutionGraph& execution,
                                          const Names& names, uint64_t now_ns,
                                          std::map<CommUid, uint64_t>* reported) {
  std::vector<Finding> findings;
  for (const auto& [uid, init] : matcher.inits()) {
    const uint64_t since_ns = Contradiction(init);
    if (since_ns == 0 || now_ns < since_ns + kSettleNs) continue;
    std::set<ProcessId> callers;
    for (const InitClaim& claim : init.claims) callers.insert(claim.process);
    if (names.incarnations().Past(callers)) continue;
    findings.push_back(Report(init, execution, names).Take());
    findings.back().stalled_at_ns = since_ns;
    findings.back().detected_after_s =
        static_cast<double>(reported->try_emplace(uid, now_ns).first->second - since_ns) * 1e-9;
  }
  return findings;
}

}  // namespace gordian::model
