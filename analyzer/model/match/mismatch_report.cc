// Findings about members of an operation that disagree (wait-model.md §5).
#include <algorithm>
#include <map>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/hangs.h"

namespace gordian::model {
namespace {

std::string Number(uint64_t n) { return std::to_string(n); }

const char* TypeName(uint8_t datatype) {
  static const char* const kNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                       "int64",   "uint64",   "float16",    "float32",
                                       "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return datatype < std::size(kNames) ? kNames[datatype] : "another type";
}

const char* OperatorName(uint8_t op) {
  static const char* const kNames[] = {"sum", "prod", "max", "min", "avg"};
  return op < std::size(kNames) ? kNames[op] : "its own operator";
}

// What a member passed, as far as the members disagree on it.
std::string Passed(const OpSignature& signature, uint32_t bits, bool several = false) {
  if ((bits & kKindDiffers) != 0)
    return std::string(several ? "call " : "calls ") + Name(signature.call);
  std::string text;
  auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if ((bits & kCountDiffers) != 0) add("count " + Number(signature.count));
  if ((bits & kTypeDiffers) != 0) add(std::string("type ") + TypeName(signature.datatype));
  if ((bits & kOperatorDiffers) != 0) {
    add(std::string("operator ") + OperatorName(signature.reduce_op));
  }
  if ((bits & kRootDiffers) != 0) add("root " + std::to_string(signature.root));
  return (several ? "pass " : "passes ") + text;
}

const char* CheckOf(const Mismatch& mismatch) {
  if (mismatch.kind != PartKind::kCollective) return "mismatch-transfer";
  if ((mismatch.bits & kKindDiffers) != 0) return "mismatch-kind";
  if ((mismatch.bits & kCountDiffers) != 0) return "mismatch-count";
  if ((mismatch.bits & kTypeDiffers) != 0) return "mismatch-type";
  if ((mismatch.bits & kRootDiffers) != 0) return "mismatch-root";
  return "mismatch-operator";
}

}  // namespace

// Members may still arrive and change who is the minority: while `settled` is false, only what all
// of them, or a majority that cannot change any more, have called is reported.
std::vector<Finding> MismatchFindings(const Matcher& matcher, const Names& names, uint64_t now_ns,
                                      bool settled, FirstReported* reported) {
  constexpr uint64_t kSettleNs = 300'000'000;
  std::vector<Finding> findings;
  for (const Mismatch& mismatch : matcher.mismatches()) {
    if (matcher.comms()[mismatch.comm].unsure) continue;
    const bool transfer = mismatch.kind != PartKind::kCollective;
    const std::vector<std::vector<const MismatchMember*>> camps = Camps(mismatch);
    const bool all = static_cast<int>(mismatch.members.size()) >= mismatch.expected_members;
    const bool majority = 2 * static_cast<int>(camps.front().size()) > mismatch.expected_members;
    if (!all && !majority && !settled && now_ns < mismatch.found_ns + kSettleNs) continue;
    const bool tie = camps.size() < 2 || camps[0].size() == camps[1].size();

    Finding finding = MakeFinding(CheckOf(mismatch), Confidence::kConfirmed);
    StuckOperation operation;
    const Communicator& comm = matcher.comms()[mismatch.comm];
    operation.op = Name(camps.front().front()->signature.call);
    operation.comm = comm.uid;
    operation.comm_name = names.CommName(mismatch.comm);
    operation.sequence = static_cast<int64_t>(mismatch.sequence);
    operation.bytes = Bytes(camps.front().front()->signature);
    std::string text;
    for (size_t c = 0; c < camps.size(); ++c) {
      std::vector<int> ranks;
      for (const MismatchMember* member : camps[c]) {
        ranks.push_back(names.MemberRank(mismatch.comm, member->rank));
        OperationMember shown;
        shown.rank = ranks.back();
        shown.state = mismatch.completed ? PartState::kDone : PartState::kCalled;
        shown.instead = Passed(member->signature, mismatch.bits);
        shown.site = {member->process, member->site};
        operation.members.push_back(std::move(shown));
      }
      std::sort(ranks.begin(), ranks.end());
      const bool guilty = tie || c > 0;
      auto& side = guilty ? finding.culprit_ranks : finding.victim_ranks;
      side.insert(side.end(), ranks.begin(), ranks.end());
      if (c < 4) {
        text += (c == 0 ? "" : ", ") + RankList(ranks, c == 0) + " " +
                Passed(camps[c].front()->signature, mismatch.bits, ranks.size() > 1);
      }
    }
    std::sort(finding.culprit_ranks.begin(), finding.culprit_ranks.end());
    finding.summary = text + " as " + (transfer ? "transfer #" : "operation #") +
                      Number(mismatch.sequence) + " on " + names.Comm(mismatch.comm) + ".";
    if (mismatch.further > 0) {
      finding.summary += " " + Number(mismatch.further) + " more on it after that.";
    }
    if (mismatch.completed) finding.summary += " All have completed it.";
    finding.operations.push_back(std::move(operation));
    finding.stalled_at_ns = mismatch.found_ns;
    const uint64_t told_ns =
        reported->try_emplace({mismatch.comm, mismatch.kind, mismatch.sequence}, now_ns)
            .first->second;
    if (told_ns > mismatch.found_ns) {
      finding.detected_after_s = static_cast<double>(told_ns - mismatch.found_ns) * 1e-9;
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace gordian::model
