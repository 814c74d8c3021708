#include "analyzer/model/verdict/verdict.h"

#include <algorithm>

#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::model {

bool SaysTrouble(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kInconclusive:
    case VerdictKind::kHealthy:
    case VerdictKind::kFinished:
      return false;
    case VerdictKind::kDeadlock:
    case VerdictKind::kMismatch:
    case VerdictKind::kRankNotJoined:
    case VerdictKind::kRankExited:
    case VerdictKind::kRankStopped:
    case VerdictKind::kRankAborted:
    case VerdictKind::kStuckKernel:
    case VerdictKind::kHostBlocked:
    case VerdictKind::kInitHang:
      return true;
  }
  return true;
}

int Severity(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kFinished:
      return 0;
    case VerdictKind::kHealthy:
      return 1;
    case VerdictKind::kInconclusive:
      return 2;
    case VerdictKind::kStuckKernel:
      return 4;
    case VerdictKind::kHostBlocked:
      return 5;
    case VerdictKind::kRankNotJoined:
      return 6;
    case VerdictKind::kInitHang:
      return 7;
    case VerdictKind::kRankStopped:
      return 8;
    case VerdictKind::kRankExited:
      return 9;
    case VerdictKind::kRankAborted:
      return 10;
    case VerdictKind::kDeadlock:
      return 11;
    case VerdictKind::kMismatch:
      return 12;
  }
  return 0;
}

std::string WithoutCount(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits == text.size() || text[digits] != ' ') return text;
  const std::string rest = text.substr(digits + 1);
  if (text.substr(0, digits) != "1" || rest.starts_with("of ")) return rest;  // "1 of 8 ranks"
  const size_t noun = std::min(rest.find(' '), rest.size());
  return rest.substr(0, noun) + "s" + rest.substr(noun);
}

bool OnlySlow(const Finding& finding) {
  return SaysTrouble(finding.verdict) && finding.confidence == Confidence::kPossible &&
         finding.culprit_ranks.empty();
}

bool StandsStill(const Finding& finding) { return finding.check == "no-progress"; }

bool IsOver(const Finding& finding) {
  const auto done = [](const StuckOperation& operation) {
    return !operation.members.empty() &&
           std::all_of(
               operation.members.begin(), operation.members.end(),
               [](const OperationMember& member) { return member.state == PartState::kDone; });
  };
  return finding.verdict == VerdictKind::kMismatch && !finding.operations.empty() &&
         std::all_of(finding.operations.begin(), finding.operations.end(), done);
}

const char* Name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kInconclusive:
      return "inconclusive";
    case VerdictKind::kHealthy:
      return "healthy";
    case VerdictKind::kFinished:
      return "finished";
    case VerdictKind::kDeadlock:
      return "deadlock";
    case VerdictKind::kMismatch:
      return "mismatch";
    case VerdictKind::kRankNotJoined:
      return "rank_not_joined";
    case VerdictKind::kRankExited:
      return "rank_exited";
    case VerdictKind::kRankStopped:
      return "rank_stopped";
    case VerdictKind::kRankAborted:
      return "rank_aborted";
    case VerdictKind::kStuckKernel:
      return "stuck_kernel";
    case VerdictKind::kHostBlocked:
      return "host_blocked";
    case VerdictKind::kInitHang:
      return "init_hang";
  }
  return "inconclusive";
}

const char* Name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kPossible:
      return "possible";
    case Confidence::kSuspected:
      return "suspected";
    case Confidence::kConfirmed:
      return "confirmed";
  }
  return "suspected";
}

}  // namespace gordian::model
