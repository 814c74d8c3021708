// Findings about members of an operation that disagree (wait-model.md §5).
#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/model/match/sibling_calls.h"
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

// Whether the member's part is done, while that of others is not.
bool IsDone(const Matcher& matcher, const Mismatch& mismatch, int rank) {
  if (mismatch.completed) return true;
  if (mismatch.kind == PartKind::kCollective) {
    const Instance* const instance = matcher.FindInstance(mismatch.comm, mismatch.sequence);
    return instance != nullptr && instance->members[rank].state == SlotState::kDone;
  }
  return false;
}

// "Rank 0 has completed it, ranks 1 and 2 wait in it."
std::string WhoIsThrough(const std::vector<int>& through, const std::vector<int>& inside) {
  return RankList(through, true) + (through.size() == 1 ? " has" : " have") + " completed it, " +
         RankList(inside) + (inside.size() == 1 ? " waits" : " wait") + " in it.";
}

// Members may still arrive and change who is the minority: while `settled` is false, only what all
// of them, or a majority that cannot change any more, have called is reported.
std::vector<Finding> MismatchFindings(const Matcher& matcher, const Names& names,
                                      const HeldOperations& held, uint64_t now_ns, bool settled,
                                      FirstReported* reported) {
  constexpr uint64_t kSettleNs = 300'000'000;
  constexpr uint64_t kHoldsNs = 1'000'000'000;  // until those inside are said to wait
  std::vector<Finding> findings;
  for (const Mismatch& mismatch : matcher.mismatches()) {
    if (matcher.comms()[mismatch.comm].unsure || names.OfEarlierStart(mismatch.comm)) continue;
    const bool transfer = mismatch.kind != PartKind::kCollective;
    std::vector<std::vector<const MismatchMember*>> camps = Camps(mismatch);
    const bool all = static_cast<int>(mismatch.members.size()) >= mismatch.expected_members;
    const bool majority = 2 * static_cast<int>(camps.front().size()) > mismatch.expected_members;
    if (!all && !majority && !settled && now_ns < mismatch.found_ns + kSettleNs) continue;
    bool tie = camps.size() < 2 || camps[0].size() == camps[1].size();
    std::optional<CampOfSiblings> right;
    if (tie && camps.size() > 1) right = FindCampOfSiblings(matcher, mismatch, camps);
    if (right) {
      tie = false;
      std::rotate(camps.begin(), camps.begin() + right->camp, camps.begin() + right->camp + 1);
    }

    Finding finding = MakeFinding(CheckOf(mismatch), Confidence::kConfirmed);
    StuckOperation operation;
    const Communicator& comm = matcher.comms()[mismatch.comm];
    operation.op = Name(camps.front().front()->signature.call);
    operation.comm = comm.uid;
    operation.comm_name = names.CommName(mismatch.comm);
    operation.sequence = static_cast<int64_t>(mismatch.sequence);
    operation.bytes = Bytes(camps.front().front()->signature);
    std::string text;
    std::vector<int> through, inside;
    for (size_t c = 0; c < camps.size(); ++c) {
      std::vector<int> ranks;
      for (const MismatchMember* member : camps[c]) {
        ranks.push_back(names.MemberRank(mismatch.comm, member->rank));
        OperationMember shown;
        shown.rank = ranks.back();
        const bool done = IsDone(matcher, mismatch, member->rank);
        shown.state = done ? PartState::kDone : PartState::kCalled;
        (done ? through : inside).push_back(shown.rank);
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
    if (right) {
      const int n = static_cast<int>(right->comms.size());
      finding.summary +=
          " " + RankList(finding.culprit_ranks, true) +
          (finding.culprit_ranks.size() == 1 ? " departs" : " depart") +
          ": as their own operation #" + Number(mismatch.sequence) + " the ranks of " +
          names.Comm(right->comms.front()) +
          (n > 1 ? ", and of " + std::to_string(n - 1) + " more such communicators," : "") + " " +
          Passed(right->signature, mismatch.bits, true) + ".";
    }
    if (mismatch.further > 0) {
      finding.summary += " " + Number(mismatch.further) + " more on it after that.";
    }
    const auto later = mismatch.completed ? held.find(mismatch.comm) : held.end();
    if (later != held.end()) {
      finding.summary += " All have completed it, and " + later->second.op + " #" +
                         Number(static_cast<uint64_t>(later->second.sequence)) +
                         ", which all have issued since, does not end.";
    } else if (mismatch.completed) {
      finding.summary += " All have completed it.";
    } else if (!through.empty() && now_ns >= mismatch.found_ns + kHoldsNs) {
      std::sort(through.begin(), through.end());
      std::sort(inside.begin(), inside.end());
      finding.summary += " " + WhoIsThrough(through, inside);
    }
    finding.operations.push_back(std::move(operation));
    if (later != held.end()) finding.operations.push_back(later->second);
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
