#include "analyzer/model/verdict/transfer_signs.h"

#include <algorithm>
#include <map>
#include <string>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {
namespace {

constexpr size_t kMostSigns = 4;

// One end of a transfer without a call of the other end.
struct Alone {
  int peer = -1;  // the rank at the other end, in the communicator
  uint64_t bytes = 0;
};

}  // namespace

std::vector<Sign> TransferSigns(const Matcher& matcher, const Names& names) {
  std::vector<Sign> signs;
  for (size_t c = 0; c < matcher.comms().size(); ++c) {
    const Communicator& comm = matcher.comms()[c];
    if (comm.unsure || comm.opaque) continue;
    std::map<int, std::vector<Alone>> sent, wanted;  // by the sender
    for (const auto& [pair, channel] : comm.transfers) {
      const auto& [source, destination] = pair;
      for (const auto& [sequence, transfer] : channel) {
        const bool send = transfer.send.Called(), receive = transfer.receive.Called();
        if (send == receive) continue;
        if (send) sent[source].push_back({destination, Bytes(transfer.send.signature)});
        if (receive && transfer.receive.state != SlotState::kDone) {
          wanted[source].push_back({destination, Bytes(transfer.receive.signature)});
        }
        break;  // later ones on the channel follow from it
      }
    }
    const int index = static_cast<int>(c);
    for (const auto& [source, sends] : sent) {
      const auto waiting = wanted.find(source);
      if (waiting == wanted.end()) continue;
      for (const Alone& send : sends) {
        const auto match = std::find_if(
            waiting->second.begin(), waiting->second.end(),
            [&](const Alone& want) { return want.peer != send.peer && want.bytes == send.bytes; });
        if (match == waiting->second.end() || signs.size() >= kMostSigns) continue;
        const int from = names.MemberRank(index, source), to = names.MemberRank(index, send.peer);
        const int wants = names.MemberRank(index, match->peer);
        const auto rank = [](int r) { return "rank " + std::to_string(r); };
        signs.push_back({"wrong-peer",
                         {from, to, wants},
                         rank(from) + " sends " + std::to_string(send.bytes) + " bytes to " +
                             rank(to) + " on " + names.Comm(index) +
                             ", which has not received them; " + rank(wants) +
                             " waits for as many from " + rank(from)});
        std::sort(signs.back().ranks.begin(), signs.back().ranks.end());
      }
    }
  }
  return signs;
}

}  // namespace gordian::model
