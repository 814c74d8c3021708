#include "analyzer/model/waits/begun_uses.h"

#include <algorithm>

namespace gordian::model {

const BegunUses::Begun& BegunUses::By(const Process& process) const {
  auto [it, added] = begun_.try_emplace(process.info.process);
  Begun& begun = it->second;
  if (!added) return begun;
  const auto add = [&](CommId comm, const Part& part) {
    if (part.ref.comm < 0 || part.elsewhere) return;
    const FirstUses uses = FirstUsesOf(RoleOf(part), matcher_.comms()[part.ref.comm].nranks);
    if (uses.collectives) {
      uint64_t& order = begun.collectives.try_emplace(comm, part.order).first->second;
      order = std::min(order, part.order);
    }
    for (const auto& [peer, sends] : uses.peers) begun.peers.insert({comm, peer, sends});
  };
  const auto add_launch = [&](LaunchId id) {
    const Launch* launch = execution_.FindLaunch(id);
    if (launch == nullptr) return;
    for (const Part& part : launch->parts) add(launch->comm, part);
  };
  for (const auto& [id, thread] : process.threads) {
    if (!thread.open) continue;
    for (const Capturing& captured : thread.capturing) {
      // A group's operations connect at its end.
      if (captured.in_group == thread.in_group_end) add(captured.comm, captured.part);
    }
    add_launch(thread.open->launch);
    if (!thread.in_group_end) continue;
    for (const LaunchId launch : thread.group_launches) add_launch(launch);
  }
  return begun;
}

bool BegunUses::HasBegun(int comm, int rank,
                         const std::optional<std::pair<int, bool>>& peer) const {
  const CommMember& member = matcher_.comms()[comm].members[rank];
  const Process* process = execution_.Find(member.process);
  if (process == nullptr || process->Dead() || member.aborted) return false;
  auto local = process->comms.find(member.comm);
  if (local == process->comms.end()) return false;
  if (local->second.elsewhere) return true;  // what it has used of NCCL's is not known
  if (peer ? local->second.peers_used.count(*peer) > 0 : local->second.collective_used) return true;
  const Begun& begun = By(*process);
  return peer ? begun.peers.count({member.comm, peer->first, peer->second}) > 0
              : begun.collectives.count(member.comm) > 0;
}

std::optional<uint64_t> BegunUses::Order(int comm, int rank) const {
  const CommMember& member = matcher_.comms()[comm].members[rank];
  const Process* process = execution_.Find(member.process);
  if (process == nullptr || process->Dead() || member.aborted) return std::nullopt;
  const Begun& begun = By(*process);
  const auto found = begun.collectives.find(member.comm);
  if (found == begun.collectives.end()) return std::nullopt;
  return found->second;
}

}  // namespace gordian::model
