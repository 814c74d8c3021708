#include "analyzer/model/match/sibling_calls.h"

#include <algorithm>

namespace gordian::model {
namespace {

// The local number that all members know the communicator by; nothing: they differ, or some member
// was not seen.
std::optional<CommId> CommonId(const Communicator& comm) {
  for (const CommMember& member : comm.members) {
    if (!member.known || member.comm != comm.members.front().comm) return std::nullopt;
  }
  return comm.members.empty() ? std::nullopt : std::optional(comm.members.front().comm);
}

bool AllKnown(const Communicator& comm) {
  return !comm.members.empty() && std::all_of(comm.members.begin(), comm.members.end(),
                                              [](const auto& m) { return m.known; });
}

// Whether both have called collectives before this one, as far as they are kept, and the same ones.
bool CalledAlikeBefore(const Matcher& matcher, int one, int other, uint64_t sequence) {
  bool alike = sequence == 0;
  for (uint64_t back = 1; back <= std::min<uint64_t>(sequence, kFinishedKept); ++back) {
    const OpSignature* const own = matcher.AgreedCall(one, sequence - back);
    const OpSignature* const theirs = matcher.AgreedCall(other, sequence - back);
    if (own == nullptr || theirs == nullptr) continue;
    if (Difference(*own, *theirs) != 0) return false;
    alike = true;
  }
  return alike;
}

// What some member has called as this collective; null: not known.
const OpSignature* AnyCall(const Matcher& matcher, int comm, uint64_t sequence) {
  if (const OpSignature* const agreed = matcher.AgreedCall(comm, sequence)) return agreed;
  const Instance* const instance = matcher.FindInstance(comm, sequence);
  if (instance == nullptr) return nullptr;
  const auto called = std::find_if(instance->members.begin(), instance->members.end(),
                                   [](const MemberSlot& slot) { return slot.accepted; });
  return called == instance->members.end() ? nullptr : &called->signature;
}

}  // namespace

bool CalledAlike(const Matcher& matcher, int one, int other, uint64_t sequence) {
  const OpSignature* const own = AnyCall(matcher, one, sequence);
  const OpSignature* const theirs = AnyCall(matcher, other, sequence);
  if (own != nullptr && theirs != nullptr && Difference(*own, *theirs) != 0) return false;
  return CalledAlikeBefore(matcher, one, other, sequence);
}

std::vector<int> SiblingsOf(const Matcher& matcher, int index) {
  std::vector<int> siblings;
  const std::vector<Communicator>& comms = matcher.comms();
  const Communicator& own = comms[index];
  if (own.nranks < 2 || !AllKnown(own)) return siblings;
  const std::optional<CommId> id = CommonId(own);
  for (size_t c = 0; c < comms.size(); ++c) {
    const Communicator& other = comms[c];
    if (static_cast<int>(c) == index || other.nranks != own.nranks || other.host != own.host)
      continue;
    const bool of_one_split = other.uid == own.uid && other.color != own.color;
    if (!of_one_split && (!id || CommonId(other) != id)) continue;
    if (!AllKnown(other)) continue;
    const bool shares =
        std::any_of(other.members.begin(), other.members.end(), [&](const CommMember& theirs) {
          return std::any_of(own.members.begin(), own.members.end(),
                             [&](const CommMember& m) { return m.process == theirs.process; });
        });
    if (!shares) siblings.push_back(static_cast<int>(c));
  }
  return siblings;
}

std::optional<CampOfSiblings> FindCampOfSiblings(
    const Matcher& matcher, const Mismatch& mismatch,
    const std::vector<std::vector<const MismatchMember*>>& camps) {
  if (mismatch.kind != PartKind::kCollective) return std::nullopt;
  std::optional<CampOfSiblings> found;
  for (const int sibling : SiblingsOf(matcher, mismatch.comm)) {
    const Communicator& comm = matcher.comms()[sibling];
    if (comm.unsure || comm.opaque) continue;
    const OpSignature* const theirs = matcher.AgreedCall(sibling, mismatch.sequence);
    if (theirs == nullptr) continue;
    if (!CalledAlikeBefore(matcher, mismatch.comm, sibling, mismatch.sequence)) continue;
    const auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& each) {
      return Difference(each.front()->signature, *theirs) == 0;
    });
    const size_t place = static_cast<size_t>(camp - camps.begin());
    if (camp == camps.end() || (found && found->camp != place)) return std::nullopt;
    if (!found) found = CampOfSiblings{place, {}, *theirs};
    found->comms.push_back(sibling);
  }
  return found;
}

}  // namespace gordian::model
