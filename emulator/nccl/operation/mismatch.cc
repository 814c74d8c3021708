#include "emulator/nccl/operation/mismatch.h"

#include <algorithm>

#include "emulator/nccl/operation/reduce.h"

namespace gordian::emu::nccl {
namespace {

uint64_t Bytes(const Signature& signature) {
  return signature.count * ElementSize(signature.datatype);
}

bool HasRoot(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather ||
         kind == Kind::kScatter;
}

// True if the two kernels run the operation on the same channels.
bool MeetsIn(const Signature& own, const Signature& other) {
  if (IsPairwise(own.kind) || own.share == other.share) return true;
  const bool small = std::max(Bytes(own), Bytes(other)) < kSmallBelowBytes;
  return small && own.share.place == 0 && other.share.place == 0;
}

// For a member of `own` bytes, where the members' bytes, from `least` to `most`, differ. `two`: it
// waits for the data of one other only.
Fate FateOfUnequal(uint64_t own, uint64_t least, uint64_t most, bool two) {
  const Fate if_least = two && own == least ? Fate::kCompletes : Fate::kHangs;
  if (least < kUnequalMeetFromBytes) return most < kUnequalMeetFromBytes ? if_least : Fate::kHangs;
  return least >= kUnequalEndFromBytes && most <= kUnequalEndUpToBytes ? Fate::kCompletes
                                                                       : if_least;
}

}  // namespace

bool IsPairwise(Kind kind) {
  return kind == Kind::kGather || kind == Kind::kScatter || kind == Kind::kAlltoAll;
}

Fate DecideFate(const Signature& own, std::span<const Signature> others) {
  bool kinds = false, roots = false;
  Kind first_kind = own.kind;
  uint64_t least = Bytes(own), most = Bytes(own);
  for (const Signature& other : others) {
    if (!MeetsIn(own, other)) return Fate::kHangs;
    kinds |= other.kind != own.kind;
    roots |= other.root != own.root;
    first_kind = std::min(first_kind, other.kind);
    least = std::min(least, Bytes(other));
    most = std::max(most, Bytes(other));
  }

  if (kinds) {
    // An all-gather ends beside an all-reduce. Which of two other kinds ends was not measured; the
    // choice must only be stable.
    return most < kSmallBelowBytes || own.kind != first_kind ? Fate::kHangs : Fate::kCompletes;
  }
  if (roots && HasRoot(own.kind)) {
    // A member that takes another for the root, which does not take itself for it, waits for data
    // that no member sends. Members that all take themselves for the root wait for no other and do
    // not get here.
    return Fate::kHangs;
  }
  if (least == most) return Fate::kCompletes;  // another operator, or a type of the same size
  if (IsPairwise(own.kind)) return Bytes(own) == least ? Fate::kCompletes : Fate::kHangs;
  return FateOfUnequal(Bytes(own), least, most, others.size() == 1);
}

}  // namespace gordian::emu::nccl
