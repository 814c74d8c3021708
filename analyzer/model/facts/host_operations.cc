// Operations that torch.distributed carries out on the host (W20): their calls return at once, and
// waits name them by group and number.
#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

LaunchId ExecutionGraph::HostLaunch(const Process& process, const ring::HostWaitPayload& wait) {
  const PartKind kind = wait.part == 1   ? PartKind::kSend
                        : wait.part == 2 ? PartKind::kReceive
                                         : PartKind::kCollective;
  const int peer = kind == PartKind::kCollective ? -1 : static_cast<int>(wait.event);
  const auto found = process.host_launches.find({wait.stream, kind, peer, wait.ordinal});
  return found == process.host_launches.end() ? 0 : found->second;
}

void ExecutionGraph::ApplyHostOperation(Process& process, const CallRecord& record) {
  const auto& operation = record.As<ring::OperationPayload>();
  const auto local = process.comms.find(operation.comm);
  if ((record.flags & kHost) == 0 || local == process.comms.end()) return;
  Part part;
  part.signature = {record.call, operation.datatype, operation.reduce_op,
                    HasRoot(record.call) ? operation.root_or_peer : -1, operation.count};
  part.with_all = operation.group == ring::kWithAll;
  part.site = record.call_site;
  part.order = record.order;
  part.time_ns = record.time_ns;
  part.ref = {PartKindOf(record.call), local->second.index, local->second.rank, -1,
              operation.sequence};
  if (part.ref.kind != PartKind::kCollective) part.ref.peer = operation.root_or_peer;
  if (part.ref.kind == PartKind::kReceive && part.ref.peer < 0 && part.ref.comm >= 0) {
    matcher_.comms()[part.ref.comm].any_source = true;
  }
  if (!HaveRoom(process, operation.comm)) return;
  LaunchId& known =
      process.host_launches[{operation.comm, part.ref.kind, part.ref.peer, operation.sequence}];
  if (known != 0) return;  // a record that came twice
  Launch& launch = launches_.Add();
  known = launch.id;
  launch.process = process.info.process;
  launch.thread = record.thread;
  launch.comm = operation.comm;
  launch.comm_index = part.ref.comm;
  launch.host = launch.enqueued = true;
  launch.time_ns = record.time_ns;
  if (part.ref.rank < 0) part.ref.comm = -1;
  const bool whole = part.ref.kind == PartKind::kCollective || part.ref.peer >= 0;
  if (whole) {
    Post(part, launch.id, /*place=*/0);
    matcher_.Accept(part.ref, record.time_ns);
  }
  launch.parts.push_back(std::move(part));
}

void ExecutionGraph::NameComm(ProcessId id, CommId comm, const std::string& name) {
  Process* const process = Find(id);
  if (process == nullptr) return;
  constexpr size_t kMost = 1 << 14;
  if (process->comm_names.size() < kMost) process->comm_names[comm] = name;
  const auto local = process->comms.find(comm);
  if (local == process->comms.end()) return;
  local->second.name = name;
  if (local->second.index >= 0) matcher_.comms()[local->second.index].name = name;
}

void ExecutionGraph::NameKey(uint64_t key, const std::string& name) {
  constexpr size_t kMost = 1 << 14;
  if (key_names_.size() < kMost) key_names_[key] = name;
}

const std::string& ExecutionGraph::KeyName(uint64_t key) const {
  static const std::string kNone;
  const auto found = key_names_.find(key);
  return found == key_names_.end() ? kNone : found->second;
}

void ExecutionGraph::NoteKeySet(uint64_t key) {
  constexpr size_t kMost = 1 << 18;
  keys_forgotten_ |= keys_set_.size() >= kMost;
  if (!keys_forgotten_) keys_set_.insert(key);
}

void ExecutionGraph::NoteException(ProcessId id, const std::string& text, uint64_t time_ns) {
  Process* const process = Find(id);
  if (process == nullptr) return;
  process->exception = text;
  process->exception_ns = time_ns;
}

}  // namespace gordian::model
