// What the tests against the reference read out of a verdict.
#ifndef GORDIAN_TESTS_UNIT_MODEL_SIM_REFERENCE_VERDICTS_H_
#define GORDIAN_TESTS_UNIT_MODEL_SIM_REFERENCE_VERDICTS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

#include "analyzer/model/verdict/job_model.h"

namespace gordian::model::testing {

inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

inline bool Assumes(const Finding& finding, const char* part) {
  return std::any_of(finding.evidence.assumes.begin(), finding.evidence.assumes.end(),
                     [&](const std::string& text) { return text.find(part) != text.npos; });
}

// A proof but for what is not known of RMA: what has not been measured, and what kernels send.
inline bool OnlyAboutSignals(const Finding& finding) {
  return !finding.evidence.assumes.empty() &&
         std::all_of(finding.evidence.assumes.begin(), finding.evidence.assumes.end(),
                     [](const std::string& text) {
                       const auto has = [&](const char* part) {
                         return text.find(part) != text.npos;
                       };
                       return has("uses up the signals") || has("no kernel sends") ||
                              has("no other thread of");
                     });
}

// Ranks that the verdict holds to be in the deadlock; environment ranks make them process numbers.
inline std::set<int> Stuck(const Verdict& verdict) {
  std::set<int> stuck;
  auto add = [&](const Finding& f) {
    if (f.verdict != VerdictKind::kDeadlock && f.verdict != VerdictKind::kInitHang) return;
    if (Assumes(f, "does not buffer")) return;  // which NCCL does
    // Proofs, and those that would be if nobody unseen wrote to memory, and RMA counted as nccl.h
    // reads.
    if (f.confidence != Confidence::kConfirmed && !Assumes(f, "writes to the memory") &&
        !OnlyAboutSignals(f)) {
      return;
    }
    stuck.insert(f.culprit_ranks.begin(), f.culprit_ranks.end());
    stuck.insert(f.victim_ranks.begin(), f.victim_ranks.end());
  };
  add(verdict.main);
  for (const Finding& f : verdict.findings) add(f);
  return stuck;
}

// All findings, with what each assumes.
inline std::string Told(const Verdict& verdict) {
  std::ostringstream out;
  auto tell = [&](const Finding& f) {
    out << Name(f.verdict) << " (" << Name(f.confidence) << ", " << f.check << "): " << f.summary
        << "\n";
    for (const std::string& text : f.evidence.assumes) out << "  assuming that " << text << "\n";
    for (const WaitEdge& edge : f.cycle) {
      out << "  " << edge.rank << " > " << edge.waits_for_rank << " in " << edge.op << ": "
          << Name(edge.reason) << ", " << edge.detail << "\n";
    }
  };
  tell(verdict.main);
  for (const Finding& f : verdict.findings) tell(f);
  return out.str();
}

// A finding that members contradict each other. Other groups for equal calls are none: whether they
// hang is NCCL's own affair, and a suspicion.
inline bool Mismatched(const Verdict& verdict) {
  const auto is = [](const Finding& f) {
    return f.verdict == VerdictKind::kMismatch && f.check != "mismatch-grouping";
  };
  return is(verdict.main) || std::any_of(verdict.findings.begin(), verdict.findings.end(), is);
}

}  // namespace gordian::model::testing

#endif  // GORDIAN_TESTS_UNIT_MODEL_SIM_REFERENCE_VERDICTS_H_
