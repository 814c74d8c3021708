#include "analyzer/model/verdict/call_history.h"

namespace gordian::model {

std::optional<uint32_t> OrderOf(const PartNumbers& numbers, uint64_t n) {
  if (n >= numbers.next || numbers.next - n > numbers.latest.size()) return std::nullopt;
  return numbers.latest[numbers.next - n - 1];
}

std::optional<uint64_t> CountBefore(const PartNumbers& numbers, uint32_t order) {
  for (uint64_t count = numbers.next; count > 0; --count) {
    const std::optional<uint32_t> call = OrderOf(numbers, count - 1);
    if (!call) return std::nullopt;
    if (static_cast<int32_t>(*call - order) < 0) return count;
  }
  return 0;
}

std::pair<int, int> EndsOf(const PartRef& part) {
  if (part.kind == PartKind::kCollective) return {-1, -1};
  return part.kind == PartKind::kSend ? std::pair(part.rank, part.peer)
                                      : std::pair(part.peer, part.rank);
}

PartRef EndOf(const PartRef& part, int rank) {
  PartRef end = part;
  end.rank = rank;
  if (part.kind == PartKind::kCollective) return end;
  end.kind = part.kind == PartKind::kSend ? PartKind::kReceive : PartKind::kSend;
  end.peer = part.rank;
  return end;
}

const Process* CallHistory::Complete(const CommMember& member) const {
  const Process* process = member.known ? graph_.execution().Find(member.process) : nullptr;
  return process == nullptr || process->Lossy() ? nullptr : process;
}

const PartNumbers* CallHistory::NumbersOf(const PartRef& end) const {
  const Communicator& comm = graph_.matcher().comms()[end.comm];
  const CommMember& member = comm.members[end.rank];
  const Process* process = Complete(member);
  if (comm.unsure || comm.opaque || process == nullptr) return nullptr;
  const auto local = process->comms.find(member.comm);
  if (local == process->comms.end()) return nullptr;
  if (end.kind == PartKind::kCollective) return &local->second.collectives;
  const auto numbers = local->second.transfers.find({end.peer, end.kind == PartKind::kSend});
  return numbers == local->second.transfers.end() ? nullptr : &numbers->second;
}

}  // namespace gordian::model
