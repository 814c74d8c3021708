// W5: A call that a rank has not made waits for any thread of that rank that could make it.
#include <algorithm>

#include "analyzer/model/waits/account.h"
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

uint32_t NotCalled(const WaitView& view, const MissingCall& call, WaitNodes* nodes) {
  const Communicator& comm = view.matcher.comms()[call.comm];
  if (call.rank < 0 || call.rank >= comm.nranks || !comm.members[call.rank].known) {
    return nodes->Leaf(LeafKind::kUnknown, 0, call.comm);
  }
  const CommMember& member = comm.members[call.rank];
  if (const uint32_t left = LeftCommunicator(member, call.comm, nodes); left != kNoNode) {
    return left;
  }
  const Process* process = view.execution.Find(member.process);
  if (process == nullptr) return nodes->Leaf(LeafKind::kUnknown, 0, call.comm);
  const Account account =
      call.part != nullptr ? AccountOf(*process, member, *call.part) : Account::kSilent;
  // It did call, and the record of that is missing.
  if (account == Account::kCalled && (process->unknown.calls || !process->Dead())) {
    return nodes->Leaf(LeafKind::kUnknown, member.process);
  }
  if (process->Dead()) return nodes->Leaf(LeafKind::kDead, member.process);
  if (call.part != nullptr && call.part->kind != PartKind::kCollective &&
      comm.members[call.part->peer].forgotten) {
    return nodes->Leaf(LeafKind::kUnknown, member.process);
  }
  const bool proven =
      call.proven || account == Account::kNotCalled ||
      (call.init != nullptr && SaysNotIn(*process, view.matcher, *call.init, member.comm));
  return ProcessNotCalled(view, member.process, proven, nodes);
}

namespace {

bool CallsNccl(const Process& process, ThreadId thread) {
  const auto found = process.threads.find(thread);
  return found != process.threads.end() && found->second.calls_nccl;
}

}  // namespace

uint32_t ProcessNotCalled(const WaitView& view, ProcessId id, bool proven, WaitNodes* nodes) {
  const Process* process = view.execution.Find(id);
  if (process == nullptr) return nodes->Leaf(LeafKind::kUnknown, id);
  if (process->Dead()) return nodes->Leaf(LeafKind::kDead, id);
  if (!process->has_state || (process->unknown.calls && !proven) || process->merger.incomplete()) {
    return nodes->Leaf(LeafKind::kUnknown, id);
  }
  uint32_t node;
  if (!nodes->Shared(NodeKind::kNotCalled, /*any=*/true, id, 0, &node)) return node;
  (*nodes)[node].process = id;
  bool sleepers = false;  // that a host function may wake
  size_t workers = 0;     // that carry out operations
  // Conjecture::kBystanders: where a thread calls NCCL, the others that call CUDA alone do not. A
  // lost record may be of such a call.
  const bool leave_out =
      view.conjecture == Conjecture::kBystanders && !process->Lossy() &&
      std::any_of(process->state.threads.begin(), process->state.threads.end(),
                  [&](const ThreadState& state) { return CallsNccl(*process, state.thread); });
  for (const ThreadState& state : process->state.threads) {
    if (state.library_thread) continue;
    sleepers |= OnlyAThreadWakes(*process, state);
    workers += CarriesOut(state);
    if (!state.gpu_thread && state.call_id == 0) continue;
    if (leave_out && !CallsNccl(*process, state.thread)) continue;
    const uint32_t thread = nodes->ThreadOf(id, state.thread);
    if (thread != kNoNode) nodes->Wait(node, thread, Reason::kNotCalled);
  }
  if (sleepers && !(*nodes)[node].out.empty()) HostFunctions(*process, node, nodes);
  if (workers > 0 && !(*nodes)[node].out.empty()) OperationsEnd(*process, workers, node, nodes);
  if (!(*nodes)[node].out.empty()) WatchedEnd(view, *process, node, nodes);
  // No thread there has called anything yet: the one that will is in code of its own.
  if ((*nodes)[node].out.empty()) {
    const LeafKind leaf = process->state.stopped ? LeafKind::kStopped : LeafKind::kRunning;
    nodes->Wait(node, nodes->Leaf(leaf, id), Reason::kNotCalled);
  }
  return node;
}

}  // namespace gordian::model::rules
