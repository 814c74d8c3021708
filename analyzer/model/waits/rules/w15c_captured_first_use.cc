// W15c: A captured operation connects in its call, and meets whatever the others use first.
//
// The call connects before it captures anything. Which operation it will be is not known before a
// graph is launched, so it meets whatever the others use the communicator for first, called or
// captured.
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

// All members have come to use the communicator's collectives.
uint32_t AllBegun(const WaitView& view, int comm, WaitNodes* nodes) {
  constexpr uint64_t kNoSequence = UINT64_MAX;
  uint32_t node;
  if (!nodes->Shared(NodeKind::kAllCalled, false, static_cast<uint64_t>(comm), kNoSequence,
                     &node)) {
    return node;
  }
  (*nodes)[node].comm = comm;
  const int nranks = view.matcher.comms()[comm].nranks;
  for (int rank = 0; rank < nranks; ++rank) {
    if (view.begun_uses.HasBegun(comm, rank, std::nullopt)) continue;
    nodes->Wait(node, NotCalled(view, {.comm = comm, .rank = rank}, nodes), Reason::kFirstUse);
  }
  return node;
}

}  // namespace

void CapturedFirstUse(const WaitView& view, const Process& process, const OpenCall& open,
                      const Thread& thread, uint32_t node, WaitNodes* nodes) {
  if (view.Inside(open) < view.options.first_use_counts_after_ns) return;
  // What it has used before may be among what was lost.
  if (process.unknown.first_uses) return;
  std::set<int> collectives;
  std::set<std::tuple<int, int, bool>> pairs;
  for (size_t i = 0; i < thread.capturing.size(); ++i) {
    const Capturing& captured = thread.capturing[i];
    const PartRef& ref = captured.part.ref;
    auto local = process.comms.find(captured.comm);
    if (local == process.comms.end() || ref.comm < 0 || captured.part.elsewhere || !captured.waits)
      continue;
    const Communicator& comm = view.matcher.comms()[ref.comm];
    // What the preemptive runtime has had connects nothing of NCCL's; whether this goes there, too,
    // is not known before its end. A member that has aborted waits for no other.
    if (comm.opaque || local->second.elsewhere || ref.rank >= comm.nranks ||
        comm.members[ref.rank].aborted) {
      continue;
    }
    const FirstUses uses = FirstUsesOf(RoleOf(captured.part), comm.nranks);
    const auto wait_for = [&](uint32_t on) {
      nodes->WaitAsPart(node, on, Reason::kFirstUse, static_cast<int>(i), /*launch=*/0);
    };
    if (uses.collectives && process.info.runtime_connect && !local->second.collective_used &&
        collectives.insert(ref.comm).second) {
      wait_for(AllBegun(view, ref.comm, nodes));
    }
    for (const auto& [peer, sends] : uses.peers) {
      if (peer < 0 || peer >= comm.nranks || peer == ref.rank) continue;
      if (local->second.peers_used.count({peer, sends}) > 0) continue;
      if (!pairs.insert({ref.comm, peer, sends}).second) continue;
      if (view.begun_uses.HasBegun(ref.comm, peer, std::pair(ref.rank, !sends))) continue;
      wait_for(NotCalled(view, {.comm = ref.comm, .rank = peer}, nodes));
    }
  }
}

}  // namespace gordian::model::rules
