#include "cli/run/verdict_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::cli {
namespace {

using model::Confidence;
using model::Finding;
using model::VerdictKind;

bool Gone(VerdictKind kind) {
  return kind == VerdictKind::kRankExited || kind == VerdictKind::kRankAborted;
}

// The same for a suspicion and its confirmation.
std::string KeyOf(const Finding& finding) {
  std::string key = std::string(model::Name(finding.verdict)) + "/" + finding.check;
  for (const int rank : finding.culprit_ranks) key += "/" + std::to_string(rank);
  return key;
}

}  // namespace

int ExitCodeOfVerdict(const model::Verdict& verdict) {
  if (model::SaysTrouble(verdict.main.verdict)) {
    return 1;
  }
  const bool other = std::any_of(verdict.findings.begin(), verdict.findings.end(),
                                 [](const Finding& f) { return model::SaysTrouble(f.verdict); });
  if (other) {
    return 1;
  }
  return verdict.main.verdict == VerdictKind::kInconclusive ? 3 : 0;
}

std::vector<std::pair<std::string, std::string>> VerdictVariables(const Finding& finding) {
  std::string ranks;
  for (const int rank : finding.culprit_ranks) {
    ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
  }
  std::string pids, nodes;  // as many as ranks
  for (const int rank : finding.culprit_ranks) {
    const auto known =
        std::find_if(finding.culprit_processes.begin(), finding.culprit_processes.end(),
                     [rank](const model::CulpritProcess& culprit) { return culprit.rank == rank; });
    const bool found = known != finding.culprit_processes.end();
    pids += (pids.empty() ? "" : " ") + (found ? std::to_string(known->pid) : std::string("-"));
    nodes += (nodes.empty() ? "" : " ") +
             (found && !known->node.empty() ? known->node : std::string("-"));
  }
  return {{"GORDIAN_VERDICT", model::Name(finding.verdict)},
          {"GORDIAN_CONFIDENCE", model::Name(finding.confidence)},
          {"GORDIAN_CULPRIT_RANKS", ranks},
          {"GORDIAN_CULPRIT_PIDS", pids},
          {"GORDIAN_CULPRIT_NODES", nodes},
          {"GORDIAN_SUMMARY", finding.summary}};
}

VerdictPolicy::Say VerdictPolicy::Judge(const model::Verdict& verdict, bool interrupted,
                                        bool may_end) {
  const Finding& main = verdict.main;
  problem_ = model::SaysTrouble(main.verdict) && main.confidence != Confidence::kPossible &&
             !(interrupted && Gone(main.verdict));

  ChooseWhatToActOn(verdict, interrupted, may_end);
  if (!problem_) {
    if (reported_ && !withdrawn_) {
      withdrawn_ = true;
      return Say::kWithdrawn;
    }
    // A job that has not called NCCL yet may be starting.
    const bool slow = model::OnlySlow(main) ||
                      (main.verdict == VerdictKind::kInconclusive && main.check != "no-nccl-calls");
    std::string check = slow && !interrupted ? main.check : "";
    if (check == slow_) return Say::kNothing;
    slow_ = std::move(check);
    if (main.verdict == VerdictKind::kFinished) return Say::kNothing;
    return slow_.empty() ? Say::kGoesOn : Say::kSlow;
  }
  slow_.clear();
  shown_.insert(KeyOf(main));
  for (const Finding& finding : verdict.findings) {
    if (!model::SaysTrouble(finding.verdict) || finding.confidence == Confidence::kPossible ||
        (interrupted && Gone(finding.verdict)) || shown_.size() > kMostFurther ||
        !shown_.insert(KeyOf(finding)).second) {
      continue;
    }
    if (reported_) further_.push_back(finding);  // else the first report has it
  }
  // Other ranks are news, too: the last line must not name others than verdict.json does.
  // gordian says again what comes and goes only kMostFurther times.
  const std::string key = KeyOf(main) + "/" + model::Name(main.confidence);
  const bool other = std::exchange(last_said_, key) != key;
  const bool is_new = said_.insert(key).second || (other && ++told_again_ <= kMostFurther);
  if (!reported_) {
    reported_ = true;
    return Say::kReport;
  }
  if (withdrawn_) {
    withdrawn_ = false;
    return Say::kHeadline;
  }
  return other && is_new ? Say::kHeadline : Say::kNothing;
}

void VerdictPolicy::ChooseWhatToActOn(const model::Verdict& verdict, bool interrupted,
                                      bool may_end) {
  const OnVerdict what = options_.on_verdict;
  const bool restart = IsRestart(what);
  const bool suspected = what == OnVerdict::kKillSuspected || what == OnVerdict::kRestartSuspected;
  restarts_ = verdict.restarts.times;
  if (restart && acted_ && restarts_ > restarts_acted_) acted_ = false;

  act_ = false;
  stall_ns_ = 0;
  acts_on_.reset();
  stalled_at_ns_ = 0;
  std::vector<const Finding*> all = {&verdict.main};
  for (const Finding& finding : verdict.findings) {
    all.push_back(&finding);
  }
  for (const Finding* finding : all) {
    stalled_at_ns_ = std::max(stalled_at_ns_, finding->stalled_at_ns);
    const bool sure = finding->confidence == Confidence::kConfirmed ||
                      (finding->confidence == Confidence::kSuspected && suspected);
    if (!model::SaysTrouble(finding->verdict) || !sure || (interrupted && Gone(finding->verdict))) {
      continue;
    }
    if (!may_end && what != OnVerdict::kExec) continue;
    if (acted_until_ns_ != 0 && finding->stalled_at_ns <= acted_until_ns_) continue;
    const bool waits = finding->verdict == VerdictKind::kMismatch && what != OnVerdict::kExec;
    const bool launcher_knows = restart && Gone(finding->verdict);
    if (launcher_knows || waits) {
      const uint64_t patience = (launcher_knows ? 3 : 1) * options_.suspect_after_ns;
      stall_ns_ = stall_ns_ == 0 ? patience : std::min(stall_ns_, patience);
      if (!acts_on_) acts_on_ = *finding;
    } else {
      if (!act_) acts_on_ = *finding;
      act_ = true;
    }
  }
}

std::vector<Finding> VerdictPolicy::TakeFurther() { return std::exchange(further_, {}); }

bool VerdictPolicy::ActNow(uint64_t now_ns, uint64_t records, bool unfinished) {
  if (acted_ || options_.on_verdict == OnVerdict::kReport ||
      options_.on_verdict == OnVerdict::kRecover) {
    return false;
  }
  bool act = act_;
  if (stall_ns_ > 0) {
    if (!still_since_ns_ || records != last_records_ || !unfinished) {
      last_records_ = records;
      still_since_ns_ = now_ns;
    } else if (now_ns - *still_since_ns_ >= stall_ns_) {
      act = true;
    }
  } else {
    still_since_ns_.reset();
  }
  acted_ = act;
  if (act && IsRestart(options_.on_verdict)) {
    restarts_acted_ = restarts_;
    acted_until_ns_ = std::max<uint64_t>(stalled_at_ns_, 1);
  }
  return act;
}

}  // namespace gordian::cli
