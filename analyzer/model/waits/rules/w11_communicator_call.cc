// W11: A thread in a call that all members make waits until all of them have made it.
//
// Calls that make a communicator, and ncclCommWindowRegister: NCCL's contract. With ncclCommGrow
// the members are those of the parent and the new ones.
#include <algorithm>
#include <map>

#include "analyzer/model/waits/account.h"
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

// The members of a communicator that is not made of another one are known as they call. Until then
// any process may be one, or, where the environment ranks all of them, the process of that rank.
class UnnamedMembers {
 public:
  UnnamedMembers(const WaitView& view, const InitCall& init, WaitNodes* nodes)
      : view_(view), init_(init), nodes_(nodes), expected_(init.members.size()) {
    const int size = static_cast<int>(init.members.size());
    for (const auto& [id, process] : view.execution.processes()) {
      by_environment_ &= process.info.env_rank >= 0 && process.info.env_world_size == size;
      if (process.info.env_world_size > 0) {
        expected_ = std::max<size_t>(expected_, process.info.env_world_size);
      }
    }
    for (size_t r = 0; r < init.members.size(); ++r) {
      const InitMember& member = init.members[r];
      if (!member.called) continue;
      members_[member.process] = static_cast<int>(r);
      by_environment_ &= view.execution.Find(member.process)->info.env_rank == static_cast<int>(r);
    }
  }

  // The member of this rank makes the call; kNoNode: the node given before stands for it, too.
  uint32_t Calls(int rank) {
    if (by_environment_) return OfEnvironment(rank);
    if (have_any_) return kNoNode;
    have_any_ = true;
    return Any();
  }

 private:
  uint32_t ProcessCalls(ProcessId id, const Process& process) {
    return ProcessNotCalled(view_, id, SaysNotIn(process, view_.matcher, init_, 0), nodes_);
  }

  // Several processes may have the rank: a launcher and what it started, a process and the child
  // that goes on in its place. Any of them may call, except those that have ended before others.
  uint32_t OfEnvironment(int rank) {
    std::vector<uint32_t> calls;
    uint32_t ended = kNoNode;
    for (const auto& [id, process] : view_.execution.processes()) {
      if (process.info.env_rank != rank) continue;
      if (view_.matcher.MayHaveCalled(init_, id)) return nodes_->Leaf(LeafKind::kDone, 0);
      const uint32_t node = ProcessCalls(id, process);
      if (process.Dead()) {
        ended = node;
      } else {
        calls.push_back(node);
      }
    }
    if (calls.empty())
      return ended != kNoNode ? ended : nodes_->Leaf(LeafKind::kUnknown, 0, init_.comm);
    if (calls.size() == 1) return calls.front();
    const uint32_t any = nodes_->Add(NodeKind::kAnyProcess, /*any=*/true);
    (*nodes_)[any].init = init_.uid;
    for (const uint32_t node : calls) nodes_->Wait(any, node, Reason::kNotCalled);
    return any;
  }

  uint32_t Any() {
    const auto& processes = view_.execution.processes();
    const uint32_t any = nodes_->Add(NodeKind::kAnyProcess, /*any=*/true);
    (*nodes_)[any].init = init_.uid;
    // A process that may be a member by another name takes one of the places; when all places may
    // be taken so, no process needs to call.
    size_t missing = 0, by_another_name = 0;
    for (const InitMember& one : init_.members) missing += !one.called;
    for (const auto& [id, process] : processes)
      by_another_name += members_.count(id) == 0 && view_.matcher.MayHaveCalled(init_, id);
    if (by_another_name >= missing) {
      nodes_->Wait(any, nodes_->Leaf(LeafKind::kDone, 0), Reason::kNotCalled);
    }
    for (const auto& [id, process] : processes) {
      const bool member_already = members_.count(id) > 0;
      if (!member_already && view_.matcher.MayHaveCalled(init_, id)) continue;
      const uint32_t calls = ProcessCalls(id, process);
      if (member_already) {
        nodes_->WaitDiscouraged(any, calls, Reason::kNotCalled);
      } else {
        nodes_->Wait(any, calls, Reason::kNotCalled);
      }
    }
    if (processes.size() < expected_) {
      nodes_->Wait(any, nodes_->Leaf(LeafKind::kUnknown, 0, init_.comm), Reason::kNotCalled);
    }
    return any;
  }

  const WaitView& view_;
  const InitCall& init_;
  WaitNodes* const nodes_;
  std::map<ProcessId, int> members_;  // that have called
  size_t expected_;                   // processes
  bool by_environment_ = true;        // ranks of the environment are those of the communicator
  bool have_any_ = false;
};

// A member that has called takes no more part in the call if it ended in the middle of it (W14).
void EndedInside(const WaitView& view, const InitCall& init, const InitMember& member,
                 uint32_t node, WaitNodes* nodes) {
  const Process* process = view.execution.Find(member.process);
  if (member.done || init.call == Call::kCommDestroy || process == nullptr || !process->Dead()) {
    return;
  }
  const LeafKind leaf = process->unknown.calls ? LeafKind::kUnknown : LeafKind::kDead;
  nodes->Wait(node, nodes->Leaf(leaf, member.process), Reason::kCommunicatorInit);
  // Through a store, as groups of torch.distributed meet, another process may come in its place.
  if (init.host) (*nodes)[node].conjectural = true;
}

// Another process may come in the place of one that has ended: where groups meet through a store, a
// rank may try again; and what never called NCCL may have been no rank, but had its variables.
bool MayBeReplaced(const WaitView& view, const InitCall& init, const WaitNode& member) {
  if (member.leaf != LeafKind::kDead) return false;
  const Process* const process = view.execution.Find(member.process);
  return init.host || process == nullptr || !process->CalledNccl();
}

uint32_t AllMembersCall(const WaitView& view, const InitCall& init, WaitNodes* nodes) {
  uint32_t node;
  if (!nodes->Shared(NodeKind::kInit, false, init.uid, 0, &node)) return node;
  (*nodes)[node].init = init.uid;
  (*nodes)[node].conjectural = init.call == Call::kCommDestroy;
  if (!init.members_known) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kUnknown, 0, init.parent), Reason::kCommunicatorInit);
    return node;
  }
  // Its callers contradict each other: the mismatch is reported, and what they wait for is no rank.
  if (Contradiction(init) != 0) return node;
  // The root of such an id is mostly gone, and NCCL gives up after a minute.
  if (init.made_before) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kUnknown, 0, init.comm), Reason::kCommunicatorInit);
    return node;
  }
  UnnamedMembers unnamed(view, init, nodes);
  for (size_t r = 0; r < init.members.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (init.members[r].called) {
      EndedInside(view, init, init.members[r], node, nodes);
    } else if (init.parent >= 0) {
      const CommMember& member = view.matcher.comms()[init.parent].members[r];
      const Process* process = member.known ? view.execution.Find(member.process) : nullptr;
      // Destroying waits neither for members that have aborted or finalized nor for processes that
      // are gone.
      if (init.call == Call::kCommDestroy &&
          (member.aborted || member.finalized || (process != nullptr && process->Dead()))) {
        continue;
      }
      nodes->Wait(
          node, NotCalled(view, {.comm = init.parent, .rank = rank, .init = &init}, nodes),
          MakesCommunicator(init.call) ? Reason::kCommunicatorInit : Reason::kCommunicatorCall);
    } else if (const uint32_t calls = unnamed.Calls(rank); calls != kNoNode) {
      if (MayBeReplaced(view, init, (*nodes)[calls])) (*nodes)[node].conjectural = true;
      nodes->Wait(node, calls, Reason::kCommunicatorInit);
    }
  }
  return node;
}

}  // namespace

void CommunicatorCall(const WaitView& view, CommUid call, Reason reason, uint32_t thread,
                      WaitNodes* nodes) {
  const InitCall* init = view.matcher.FindInit(call);
  if (init != nullptr) nodes->Wait(thread, AllMembersCall(view, *init, nodes), reason);
}

void MeetMembers(const WaitView& view, const OpenCall& open, uint32_t thread, WaitNodes* nodes) {
  const InitCall* init = open.init == 0 ? nullptr : view.matcher.FindInit(open.init);
  if (init == nullptr || init->parent < 0) return;
  const std::vector<CommMember>& members = view.matcher.comms()[init->parent].members;
  // Several calls by one name, of which the members of one are not those of the other.
  if (open.init_rank < 0 || open.init_rank >= static_cast<int>(members.size())) return;
  if (members[open.init_rank].aborted) return;  // a member that has revoked waits for no other
  CommunicatorCall(view, open.init, Reason::kCommunicatorCall, thread, nodes);
}

}  // namespace gordian::model::rules
