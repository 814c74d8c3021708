#include "analyzer/model/match/wrong_peer.h"

namespace gordian::model {

WrongPeer MeantAnotherPeer(const Matcher& matcher, const PartRef& part) {
  if (part.kind == PartKind::kCollective || part.comm < 0) return WrongPeer::kNo;
  const Communicator& comm = matcher.comms()[part.comm];
  if (comm.unsure || comm.opaque) return WrongPeer::kNo;
  const Transfer* transfer = matcher.FindTransfer(part);
  if (transfer == nullptr) return WrongPeer::kNo;
  const bool sends = part.kind == PartKind::kSend;
  const MemberSlot& own = sends ? transfer->send : transfer->receive;
  if (!own.Called() || (sends ? transfer->receive : transfer->send).Called()) return WrongPeer::kNo;
  WrongPeer found = WrongPeer::kNo;
  for (const auto& [pair, channel] : comm.transfers) {
    const auto& [source, destination] = pair;
    if ((sends ? source : destination) != part.rank || (sends ? destination : source) == part.peer)
      continue;
    for (const auto& [sequence, other] : channel) {
      const bool sent = other.send.Called(), received = other.receive.Called();
      if (sent == received) continue;
      const MemberSlot& end = sends ? other.receive : other.send;
      if (end.Called() && Bytes(end.signature) == Bytes(own.signature)) {
        if (part.sequence == 0 && sequence > 0) return WrongPeer::kLikely;
        found = WrongPeer::kPossible;
      }
      break;  // what follows on the channel follows from it
    }
  }
  return found;
}

}  // namespace gordian::model
