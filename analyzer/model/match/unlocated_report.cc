// Findings about mismatches among operations that nothing but their hashes is left of.
#include <algorithm>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/hangs.h"

namespace gordian::model {

std::vector<Finding> UnlocatedFindings(const Matcher& matcher, const Names& names,
                                       uint64_t now_ns) {
  std::vector<Finding> findings;
  for (const UnlocatedMismatch& mismatch : matcher.tallies().unlocated()) {
    const Communicator& comm = matcher.comms()[mismatch.comm];
    const bool transfer = mismatch.source >= 0;
    // One that was found says more.
    const bool found = transfer ? comm.transfer_mismatch >= 0
                                : comm.collective_mismatch >= 0 || comm.operator_mismatch >= 0;
    if (found || comm.opaque || comm.unsure || names.OfEarlierStart(mismatch.comm)) continue;
    std::map<uint64_t, std::vector<int>> camps;
    for (const auto& [rank, hash] : mismatch.hashes) {
      camps[hash].push_back(names.MemberRank(mismatch.comm, rank));
    }
    size_t most = 0, with_most = 0;
    for (const auto& [hash, ranks] : camps) most = std::max(most, ranks.size());
    for (const auto& [hash, ranks] : camps) with_most += ranks.size() == most;
    Finding finding = MakeFinding("mismatch-unlocated", Confidence::kConfirmed);
    for (const auto& [hash, ranks] : camps) {
      const bool guilty = with_most > 1 || ranks.size() < most;
      auto& side = guilty ? finding.culprit_ranks : finding.victim_ranks;
      side.insert(side.end(), ranks.begin(), ranks.end());
    }
    std::sort(finding.culprit_ranks.begin(), finding.culprit_ranks.end());
    std::sort(finding.victim_ranks.begin(), finding.victim_ranks.end());
    finding.summary = RankList(finding.culprit_ranks, true) +
                      " passed other arguments to one of the first " +
                      std::to_string(mismatch.below) + (transfer ? " transfers" : " operations") +
                      " on " + names.Comm(mismatch.comm) +
                      (finding.victim_ranks.empty() ? " than one another"
                                                    : " than " + RankList(finding.victim_ranks)) +
                      "; to which one is not known any more.";
    StuckOperation operation;
    operation.op = transfer ? "Send" : "operation";
    operation.comm = comm.uid;
    operation.comm_name = names.CommName(mismatch.comm);
    finding.operations.push_back(std::move(operation));
    finding.stalled_at_ns = mismatch.found_ns;
    if (now_ns > mismatch.found_ns) {
      finding.detected_after_s = static_cast<double>(now_ns - mismatch.found_ns) * 1e-9;
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gordian::model
