#include "analyzer/model/collective.h"

namespace gordian::model {
namespace {

// What the shim records for an operator that the job made: ncclRedOpCreatePreMulSum numbers it
// anew at every rank.
constexpr uint8_t kUserOperator = 254;

}  // namespace

std::vector<std::pair<int, bool>> PeersOf(const Role& role, int nranks) {
  std::vector<std::pair<int, bool>> peers;
  if (IsTransfer(role.call)) {
    if (role.root_or_peer != role.member)
      peers.emplace_back(role.root_or_peer, role.call == Call::kSend);
    return peers;
  }
  if (!IsPairwise(role.call)) return peers;
  for (int peer = 0; peer < nranks; ++peer) {
    if (peer == role.member) continue;
    Role theirs = role;
    theirs.member = peer;
    if (NeedsStartOf(theirs, role.member)) peers.emplace_back(peer, true);
    if (NeedsStartOf(role, peer)) peers.emplace_back(peer, false);
  }
  return peers;
}

FirstUses FirstUsesOf(const Role& role, int nranks) {
  return {UsesChannelsOfAll(role), PeersOf(role, nranks)};
}

uint32_t Difference(const OpSignature& a, const OpSignature& b) {
  if (a.call != b.call) return kKindDiffers;
  uint32_t bits = 0;
  if (a.count != b.count) bits |= kCountDiffers;
  if (a.datatype != b.datatype) bits |= kTypeDiffers;
  if (Reduces(a.call) && a.reduce_op != b.reduce_op && a.reduce_op < kUserOperator &&
      b.reduce_op < kUserOperator) {
    bits |= kOperatorDiffers;
  }
  if (HasRoot(a.call) && a.root != b.root) bits |= kRootDiffers;
  return bits;
}

// NCCL moves bytes: the same bytes under another type arrive intact.
uint32_t TransferDifference(const OpSignature& send, const OpSignature& receive) {
  const uint64_t a = DatatypeBytes(send.datatype), b = DatatypeBytes(receive.datatype);
  if (a == 0 || b == 0 || send.count * a == receive.count * b) return 0;
  return (send.count != receive.count ? kCountDiffers : 0u) |
         (send.datatype != receive.datatype ? kTypeDiffers : 0u);
}

}  // namespace gordian::model
