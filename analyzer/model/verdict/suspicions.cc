// No progress for too long, and no proof: who is in the way as far as one can see.
#include <algorithm>
#include <map>
#include <set>

#include "analyzer/model/match/grouping.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/hangs.h"
#include "analyzer/model/verdict/suspicion_table.h"

namespace gordian::model {
namespace {

// Processes that have ended and are still named here were no ranks: they hold up what they have
// left, but a hang names only the others.
constexpr LeafMask kSurelyProgressing =
    ~(Bit(LeafKind::kRunning) | Bit(LeafKind::kAsleep) | Bit(LeafKind::kDead) |
      Bit(LeafKind::kUnknown) | Bit(LeafKind::kMemory));
constexpr LeafMask kAwake = ~Bit(LeafKind::kAsleep);
constexpr size_t kMaxWaiters = 64;  // searched for what they wait for; the oldest tell enough

struct Reached {
  std::set<ProcessId> in_kernels;
  std::set<std::pair<ProcessId, int>> unknown;
  std::set<ProcessId> running;
  std::set<ProcessId> dead;
  std::set<ProcessId> memory;  // their streams wait for a value of a writer that is not seen
};

Reached Reach(const WaitForGraph& graph, const std::vector<bool>& can, uint32_t from) {
  Reached reached;
  std::vector<bool> seen(graph.nodes().size(), false);
  std::vector<uint32_t> work = {from};
  while (!work.empty()) {
    const uint32_t n = work.back();
    work.pop_back();
    if (seen[n]) continue;
    seen[n] = true;
    const WaitNode& node = graph.nodes()[n];
    if (node.leaf == LeafKind::kRunning || node.leaf == LeafKind::kAsleep) {
      reached.running.insert(node.process);
    }
    if (node.leaf == LeafKind::kDead) reached.dead.insert(node.process);
    if (node.leaf == LeafKind::kMemory) reached.memory.insert(node.process);
    if (node.leaf == LeafKind::kKernel) reached.in_kernels.insert(node.process);
    if (node.leaf == LeafKind::kUnknown) reached.unknown.insert({node.process, node.comm});
    for (const WaitNode::Edge& edge : node.out) {
      // A process that is a member already does not make the call a second time.
      if (!can[edge.to] && !edge.discouraged) work.push_back(edge.to);
    }
  }
  return reached;
}

// The launch that `from` waits in or behind: a host call is nothing that others could join.
uint32_t LaunchBehind(const WaitForGraph& graph, const std::vector<bool>& can, uint32_t from) {
  std::vector<bool> seen(graph.nodes().size(), false);
  std::vector<uint32_t> nodes = {from};
  for (size_t i = 0; i < nodes.size(); ++i) {  // the nearest first
    const WaitNode& node = graph.nodes()[nodes[i]];
    for (const WaitNode::Edge& edge : node.out) {
      if (node.kind == NodeKind::kLaunchDone && !can[edge.to] && IsRendezvous(edge.reason)) {
        return nodes[i];
      }
    }
    for (const WaitNode::Edge& edge : node.out) {
      if (can[edge.to] || seen[edge.to]) continue;
      seen[edge.to] = true;
      nodes.push_back(edge.to);
    }
  }
  return from;
}

// The calls that `from` waits for, directly or through others.
std::vector<const InitCall*> InitsBehind(const WaitForGraph& graph, const std::vector<bool>& can,
                                         uint32_t from) {
  std::vector<const InitCall*> inits;
  std::vector<bool> seen(graph.nodes().size(), false);
  std::vector<uint32_t> work = {from};
  while (!work.empty()) {
    const uint32_t n = work.back();
    work.pop_back();
    if (seen[n]) continue;
    seen[n] = true;
    const WaitNode& node = graph.nodes()[n];
    if (node.kind == NodeKind::kInit) {
      if (const InitCall* init = graph.matcher().FindInit(node.init)) inits.push_back(init);
    }
    for (const WaitNode::Edge& edge : node.out) {
      if (!can[edge.to]) work.push_back(edge.to);
    }
  }
  return inits;
}

std::vector<int> MissingFrom(const InitCall& init, const RoundView& view,
                             const std::set<ProcessId>& running) {
  std::vector<int> missing;
  std::set<ProcessId> members;
  for (const InitMember& member : init.members) {
    if (member.called) members.insert(member.process);
  }
  const int named = init.parent >= 0 ? init.parent : init.comm;
  for (size_t r = 0; r < init.members.size(); ++r) {
    if (init.members[r].called) continue;
    missing.push_back(named >= 0 ? view.names.MemberRank(named, static_cast<int>(r))
                                 : static_cast<int>(r));
  }
  if (init.parent >= 0) return missing;
  // A rank of the communicator is not always the rank that people know.
  std::set<int> by_environment, by_process;
  int world = 0;
  size_t by_another = 0;  // name
  bool environment = true;
  for (const auto& [id, process] : view.graph.execution().processes()) {
    const bool by_other_name =
        members.count(id) == 0 && view.graph.matcher().MayHaveCalled(init, id);
    by_another += by_other_name;
    if (members.count(id) > 0 || by_other_name) {
      environment &= process.info.env_rank >= 0;
      by_environment.insert(process.info.env_rank);
      world = std::max(world, process.info.env_world_size);
    } else if (running.count(id) > 0) {
      for (int rank : view.names.AllRanks(id)) by_process.insert(rank);
    }
  }
  if (environment && world == static_cast<int>(init.members.size())) {
    std::vector<int> absent;
    for (int r = 0; r < world; ++r) {
      if (by_environment.count(r) == 0) absent.push_back(r);
    }
    if (absent.size() + by_another == missing.size()) return absent;
  }
  if (by_process.size() + by_another == missing.size())
    return {by_process.begin(), by_process.end()};
  return missing;
}

class Search {
 public:
  explicit Search(const RoundView& view) : view_(view), describer_(view.graph, view.names) {}

  // Whether the waiter has waited as long as the suspicion's row asks.
  bool Ripe(Suspicion, uint32_t waiter, bool working = false) const;
  // Whether something is to be said: as a suspicion, or, until that is ripe, as a possibility.
  bool Tell(Suspicion, uint32_t waiter);
  void Begin() { early_ = false; }  // with the next waiter

  void NotJoined(const std::vector<bool>& can, uint32_t waiter);
  void Missing(const std::vector<bool>& can, uint32_t waiter);
  void NotWritten(const std::vector<bool>& can, uint32_t waiter, const std::set<ProcessId>& whose);
  void AllIssued(const std::vector<bool>& can, uint32_t waiter);
  void KernelInFront(const std::vector<bool>& without_kernels, uint32_t waiter);
  // False: something else than host functions is in the way.
  bool HostFunctionInFront(const std::vector<bool>& without_kernels, uint32_t waiter);
  void InitStuck(const std::vector<bool>& can, uint32_t waiter);
  // False: the members of the launch's collectives do not hold them in different groups.
  bool GroupedDifferently(const std::vector<bool>& can, uint32_t waiter);
  void Hold(int comm, uint32_t waiter, HeldOperations* held) {
    std::vector<StuckOperation> operations = describer_.Operations({waiter});
    if (!operations.empty()) held->try_emplace(comm, std::move(operations.front()));
  }
  std::vector<Finding> Take();

 private:
  struct Entry {
    const SuspicionRow* row = nullptr;
    bool early = false;
    Finding finding;
    std::set<int> culprits;
    std::vector<uint32_t> waiters;
    std::set<std::string> instead;
    SuspicionWords words;
  };

  Entry& Of(Suspicion suspicion, const std::vector<bool>& can, uint32_t waiter) {
    const SuspicionRow& row = RowOf(suspicion);
    auto [it, added] = entries_.try_emplace({row.check, row.sentence, early_});
    if (added) {
      it->second.row = &row;
      it->second.early = early_;
      it->second.finding =
          MakeFinding(row.check, early_ ? Confidence::kPossible : Confidence::kSuspected);
      const WaitNode& behind = view_.graph.nodes()[LaunchBehind(view_.graph, can, waiter)];
      it->second.words.operation = describer_.Operation(behind);
      const std::string key = describer_.KeyAwaited(behind);
      if (!key.empty()) it->second.words.missed = "set " + key + " of the store";
    }
    it->second.waiters.push_back(waiter);
    uint64_t& stalled = it->second.finding.stalled_at_ns;
    stalled = std::max(stalled, view_.graph.nodes()[waiter].since_ns);
    return it->second;
  }

  uint64_t Since(uint64_t moment_ns) const { return view_.Lasted(moment_ns); }
  std::set<ProcessId> Roots(const std::vector<bool>& can, const std::set<ProcessId>& running);

  const RoundView& view_;
  Describer describer_;
  bool early_ = false;  // Tell() has said so of the waiter at hand
  std::map<std::tuple<std::string, std::string, bool>, Entry> entries_;
  std::map<ProcessId, std::set<ProcessId>>
      held_by_;  // by way of threads that wait: others that run
};

bool Search::Ripe(Suspicion suspicion, uint32_t waiter, bool working) const {
  const SuspicionRow& row = RowOf(suspicion);
  return Since(view_.graph.nodes()[waiter].since_ns) >=
         (working ? row.patience_working : row.patience) * view_.options.suspect_after_ns;
}

bool Search::Tell(Suspicion suspicion, uint32_t waiter) {
  early_ = !Ripe(suspicion, waiter);
  return !early_ || RowOf(suspicion).sentence_early != nullptr;
}

// Those of `running` none of whose threads waits for another that runs: a thread that sleeps in
// code of its own often waits for one of its own process. All of them, where each has such a
// thread.
std::set<ProcessId> Search::Roots(const std::vector<bool>& can,
                                  const std::set<ProcessId>& running) {
  if (running.size() < 2 || running.size() > kMaxWaiters) return running;
  for (ProcessId id : running) {
    if (held_by_.count(id) > 0) continue;
    std::set<ProcessId>& others = held_by_[id];
    for (uint32_t n : view_.graph.waiters()) {
      const WaitNode& node = view_.graph.nodes()[n];
      if (node.process != id || node.kind != NodeKind::kThread || can[n]) continue;
      const std::set<ProcessId> reached = Reach(view_.graph, can, n).running;
      others.insert(reached.begin(), reached.end());
    }
    others.erase(id);
  }
  std::set<ProcessId> roots;
  for (ProcessId id : running) {
    if (held_by_.at(id).empty()) roots.insert(id);
  }
  return roots.empty() ? running : roots;
}

void Search::NotJoined(const std::vector<bool>& can, uint32_t waiter) {
  const Reached reached = Reach(view_.graph, can, waiter);
  const std::vector<const InitCall*> inits = InitsBehind(view_.graph, can, waiter);
  const auto used = std::find_if(inits.begin(), inits.end(),
                                 [](const InitCall* init) { return init->made_before; });
  if (used != inits.end()) {
    if (!Ripe(Suspicion::kInitIdUsed, waiter)) return;
    Entry& entry = Of(Suspicion::kInitIdUsed, can, waiter);
    entry.words.operation = Name((*used)->call);
    for (const InitMember& member : (*used)->members) {
      if (!member.called || member.done) continue;
      entry.culprits.insert(view_.names.Rank(member.process, member.device));
    }
    return;
  }
  if (!inits.empty()) {
    // Missing calls of the deepest one explain the rest; with one they are the same.
    const InitCall& deepest = *inits.back();
    const Suspicion suspicion = MakesCommunicator(deepest.call)      ? Suspicion::kInitMissing
                                : deepest.call == Call::kCommDestroy ? Suspicion::kDestroyMissing
                                                                     : Suspicion::kCallMissing;
    if (!Tell(suspicion, waiter)) return;
    Entry& entry = Of(suspicion, can, waiter);
    entry.words.operation = view_.names.Init(deepest);
    for (int rank : MissingFrom(deepest, view_, reached.running)) {
      entry.culprits.insert(rank);
    }
    for (ProcessId id : reached.running) entry.instead.insert(describer_.Instead(id, nullptr));
    for (ProcessId id : reached.dead)
      entry.instead.insert(view_.names.RankOf(id) + " " + describer_.Instead(id, nullptr));
    return;
  }
  const std::set<ProcessId> roots = Roots(can, reached.running);
  const auto idle_of = [&](ProcessId id) {
    return Since(view_.graph.execution().Find(id)->last_progress_ns);
  };
  const uint64_t threshold = view_.options.suspect_after_ns;
  // A rank that has come to rest a little later than another is missed no less.
  const bool some = std::any_of(roots.begin(), roots.end(),
                                [&](ProcessId id) { return idle_of(id) >= threshold; });
  for (ProcessId id : roots) {
    const Process& process = *view_.graph.execution().Find(id);
    const bool idle = idle_of(id) >= (some ? threshold / 2 : threshold);
    early_ = !idle && !Ripe(Suspicion::kRankNotJoined, waiter, /*working=*/true);
    bool in_call = false;
    for (const ThreadState& state : process.state.threads) {
      in_call |= state.gpu_thread && state.call_id != 0;
    }
    const bool asleep = !in_call && Since(process.last_busy_ns) >= threshold / 2;
    Entry& entry = Of(asleep ? Suspicion::kHostBlocked : Suspicion::kRankNotJoined, can, waiter);
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
    entry.instead.insert(describer_.Instead(id, nullptr));
  }
  early_ = false;
  if (view_.graph.nodes()[waiter].kind == NodeKind::kLaunchDone) {
    NotWritten(can, waiter, reached.memory);
  }
  if (reached.running.empty() && reached.memory.empty() && !reached.unknown.empty()) {
    Missing(can, waiter);
  }
}

void Search::NotWritten(const std::vector<bool>& can, uint32_t waiter,
                        const std::set<ProcessId>& whose) {
  for (ProcessId id : whose) {
    Entry& entry = Of(Suspicion::kMemoryWait, can, waiter);
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
  }
}

void Search::Missing(const std::vector<bool>& can, uint32_t waiter) {
  Entry& entry = Of(Suspicion::kEvidenceMissing, can, waiter);
  for (const auto& [id, comm] : Reach(view_.graph, can, waiter).unknown) {
    const Process* process = view_.graph.execution().Find(id);
    std::string what;
    if (process == nullptr) {
      what = "a member of " + (comm >= 0 ? view_.names.Comm(comm) : std::string("a communicator")) +
             " was never seen";
    } else if (process->unknown.calls) {
      what = view_.names.Lost(*process);
    } else if (process->lost_sight) {
      what = "operations that " + view_.names.RankOf(id) + " captured into graphs";
    } else {
      what = view_.names.RankOf(id) + " did not answer";
    }
    entry.finding.evidence.not_visible.push_back(what);
  }
}

void Search::AllIssued(const std::vector<bool>& can, uint32_t waiter) {
  // What was lost may be what stands in between: an event that a stream waits for.
  std::vector<std::string> lost;
  for (const auto& [id, process] : view_.graph.execution().processes()) {
    if (process.unknown.events) lost.push_back(view_.names.Lost(process));
  }
  if (early_ && !lost.empty()) return;
  Entry& entry =
      Of(lost.empty() ? Suspicion::kStuckKernel : Suspicion::kEvidenceMissing, can, waiter);
  auto& unseen = entry.finding.evidence.not_visible;
  unseen.insert(unseen.end(), lost.begin(), lost.end());
}

// Nothing but kernels of the program are in the way. The ranks that have one to end are named, not
// those that wait behind it.
void Search::KernelInFront(const std::vector<bool>& without_kernels, uint32_t waiter) {
  const std::set<ProcessId> in_kernels = Reach(view_.graph, without_kernels, waiter).in_kernels;
  bool sure = !in_kernels.empty();
  for (const auto& [id, process] : view_.graph.execution().processes()) {
    sure &= !process.unknown.events && process.info.markers_enabled;
  }
  if (!sure) {
    AllIssued(without_kernels, waiter);
    return;
  }
  Entry& entry = Of(Suspicion::kKernelInFront, without_kernels, waiter);
  for (ProcessId id : in_kernels) {
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
  }
}

bool Search::HostFunctionInFront(const std::vector<bool>& without_kernels, uint32_t waiter) {
  const Reached reached = Reach(view_.graph, without_kernels, waiter);
  if (reached.in_kernels.empty() || !reached.memory.empty()) return false;
  for (const ProcessId id : reached.in_kernels) {
    const Process& process = *view_.graph.execution().Find(id);
    const bool in_one =
        std::any_of(process.streams.begin(), process.streams.end(), [](const auto& entry) {
          const StreamQueue& queue = entry.second;
          return queue.host_code != 0 && queue.host_code == queue.done + 1;
        });
    if (!in_one || process.unknown.events || !process.info.markers_enabled) return false;
  }
  early_ = false;
  if (!Ripe(Suspicion::kHostFunctionInFront, waiter)) return true;
  Entry& entry = Of(Suspicion::kHostFunctionInFront, without_kernels, waiter);
  for (const ProcessId id : reached.in_kernels) {
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
  }
  return true;
}

// All members of a communicator are in the call that makes it, or are through: what it still waits
// for is NCCL's own.
void Search::InitStuck(const std::vector<bool>& can, uint32_t waiter) {
  for (const WaitNode::Edge& edge : view_.graph.nodes()[waiter].out) {
    const WaitNode& node = view_.graph.nodes()[edge.to];
    const InitCall* init =
        node.kind == NodeKind::kInit ? view_.graph.matcher().FindInit(node.init) : nullptr;
    if (init == nullptr || !MakesCommunicator(init->call) || !init->members_known) continue;
    const auto members = static_cast<int>(init->members.size());
    if (init->called < members || init->done >= members) continue;
    Of(Suspicion::kInitStuck, can, waiter).words.operation = view_.names.Init(*init);
    return;
  }
}

bool Search::GroupedDifferently(const std::vector<bool>& can, uint32_t waiter) {
  // What was lost may be what holds it up instead.
  for (const auto& [id, process] : view_.graph.execution().processes()) {
    if (process.unknown.events) return false;
  }
  const Launch& launch = *view_.graph.execution().FindLaunch(view_.graph.nodes()[waiter].launch);
  for (const Part& part : launch.parts) {
    const std::vector<GroupingCamp> camps =
        GroupingCamps(view_.graph.execution(), view_.graph.matcher(), part.ref);
    if (camps.size() < 2) continue;
    Entry& entry = Of(Suspicion::kGroupedDifferently, can, waiter);
    const bool majority = camps[0].members.size() > camps[1].members.size();
    std::string difference;
    for (const GroupingCamp& camp : camps) {
      std::vector<int> ranks;
      for (const int member : camp.members)
        ranks.push_back(view_.names.MemberRank(part.ref.comm, member));
      std::sort(ranks.begin(), ranks.end());
      if (!majority || &camp != &camps.front()) entry.culprits.insert(ranks.begin(), ranks.end());
      const bool one = ranks.size() == 1;
      difference += (difference.empty() ? "" : ", ") + RankList(ranks);
      difference += camp.together.size() < 2
                        ? (one ? " calls it by itself" : " call it by itself")
                        : (one ? " has it in a group of " : " have it in a group of ") +
                              std::to_string(camp.together.size()) + " collectives";
    }
    if (entry.words.difference.empty()) {
      entry.words.difference = difference;
      entry.words.operation = view_.names.Operation(part.signature.call, part.ref);
    }
    return true;
  }
  return false;
}

std::vector<Finding> Search::Take() {
  std::vector<Finding> findings;
  const bool any_ripe = std::any_of(entries_.begin(), entries_.end(),
                                    [](const auto& entry) { return !entry.second.early; });
  for (auto& [key, entry] : entries_) {
    if (entry.early && any_ripe) continue;  // a suspicion explains the stall already
    Finding& finding = entry.finding;
    finding.culprit_ranks.assign(entry.culprits.begin(), entry.culprits.end());
    std::set<int> victims;
    for (uint32_t n : entry.waiters) victims.insert(describer_.RankOf(view_.graph.nodes()[n]));
    for (int rank : finding.culprit_ranks) victims.erase(rank);
    victims.erase(-1);
    finding.victim_ranks.assign(victims.begin(), victims.end());
    finding.operations = describer_.Operations(entry.waiters);
    if (entry.row->end ==
        LeafKind::kKernel) {  // nothing but a kernel is in front, which counts as being there
      for (StuckOperation& operation : finding.operations) {
        for (OperationMember& member : operation.members) {
          if (entry.culprits.count(member.rank) > 0 && member.state == PartState::kAtHead)
            member.state = PartState::kEnqueued;
        }
      }
    }
    if (finding.verdict == VerdictKind::kInitHang ||
        entry.row->suspicion == Suspicion::kCallMissing ||
        entry.row->suspicion == Suspicion::kDestroyMissing) {
      std::vector<uint32_t> nodes;
      for (uint32_t n : entry.waiters) {
        for (const WaitNode::Edge& edge : view_.graph.nodes()[n].out) nodes.push_back(edge.to);
      }
      std::vector<StuckOperation> inits = describer_.Operations(nodes);
      finding.operations.insert(finding.operations.end(), inits.begin(), inits.end());
    }
    auto& unseen = finding.evidence.not_visible;
    std::sort(unseen.begin(), unseen.end());
    unseen.erase(std::unique(unseen.begin(), unseen.end()), unseen.end());
    SuspicionWords& words = entry.words;
    words.culprits = finding.culprit_ranks;
    words.victims = finding.victim_ranks;
    for (const std::string& text : entry.instead)
      words.instead += (words.instead.empty() ? "" : "; ") + text;
    if (!unseen.empty()) words.unseen = unseen.front();
    finding.summary = Sentence(*entry.row, words, entry.early);
    if (entry.row->suspicion == Suspicion::kHostFunctionInFront) {
      finding.advice =
          "See what the host function waits for, in the stacks: it must not wait for work behind "
          "it on its stream, nor for a thread that waits for that work.";
    }
    if (entry.early) finding.culprit_ranks.clear();
    findings.push_back(std::move(finding));
  }
  return findings;
}

// A rank that has called NCCL, and does not wait for anything of it.
bool IsElsewhere(const WaitForGraph& graph, ProcessId id) {
  const Process* const process = graph.execution().Find(id);
  if (process == nullptr || process->Dead() || !process->CalledNccl()) return false;
  return std::any_of(process->state.threads.begin(), process->state.threads.end(),
                     [&](const ThreadState& state) {
                       const WaitNode* const node =
                           state.gpu_thread ? graph.ThreadNode(id, state.thread) : nullptr;
                       if (node == nullptr || node->out.size() != 1) return false;
                       const LeafKind leaf = graph.nodes()[node->out.front().to].leaf;
                       return leaf == LeafKind::kRunning || leaf == LeafKind::kAsleep;
                     });
}

// The witness takes a rank that waits in an operation for the one that has yet to make a
// communicator, although another is elsewhere: that is more likely the one that is missing. Ranks
// that all wait in calls that make communicators are taken at their word.
bool PassesOverAnAbsentRank(const WaitForGraph& graph, const std::vector<WitnessStep>& witness) {
  const bool passes_operation =
      std::any_of(witness.begin(), witness.end(), [&](const WitnessStep& step) {
        const NodeKind kind = graph.nodes()[step.node].kind;
        return kind == NodeKind::kLaunchStart || kind == NodeKind::kLaunchDone;
      });
  return passes_operation &&
         std::any_of(witness.begin(), witness.end(), [&](const WitnessStep& step) {
           const WaitNode& node = graph.nodes()[step.node];
           return node.kind == NodeKind::kAnyProcess &&
                  std::any_of(node.out.begin(), node.out.end(), [&](const WaitNode::Edge& edge) {
                    return !edge.discouraged && IsElsewhere(graph, graph.nodes()[edge.to].process);
                  });
         });
}

// A rank waits in a circle unless one of its threads that sleep outside of NCCL and CUDA makes the
// call after all: PyTorch's autograd threads have called NCCL, and sleep until there is more to do.
// Why that is no proof: a thread may sleep for a while and then call.
void CyclesBesideSleepers(const RoundView& view, const std::vector<bool>& stuck,
                          const std::vector<uint32_t>& old, std::vector<Finding>* findings) {
  const WaitForGraph& graph = view.graph;
  const std::vector<bool> can = graph.Decide(kAwake);
  if (std::none_of(old.begin(), old.end(), [&](uint32_t n) { return !can[n]; })) return;
  const std::vector<WitnessStep> witness = FindWitness(graph, can, stuck);
  if (witness.empty() || PassesOverAnAbsentRank(graph, witness)) return;
  // A process that is a member already does not make the call a second time; and who writes the
  // memory is not seen.
  for (const WitnessStep& step : witness) {
    if (step.edge.discouraged || step.edge.reason == Reason::kMemoryWait) return;
  }
  std::vector<bool> forced(can.size(), false);
  Force(witness, &forced);
  Finding finding = CycleHang(view, can, graph.Decide(kAwake, forced), witness).finding;
  std::vector<uint32_t> leaves;
  ProofOf(graph, can, witness, &leaves);
  for (uint32_t leaf : leaves) {
    if (graph.nodes()[leaf].leaf != LeafKind::kAsleep) continue;
    finding.evidence.assumes.push_back("the threads of " +
                                       view.names.RankOf(graph.nodes()[leaf].process) +
                                       " that sleep outside of NCCL and CUDA do not make the call");
  }
  findings->push_back(std::move(finding));
}

// Calls that make communicators in a circle: other processes might be the members that are missing,
// which is why this is no proof; it is the likelier story all the same.
void CycleOfInits(const RoundView& view, const std::vector<bool>& stuck,
                  const std::vector<bool>& can, std::vector<Finding>* findings) {
  const WaitForGraph& graph = view.graph;
  const std::vector<WitnessStep> witness = FindWitness(graph, can);
  if (witness.empty() || PassesOverAnAbsentRank(graph, witness)) return;
  for (const WitnessStep& step : witness) {
    const WaitNode& node = graph.nodes()[step.node];
    if (step.edge.discouraged || stuck[step.node]) return;
    if (node.kind != NodeKind::kThread && node.process != 0 && node.kind != NodeKind::kNotCalled) {
      return;
    }
  }
  std::vector<bool> forced(can.size(), false);
  Force(witness, &forced);
  findings->push_back(
      CycleHang(view, can, graph.Decide(kSurelyProgressing, forced), witness).finding);
}

}  // namespace

std::vector<Finding> FindSuspicions(const RoundView& view, const std::vector<bool>& stuck,
                                    HeldOperations* held) {
  const WaitForGraph& graph = view.graph;
  const uint64_t threshold = view.options.suspect_after_ns;
  std::vector<uint32_t> old;
  auto age = [&](uint32_t n) { return view.Lasted(graph.nodes()[n].since_ns); };
  for (uint32_t n : graph.waiters()) {
    if (!stuck[n] && age(n) >= threshold) old.push_back(n);
  }
  std::stable_sort(old.begin(), old.end(), [&](uint32_t a, uint32_t b) { return age(a) > age(b); });
  if (old.size() > kMaxWaiters) old.resize(kMaxWaiters);
  std::vector<Finding> findings;
  if (old.empty()) return findings;
  const std::vector<bool> can = graph.Decide(kSurelyProgressing);
  const std::vector<bool> without_kernels =
      graph.Decide(kSurelyProgressing & ~Bit(LeafKind::kKernel));
  Search search(view);
  CyclesBesideSleepers(view, stuck, old, &findings);
  if (!findings.empty()) return findings;
  if (std::any_of(old.begin(), old.end(), [&](uint32_t n) {
        return !can[n] && graph.nodes()[n].kind == NodeKind::kThread;
      })) {
    CycleOfInits(view, stuck, can, &findings);
    if (!findings.empty()) return findings;
  }
  for (uint32_t n : old) {
    search.Begin();
    if (!can[n]) {
      search.NotJoined(can, n);
    } else if (graph.nodes()[n].kind == NodeKind::kThread) {
      if (search.Tell(Suspicion::kInitStuck, n)) search.InitStuck(can, n);
    } else if (graph.nodes()[n].kind == NodeKind::kLaunchDone) {
      const Launch* launch = graph.execution().FindLaunch(graph.nodes()[n].launch);
      bool mismatched = false;
      if (launch != nullptr && launch->comm_index >= 0) {
        const Communicator& comm = graph.matcher().comms()[launch->comm_index];
        mismatched = comm.collective_mismatch >= 0 || comm.transfer_mismatch >= 0 ||
                     (comm.operator_mismatch >= 0 &&
                      !graph.matcher().mismatches()[comm.operator_mismatch].completed);
        const int found =
            comm.collective_mismatch >= 0 ? comm.collective_mismatch : comm.transfer_mismatch;
        if (mismatched && found >= 0 && graph.matcher().mismatches()[found].completed &&
            without_kernels[n]) {
          search.Hold(launch->comm_index, n, held);
        }
      }
      if (mismatched || launch == nullptr || !launch->enqueued) continue;
      if (without_kernels[n] && search.GroupedDifferently(can, n)) continue;
      if (without_kernels[n]) {
        if (search.Tell(Suspicion::kStuckKernel, n)) search.AllIssued(can, n);
        continue;
      }
      if (search.HostFunctionInFront(without_kernels, n)) continue;
      if (!search.Tell(Suspicion::kKernelInFront, n)) continue;
      // Kernels might have written what a stream waits for; after so long the other story is the
      // likelier one.
      const std::set<ProcessId> memory = Reach(graph, without_kernels, n).memory;
      if (memory.empty()) {
        search.KernelInFront(without_kernels, n);
      } else if (search.Ripe(Suspicion::kMemoryWait, n, /*working=*/true)) {
        search.NotWritten(without_kernels, n, memory);
      }
    }
  }
  return search.Take();
}

}  // namespace gordian::model
