#include "analyzer/model/verdict/divergence_signs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {
namespace {

constexpr size_t kMostSigns = 4;

using Calls = std::vector<OpSignature>;

// A member's calls from the mismatch on.
Calls CallsOf(const Mismatch& mismatch, int rank) {
  Calls calls;
  for (auto it = mismatch.calls.find({rank, mismatch.sequence});
       it != mismatch.calls.end() && it->first == std::pair(rank, mismatch.sequence + calls.size());
       ++it) {
    calls.push_back(it->second);
  }
  return calls;
}

// How many calls agree from there on; 0 if one does not.
size_t Agreeing(const Calls& a, size_t from_a, const Calls& b, size_t from_b) {
  if (from_a >= a.size() || from_b >= b.size()) return 0;
  const size_t n = std::min(a.size() - from_a, b.size() - from_b);
  for (size_t i = 0; i < n; ++i) {
    if (Difference(a[from_a + i], b[from_b + i]) != 0) return 0;
  }
  return n;
}

// Describes the best single change; empty if there is none. `they`: the ranks compared with.
std::string Change(const Calls& own, const Calls& usual, uint64_t sequence, const std::string& on,
                   const std::string& they, bool one) {
  const size_t extra = Agreeing(own, 1, usual, 0), missing = Agreeing(own, 0, usual, 1);
  const bool crossed = own.size() > 1 && usual.size() > 1 && Difference(own[0], usual[1]) == 0 &&
                       Difference(own[1], usual[0]) == 0;
  const bool go_on = own.size() == 2 || usual.size() == 2 || Agreeing(own, 2, usual, 2) > 0;
  const size_t swapped = crossed && go_on ? std::min(own.size(), usual.size()) : 0;
  const size_t changed = Agreeing(own, 1, usual, 1);
  const size_t most = std::max({extra, missing, swapped, changed});
  // One agreeing call is no evidence: the rank may have swapped two and not called the second yet.
  if (most < 2 || (extra == most) + (missing == most) + (swapped == most) + (changed == most) != 1)
    return "";
  const std::string first = Name(own[0].call), second = Name(usual[0].call);
  const std::string number = " #" + std::to_string(sequence),
                    next = " #" + std::to_string(sequence + 1);
  const std::string call = they + (one ? " calls" : " call"),
                    compared = " (" + std::to_string(most) + " compared)";
  if (extra == most) {
    return " calls " + first + number + on + " in addition: its calls after it are what " + call +
           " from" + number + " on" + compared;
  }
  if (missing == most) {
    return " leaves out " + second + number + on + ", which " + call +
           ": its calls are those from" + next + " on" + compared;
  }
  if (swapped == most) {
    return " calls " + first + " and " + second + on + " as" + number + " and" + next + ", " +
           they + " the other way round" + compared;
  }
  return "";  // other arguments: the mismatch says which
}

}  // namespace

std::vector<Sign> DivergenceSigns(const Matcher& matcher, const Names& names) {
  std::vector<Sign> signs;
  for (const Mismatch& mismatch : matcher.mismatches()) {
    if (mismatch.kind != PartKind::kCollective || matcher.comms()[mismatch.comm].unsure) continue;
    const std::vector<std::vector<const MismatchMember*>> camps = Camps(mismatch);
    if (camps.size() < 2) continue;
    const bool tie = camps[0].size() == camps[1].size();
    const int reference = camps[0].front()->rank;
    const Calls usual = CallsOf(mismatch, reference);
    const auto rank = [&](int r) {
      return "rank " + std::to_string(names.MemberRank(mismatch.comm, r));
    };
    for (size_t c = 1; c < camps.size(); ++c) {
      for (const MismatchMember* const odd : camps[c]) {
        if (signs.size() >= kMostSigns) return signs;
        const int member = odd->rank;
        const Calls own = CallsOf(mismatch, member);
        const std::string change =
            Change(own, usual, mismatch.sequence, " on " + names.Comm(mismatch.comm),
                   tie ? rank(reference) : "the others", tie);
        if (change.empty()) continue;
        signs.push_back(
            {"divergent-calls", {names.MemberRank(mismatch.comm, member)}, rank(member) + change});
        if (tie) {
          signs.back().ranks.push_back(names.MemberRank(mismatch.comm, reference));
          std::sort(signs.back().ranks.begin(), signs.back().ranks.end());
        }
      }
    }
  }
  return signs;
}

}  // namespace gordian::model
