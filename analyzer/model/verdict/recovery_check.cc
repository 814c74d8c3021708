#include "analyzer/model/verdict/recovery_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace gordian::model {
namespace {

// The check looks at no more processes, all of one host, and operations.
constexpr size_t kMostProcesses = 64;
constexpr size_t kMostUnits = 4096;

const char* WorkName(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernels:
      return "kernels or copies";
    case WorkKind::kHostFunction:
      return "a host function";
    case WorkKind::kGraphLaunch:
      return "a CUDA graph";
    case WorkKind::kMemoryWait:
    case WorkKind::kMemoryWrite:
      return "a wait for memory, or a write of it,";
    default:
      return "other work";
  }
}

// A launch of a communicator of the set, and what its start waits for in its own process.
struct Member {
  const Launch* launch = nullptr;
  uint32_t start = kNoNode;
  std::vector<LaunchId> before;  // launches that it stands right behind
  bool early = true;             // nothing else holds it up
  // The first other work that it stands behind, and the launch behind which that stands.
  const WorkItem* work = nullptr;
  bool ready = false, submitted = false, passed = false;
};

class Check {
 public:
  Check(const RoundView& view, const std::vector<WitnessStep>& witness)
      : view_(view), graph_(view.graph), witness_(witness) {}

  Recovery Run() {
    result_.checked = true;
    if (FindSet() && Seen() && Operations() && Posted() && Ends()) Plan();
    return std::move(result_);
  }

 private:
  bool Refuse(RecoveryCondition condition, std::string why, int rank = -1, Site site = {}) {
    result_.refused = condition;
    result_.why = std::move(why);
    result_.rank = rank;
    result_.site = site;
    return false;
  }
  bool RefuseLaunch(RecoveryCondition condition, const std::string& why, const Launch& launch) {
    return Refuse(condition, why, view_.names.LaunchRank(launch), SiteOf(launch));
  }
  static Site SiteOf(const Launch& launch) {
    return {launch.process, launch.parts.empty() ? 0 : launch.parts.front().site};
  }
  std::string RankOf(const Launch& launch) const {
    return "rank " + std::to_string(view_.names.LaunchRank(launch));
  }

  // The communicators of the cycle, and those whose operations stand in front of theirs and cannot
  // move either.
  bool FindSet() {
    if (graph_.execution().processes().size() > kMostProcesses) {
      return Refuse(RecoveryCondition::kOneHost, "the job has more processes than one host");
    }
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      const WaitNode& node = graph_.nodes()[n];
      if (node.kind == NodeKind::kLaunchStart) starts_[node.launch] = n;
      if (node.kind == NodeKind::kNotCalled) not_called_[node.process] = n;
    }
    const std::vector<bool> can = graph_.Decide(~LeafMask{0});
    for (const WitnessStep& step : witness_) {
      const WaitNode& node = graph_.nodes()[step.node];
      if (node.kind == NodeKind::kNotCalled || node.kind == NodeKind::kThread) {
        return Refuse(RecoveryCondition::kPosted,
                      "the host of " + view_.names.RankOf(node.process) +
                          " waits and has not called all of it",
                      view_.names.Rank(node.process));
      }
      const Launch* const launch = graph_.execution().FindLaunch(node.launch);
      if (launch == nullptr) continue;
      if (launch->comm_index < 0 || launch->host || launch->signal != nullptr) {
        return RefuseLaunch(RecoveryCondition::kHardEdge,
                            RankOf(*launch) + " waits in something else than NCCL's collectives",
                            *launch);
      }
      comms_.insert(launch->comm_index);
      cycle_.insert(launch->id);
    }
    if (cycle_.empty()) {
      return Refuse(RecoveryCondition::kHardEdge, "no operation of NCCL is in the cycle");
    }
    for (bool grew = true; grew;) {
      grew = false;
      for (const auto& [id, launch] : graph_.execution().launches()) {
        const auto start = starts_.find(id);
        if (!comms_.contains(launch.comm_index) || start == starts_.end() ||
            !set_.try_emplace(id).second) {
          continue;
        }
        grew = true;
        Member& member = set_.at(id);
        member.launch = &launch;
        member.start = start->second;
        std::set<uint32_t> seen;
        LookBehind(start->second, nullptr, &seen, &member);
        for (const LaunchId before : member.before) {
          const Launch* const other = graph_.execution().FindLaunch(before);
          const auto at = starts_.find(before);
          // The node of its end is the next one.
          if (other != nullptr && at != starts_.end() && !can[at->second + 1] &&
              other->comm_index >= 0) {
            comms_.insert(other->comm_index);
          }
        }
      }
      if (set_.size() > kMostUnits) {
        return Refuse(RecoveryCondition::kSeen, "more operations are unfinished than it looks at");
      }
    }
    for (auto& [id, member] : set_) {
      for (const LaunchId before : member.before) member.early &= set_.contains(before);
      member.early &= member.before.size() <= kMostAfter;
    }
    return true;
  }

  void LookBehind(uint32_t from, const WorkItem* work, std::set<uint32_t>* seen, Member* member) {
    for (const WaitNode::Edge& edge : graph_.nodes()[from].out) {
      const WaitNode& node = graph_.nodes()[edge.to];
      if (node.kind == NodeKind::kLeaf) {
        member->early &= node.leaf == LeafKind::kDone;
        continue;
      }
      if (node.kind == NodeKind::kLaunchDone) {
        if (work != nullptr && member->work == nullptr) member->work = work;
        member->early &= work == nullptr && edge.reason != Reason::kLegacyStream;
        if (std::find(member->before.begin(), member->before.end(), node.launch) ==
            member->before.end()) {
          member->before.push_back(node.launch);
        }
        continue;
      }
      if (node.kind != NodeKind::kItemDone) {
        member->early = false;
        continue;
      }
      if (!seen->insert(edge.to).second) continue;
      const Process* const process = graph_.execution().Find(node.process);
      const WorkItem* const item =
          process == nullptr ? nullptr
                             : ExecutionGraph::ItemAt(*process, {node.stream, node.ordinal});
      const bool other = item == nullptr ||
                         (item->kind != WorkKind::kNoWork && item->kind != WorkKind::kEventWait);
      // An event that stands behind nothing that is known may be another process's.
      const auto names_event = [](const WaitNode::Edge& out) {
        return out.reason == Reason::kEventWait;
      };
      const bool unknown_event = item != nullptr && item->kind == WorkKind::kEventWait &&
                                 std::none_of(node.out.begin(), node.out.end(), names_event);
      if (other || unknown_event || edge.reason == Reason::kLegacyStream) member->early = false;
      LookBehind(edge.to, work == nullptr && other ? item : work, seen, member);
    }
  }

  // R5, R6, R7 of all members of these communicators.
  bool Seen() {
    if (graph_.matcher().beyond() || graph_.execution().beyond()) {
      return Refuse(RecoveryCondition::kSeen, "more is unfinished than gordian follows");
    }
    for (const int index : comms_) {
      const Communicator& comm = graph_.matcher().comms()[index];
      const std::string name = view_.names.CommName(index);
      if (comm.opaque || comm.unsure || comm.any_source) {
        return Refuse(RecoveryCondition::kSeen, "not all operations on " + name + " were seen");
      }
      if (comm.collective_mismatch >= 0 || comm.operator_mismatch >= 0 ||
          comm.transfer_mismatch >= 0) {
        return Refuse(RecoveryCondition::kAgree, "members called different operations on " + name);
      }
      std::set<ProcessId> processes;
      for (size_t r = 0; r < comm.members.size(); ++r) {
        const CommMember& member = comm.members[r];
        const Process* const process = graph_.execution().Find(member.process);
        const int rank = view_.names.MemberRank(index, static_cast<int>(r));
        const std::string who = "rank " + std::to_string(rank);
        if (!member.known || process == nullptr) {
          return Refuse(RecoveryCondition::kOneHost, "not all members of " + name + " were seen");
        }
        if (process->Dead() || member.left || member.aborted || process->state.stopped ||
            !process->has_state) {
          return Refuse(RecoveryCondition::kOneHost, who + " does not take part any more", rank);
        }
        if (!processes.insert(member.process).second) {
          return Refuse(RecoveryCondition::kOneHost, "one process holds several members of " + name,
                        rank);
        }
        if (process->Lossy() || process->merger.incomplete() || process->unknown.calls ||
            process->unknown.events || process->lost_sight || !process->state.not_visible.empty()) {
          return Refuse(RecoveryCondition::kSeen, "not all work of " + who + " was seen", rank);
        }
      }
    }
    return true;
  }

  // R3, R4, R7 of each operation.
  bool Operations() {
    std::set<std::string> names;
    for (const auto& [id, member] : set_) {
      const Launch& launch = *member.launch;
      const std::string name = view_.names.NameOf(launch);
      if (names.insert(name).second) result_.operations.push_back(name);
      if (launch.from_state) {
        return RefuseLaunch(RecoveryCondition::kSeen, "the record of " + name + " was lost",
                            launch);
      }
      if (launch.graph_instance != 0) {
        return RefuseLaunch(RecoveryCondition::kAbort, name + " is part of a CUDA graph", launch);
      }
      if (launch.deferred || launch.signal != nullptr || launch.host) {
        return RefuseLaunch(RecoveryCondition::kAbort, name + " is launched when NCCL likes",
                            launch);
      }
      if (launch.enqueued && launch.positions.size() != 1) {
        return RefuseLaunch(RecoveryCondition::kAbort, name + " stands on several streams", launch);
      }
      for (const Part& part : launch.parts) {
        const std::string its = view_.names.Operation(part.signature.call, part.ref);
        if (part.elsewhere) {
          return RefuseLaunch(RecoveryCondition::kAbort, "the runtime has " + its + " already",
                              launch);
        }
        const Instance* const instance =
            part.ref.kind == PartKind::kCollective
                ? graph_.matcher().FindInstance(part.ref.comm, part.ref.sequence)
                : nullptr;
        if (!FinishesTogether(part.signature.call) || instance == nullptr) {
          return RefuseLaunch(RecoveryCondition::kIntact, its + " can be finished at one end alone",
                              launch);
        }
        if (instance->done != 0) {
          return RefuseLaunch(RecoveryCondition::kIntact, its + " is done at some ranks", launch);
        }
        if (instance->mismatch != kAgrees) {
          return RefuseLaunch(RecoveryCondition::kAgree, "members differ in " + its, launch);
        }
      }
    }
    return true;
  }

  // R1 of what is in the cycle.
  bool Posted() {
    for (const LaunchId id : cycle_) {
      const Launch& launch = *set_.at(id).launch;
      const std::string name = view_.names.NameOf(launch);
      if (!launch.enqueued) {
        return RefuseLaunch(RecoveryCondition::kPosted,
                            RankOf(launch) + " is still in its call of " + name, launch);
      }
      for (const Part& part : launch.parts) {
        const Instance& instance = *graph_.matcher().FindInstance(part.ref.comm, part.ref.sequence);
        for (size_t r = 0; r < instance.members.size(); ++r) {
          if (instance.members[r].state == SlotState::kCalled) continue;
          const int rank = view_.names.MemberRank(part.ref.comm, static_cast<int>(r));
          return Refuse(RecoveryCondition::kPosted,
                        "rank " + std::to_string(rank) + " has not called " + name, rank);
        }
      }
    }
    return true;
  }

  // R2 and hard edges: plays what the runtime would do, until nothing moves any more. A unit is
  // submitted when its input is there; its stream goes on when all members have submitted it and the
  // stream has come to it. First with what was called alone, which must end the cycle. Then as if
  // all hosts that can go on called what is missing, behind all that they have called, and all else
  // ended: what is stuck even so may be in another circle, so that the job would hang again with a
  // part of the units executed.
  bool Ends() {
    std::vector<bool> forced(graph_.nodes().size(), false);
    Play(Bit(LeafKind::kKernel), /*may_call=*/false, &forced);
    for (const LaunchId id : cycle_) {
      if (!set_.at(id).passed) return RefuseStuck(set_.at(id), cycle_);
    }
    Play(~LeafMask{0}, /*may_call=*/true, &forced);
    std::set<LaunchId> stuck;
    for (const auto& [id, member] : set_) {
      if (!member.passed && member.launch->enqueued) stuck.insert(id);
    }
    return stuck.empty() || RefuseStuck(set_.at(*stuck.begin()), stuck);
  }

  void Play(LeafMask progressing, bool may_call, std::vector<bool>* forced) {
    for (bool moved = true; moved;) {
      moved = false;
      const std::vector<bool> comes = graph_.Decide(progressing, *forced);
      for (auto& [id, member] : set_) {
        if (!member.launch->enqueued) continue;
        const bool ready =
            comes[member.start] ||
            (member.early && std::all_of(member.before.begin(), member.before.end(),
                                         [&](LaunchId before) { return set_.at(before).ready; }));
        const auto before = set_.find(member.launch->previous_on_comm);
        const bool in_order = before == set_.end() || before->second.submitted;
        moved |= std::exchange(member.ready, member.ready || ready) != member.ready;
        const bool submitted = member.submitted || (member.ready && in_order);
        moved |= std::exchange(member.submitted, submitted) != submitted;
      }
      for (auto& [id, member] : set_) {
        if (member.passed || !comes[member.start]) continue;
        if (!Executed(*member.launch, may_call ? &comes : nullptr)) continue;
        member.passed = moved = true;
        (*forced)[member.start + 1] = true;
      }
    }
  }

  // `comes` (null: no): members whose hosts go on are about to call it.
  bool Executed(const Launch& launch, const std::vector<bool>* comes) const {
    for (const Part& part : launch.parts) {
      const Instance* const instance =
          graph_.matcher().FindInstance(part.ref.comm, part.ref.sequence);
      if (instance == nullptr) return false;
      const Communicator& comm = graph_.matcher().comms()[part.ref.comm];
      for (size_t r = 0; r < instance->members.size(); ++r) {
        const auto member = set_.find(instance->members[r].launch);
        if (member != set_.end() && member->second.submitted) continue;
        if (comes == nullptr) return false;
        if (member != set_.end() && member->second.launch->enqueued) return false;
        if (member == set_.end() && !MayCall(comm.members[r].process, *comes)) return false;
      }
    }
    return true;
  }

  bool MayCall(ProcessId process, const std::vector<bool>& comes) const {
    for (const auto& [id, member] : set_) {
      if (member.launch->process == process && member.launch->enqueued && !member.passed) {
        return false;
      }
    }
    const auto node = not_called_.find(process);
    return node != not_called_.end() && comes[node->second];
  }

  // The other work that holds up one of `among`, if that is what does.
  bool RefuseStuck(const Member& stuck, const std::set<LaunchId>& among) {
    for (const LaunchId id : among) {
      const Member& member = set_.at(id);
      if (member.ready || member.work == nullptr) continue;
      const Launch& launch = *member.launch;
      return Refuse(RecoveryCondition::kHardEdge,
                    RankOf(launch) + " has " + WorkName(member.work->kind) + " in front of " +
                        view_.names.NameOf(launch),
                    view_.names.LaunchRank(launch), {launch.process, member.work->site});
    }
    return RefuseLaunch(RecoveryCondition::kAcyclic,
                        view_.names.NameOf(*stuck.launch) +
                            " waits for its own end even if operations may overtake each other",
                        *stuck.launch);
  }

  // The runtime on GPUs does not complete cycles through events (docs/runtime-cuda.md).
  void Lend() {
    for (const WitnessStep& step : witness_) {
      if (step.edge.reason != Reason::kStartedCollective &&
          step.edge.reason != Reason::kStreamOrder)
        return;
    }
    std::set<std::string> names;
    for (const int index : comms_) {
      const std::string& name = graph_.matcher().comms()[index].name;
      if (name.empty() || name.find(',') != std::string::npos) return;
      names.insert(name);
    }
    result_.lend.assign(names.begin(), names.end());
  }

  void Plan() {
    Lend();
    for (const int index : comms_) {
      const Communicator& comm = graph_.matcher().comms()[index];
      for (size_t r = 0; r < comm.members.size(); ++r) {
        const CommMember& member = comm.members[r];
        result_.members.push_back({.pid = graph_.execution().Find(member.process)->info.pid,
                                   .rank = view_.names.MemberRank(index, static_cast<int>(r)),
                                   .communicator = index,
                                   .comm = member.comm});
      }
    }
    // By process and call: places count from each process's first.
    std::map<ProcessId, std::vector<std::pair<uint64_t, const Member*>>> by_process;
    for (const auto& [id, member] : set_) {
      if (!member.launch->enqueued) continue;
      by_process[member.launch->process].emplace_back(member.launch->parts.front().order, &member);
    }
    for (auto& [process, members] : by_process) {
      std::sort(members.begin(), members.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      std::map<LaunchId, uint32_t> last;  // the place of a launch's last part
      uint32_t place = 0;
      for (const auto& [order, member] : members) {
        for (const Part& part : member->launch->parts) {
          RecoveryUnit unit{.process = process,
                            .pid = graph_.execution().Find(process)->info.pid,
                            .rank = view_.names.LaunchRank(*member->launch),
                            .communicator = member->launch->comm_index,
                            .comm = member->launch->comm,
                            .sequence = part.ref.sequence,
                            .stream = member->launch->positions.front().stream,
                            .ordinal = member->launch->positions.front().ordinal,
                            .early = member->early,
                            .after = {},
                            .operation = view_.names.Operation(part.signature.call, part.ref),
                            .site = {process, part.site}};
          for (const LaunchId before : member->before) {
            const auto at = last.find(before);
            if (at != last.end()) unit.after.push_back(at->second);
          }
          unit.early = unit.early && unit.after.size() == member->before.size();
          if (!unit.early) unit.after.clear();
          last[member->launch->id] = place++;
          result_.units.push_back(std::move(unit));
        }
      }
    }
  }

  const RoundView& view_;
  const WaitForGraph& graph_;
  const std::vector<WitnessStep>& witness_;
  Recovery result_;
  std::map<LaunchId, uint32_t> starts_;
  std::map<ProcessId, uint32_t> not_called_;  // W5 has one node for each process
  std::set<int> comms_;
  std::set<LaunchId> cycle_;
  std::map<LaunchId, Member> set_;
};

}  // namespace

bool FinishesTogether(Call call) {
  return call == Call::kAllReduce || call == Call::kAllGather || call == Call::kReduceScatter ||
         call == Call::kAllToAll;
}

const char* Name(RecoveryCondition condition) {
  switch (condition) {
    case RecoveryCondition::kHold:
      return "";
    case RecoveryCondition::kHardEdge:
      return "hard";
    case RecoveryCondition::kPosted:
      return "R1";
    case RecoveryCondition::kAcyclic:
      return "R2";
    case RecoveryCondition::kIntact:
      return "R3";
    case RecoveryCondition::kAbort:
      return "R4";
    case RecoveryCondition::kOneHost:
      return "R5";
    case RecoveryCondition::kSeen:
      return "R6";
    case RecoveryCondition::kAgree:
      return "R7";
    case RecoveryCondition::kFailed:
      return "failed";
  }
  return "";
}

std::optional<RecoveryCondition> RecoveryConditionByName(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(RecoveryCondition::kFailed); ++i) {
    const auto condition = static_cast<RecoveryCondition>(i);
    if (name == Name(condition)) return condition;
  }
  return std::nullopt;
}

Recovery CheckRecovery(const RoundView& view, const std::vector<WitnessStep>& witness) {
  return Check(view, witness).Run();
}

}  // namespace gordian::model
