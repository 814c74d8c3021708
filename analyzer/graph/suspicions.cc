// No progress for too long, and no proof: who is in the way as far as one can see.
#include <algorithm>
#include <map>
#include <set>

#include "analyzer/graph/check_catalogue.h"
#include "analyzer/graph/grouping.h"
#include "analyzer/graph/hangs.h"

namespace gordian::graph {
namespace {

// Of the dead those that are left are no ranks: hangs are told of the others.
constexpr LeafMask kSurelyProgressing =
    ~(Bit(LeafKind::kRunning) | Bit(LeafKind::kAsleep) | Bit(LeafKind::kDead) |
      Bit(LeafKind::kUnknown) | Bit(LeafKind::kMemory));
constexpr LeafMask kAwake = ~Bit(LeafKind::kAsleep);
constexpr size_t kMaxWaiters = 64;  // searched for what they wait for; the oldest tell enough

// A rank that works, only not on what the others wait for, gets more time.
constexpr uint64_t kActiveFactor = 3;
// Issued everywhere, and nothing moves; with kernels in front, these may just be long.
constexpr uint64_t kAllIssuedFactor = 3;
constexpr uint64_t kKernelFactor = 10;
// At the end of a job some destroy while others still write their results.
constexpr uint64_t kDestroyFactor = 12;

// Many ranks over a slow network take long to find each other.
constexpr uint64_t kInitFactor = 12;

constexpr char kMemoryWait[] = "memory-wait";
constexpr char kMismatchGrouping[] = "mismatch-grouping";
constexpr char kKernelInFront[] = "kernel-in-front";
constexpr char kCallMissing[] = "communicator-call-missing";
constexpr char kInitStuck[] = "communicator-init-stuck";

struct Reached {
  std::set<ProcessId> running;
  std::set<std::pair<ProcessId, int>> unknown;
  std::set<ProcessId> kernels;
  std::set<ProcessId> dead;
  std::set<ProcessId> memory;  // streams of which wait for a value that somebody unseen may write
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
    if (node.leaf == LeafKind::kKernel) reached.kernels.insert(node.process);
    if (node.leaf == LeafKind::kUnknown) reached.unknown.insert({node.process, node.comm});
    for (const WaitNode::Edge& edge : node.out) {
      // Who is already a member does not make the call a second time.
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
      if (node.kind == NodeKind::kKernelDone && !can[edge.to] && IsRendezvous(edge.reason)) {
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

  void NotJoined(const std::vector<bool>& can, uint32_t waiter);
  void Missing(const std::vector<bool>& can, uint32_t waiter);
  void NotWritten(const std::vector<bool>& can, uint32_t waiter, const std::set<ProcessId>& whose);
  void AllIssued(const std::vector<bool>& can, uint32_t waiter);
  void KernelInFront(const std::vector<bool>& without_kernels, uint32_t waiter);
  void InitStuck(const std::vector<bool>& can, uint32_t waiter);
  // False: the members of the launch's collectives do not hold them in different groups.
  bool GroupedDifferently(const std::vector<bool>& can, uint32_t waiter);
  std::vector<Finding> Take();

 private:
  struct Entry {
    Finding finding;
    std::set<int> culprits;
    std::vector<uint32_t> waiters;
    std::set<std::string> instead;
    std::string operation;
    std::string difference;  // of groups
  };

  Entry& Of(const char* check, const std::vector<bool>& can, uint32_t waiter) {
    auto [it, added] = entries_.try_emplace(check);
    if (added) {
      it->second.finding = MakeFinding(check, Confidence::kSuspected);
      it->second.operation =
          describer_.Operation(view_.graph.nodes()[LaunchBehind(view_.graph, can, waiter)]);
    }
    it->second.waiters.push_back(waiter);
    uint64_t& stalled = it->second.finding.stalled_at_ns;
    stalled = std::max(stalled, view_.graph.nodes()[waiter].since_ns);
    return it->second;
  }

  std::set<ProcessId> Roots(const std::vector<bool>& can, const std::set<ProcessId>& running);

  const RoundView& view_;
  Describer describer_;
  std::map<std::string, Entry> entries_;
  std::map<ProcessId, std::set<ProcessId>>
      held_by_;  // by way of threads that wait: others that run
};

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
  if (!inits.empty()) {
    // Missing calls of the deepest one explain the rest; with one they are the same.
    const InitCall& deepest = *inits.back();
    const WaitNode& node = view_.graph.nodes()[waiter];
    if (deepest.call == Call::kCommDestroy && view_.now_ns - std::min(view_.now_ns, node.since_ns) <
                                                  kDestroyFactor * view_.options.suspect_after_ns) {
      return;
    }
    Entry& entry = Of(MakesCommunicator(deepest.call) ? "communicator-init-missing" : kCallMissing,
                      can, waiter);
    entry.operation = view_.names.Init(deepest);
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
    const Process& process = *view_.graph.execution().Find(id);
    return view_.now_ns - std::min(view_.now_ns, process.last_progress_ns);
  };
  // Who has come to rest a little later than another is missed no less.
  const bool some = std::any_of(roots.begin(), roots.end(), [&](ProcessId id) {
    return idle_of(id) >= view_.options.suspect_after_ns;
  });
  for (ProcessId id : roots) {
    const Process& process = *view_.graph.execution().Find(id);
    const uint64_t idle = idle_of(id);
    const uint64_t age =
        view_.now_ns - std::min(view_.now_ns, view_.graph.nodes()[waiter].since_ns);
    if (idle < (some ? view_.options.suspect_after_ns / 2 : view_.options.suspect_after_ns) &&
        age < kActiveFactor * view_.options.suspect_after_ns) {
      continue;
    }
    bool in_call = false;
    for (const ThreadState& state : process.state.threads) {
      in_call |= state.gpu_thread && state.call_id != 0;
    }
    const uint64_t quiet = view_.now_ns - std::min(view_.now_ns, process.last_busy_ns);
    const bool asleep = !in_call && quiet >= view_.options.suspect_after_ns / 2;
    Entry& entry = Of(asleep ? "host-blocked" : "rank-not-joined", can, waiter);
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
    entry.instead.insert(describer_.Instead(id, nullptr));
  }
  if (view_.graph.nodes()[waiter].kind == NodeKind::kKernelDone) {
    NotWritten(can, waiter, reached.memory);
  }
  if (reached.running.empty() && reached.memory.empty() && !reached.unknown.empty()) {
    Missing(can, waiter);
  }
}

void Search::NotWritten(const std::vector<bool>& can, uint32_t waiter,
                        const std::set<ProcessId>& whose) {
  for (ProcessId id : whose) {
    Entry& entry = Of(kMemoryWait, can, waiter);
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
  }
}

void Search::Missing(const std::vector<bool>& can, uint32_t waiter) {
  Entry& entry = Of("evidence-missing", can, waiter);
  for (const auto& [id, comm] : Reach(view_.graph, can, waiter).unknown) {
    const Process* process = view_.graph.execution().Find(id);
    std::string what;
    if (process == nullptr) {
      what = "a member of " + (comm >= 0 ? view_.names.Comm(comm) : std::string("a communicator")) +
             " was never seen";
    } else if (process->Lossy()) {
      what = "records of " + view_.names.RankOf(id) + " were lost";
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
    if (process.Lossy()) lost.push_back("records of " + view_.names.RankOf(id) + " were lost");
  }
  Entry& entry = Of(lost.empty() ? "stuck-kernel" : "evidence-missing", can, waiter);
  auto& unseen = entry.finding.evidence.not_visible;
  unseen.insert(unseen.end(), lost.begin(), lost.end());
}

// Nothing but kernels of the program are in the way. Whoever has one to end is named, not who waits
// behind it.
void Search::KernelInFront(const std::vector<bool>& without_kernels, uint32_t waiter) {
  const std::set<ProcessId> kernels = Reach(view_.graph, without_kernels, waiter).kernels;
  bool sure = !kernels.empty();
  for (const auto& [id, process] : view_.graph.execution().processes()) {
    sure &= !process.Lossy() && process.info.markers_enabled;
  }
  if (!sure) {
    AllIssued(without_kernels, waiter);
    return;
  }
  Entry& entry = Of(kKernelInFront, without_kernels, waiter);
  for (ProcessId id : kernels) {
    for (int rank : view_.names.AllRanks(id)) entry.culprits.insert(rank);
  }
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
    Of(kInitStuck, can, waiter).operation = view_.names.Init(*init);
    return;
  }
}

bool Search::GroupedDifferently(const std::vector<bool>& can, uint32_t waiter) {
  // What was lost may be what holds it up instead.
  for (const auto& [id, process] : view_.graph.execution().processes()) {
    if (process.Lossy()) return false;
  }
  const Kernel& kernel = *view_.graph.execution().FindKernel(view_.graph.nodes()[waiter].kernel);
  for (const Part& part : kernel.parts) {
    const std::vector<GroupingCamp> camps =
        GroupingCamps(view_.graph.execution(), view_.graph.matcher(), part.ref);
    if (camps.size() < 2) continue;
    Entry& entry = Of(kMismatchGrouping, can, waiter);
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
    if (entry.difference.empty()) {
      entry.difference = difference;
      entry.operation = view_.names.Operation(part.signature.call, part.ref);
    }
    return true;
  }
  return false;
}

std::vector<Finding> Search::Take() {
  std::vector<Finding> findings;
  for (auto& [check, entry] : entries_) {
    Finding& finding = entry.finding;
    finding.culprit_ranks.assign(entry.culprits.begin(), entry.culprits.end());
    std::set<int> victims;
    for (uint32_t n : entry.waiters) victims.insert(describer_.RankOf(view_.graph.nodes()[n]));
    for (int rank : finding.culprit_ranks) victims.erase(rank);
    victims.erase(-1);
    finding.victim_ranks.assign(victims.begin(), victims.end());
    finding.operations = describer_.Operations(entry.waiters);
    if (check == kKernelInFront) {  // nothing but a kernel is in front, which counts as being there
      for (StuckOperation& operation : finding.operations) {
        for (OperationMember& member : operation.members) {
          if (entry.culprits.count(member.rank) > 0 && member.state == PartState::kAtHead)
            member.state = PartState::kEnqueued;
        }
      }
    }
    if (finding.verdict == VerdictKind::kInitHang || check == kCallMissing) {
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
    const std::string who = RankList(finding.culprit_ranks, true);
    const std::string waiting = victims.empty() ? "others wait"
                                                : RankList(finding.victim_ranks) +
                                                      (victims.size() == 1 ? " waits" : " wait");
    std::string instead;
    for (const std::string& text : entry.instead) instead += (instead.empty() ? "" : "; ") + text;
    const bool one = finding.culprit_ranks.size() == 1;
    switch (finding.verdict) {
      case VerdictKind::kInitHang:
        if (check == kInitStuck) {
          finding.summary = "Every member has called " + entry.operation +
                            ", and it does not come back; " + waiting + " in it.";
          break;
        }
        finding.summary = who + (one ? " has" : " have") + " not made " + entry.operation + "; " +
                          waiting + " in it" + (instead.empty() ? "" : " (" + instead + ")") + ".";
        break;
      case VerdictKind::kRankNotJoined:
      case VerdictKind::kHostBlocked:
        if (victims.empty() && !one) {  // each of them is somebody whom another waits for
          finding.summary = who + " have not joined what others of them wait in, " +
                            entry.operation + " for one.";
          break;
        }
        finding.summary = who + (one ? " has" : " have") + " not joined " + entry.operation +
                          (one && !instead.empty() ? ", it " + instead : "") + "; " + waiting + ".";
        break;
      case VerdictKind::kMismatch:
        finding.summary = "The groups that " + entry.operation +
                          " is in differ: " + entry.difference + "; " + waiting + ".";
        break;
      case VerdictKind::kStuckKernel:
        if (check == kMemoryWait) {
          finding.summary = (one ? "A stream of " : "Streams of ") +
                            RankList(finding.culprit_ranks) + (one ? " waits" : " wait") +
                            " for a value in memory that has not come, and " + entry.operation +
                            " waits for that" + (victims.empty() ? "." : "; " + waiting + ".");
          break;
        }
        if (check == kKernelInFront) {
          finding.summary =
              (one ? "A kernel or host function of " : "Kernels or host functions of ") +
              RankList(finding.culprit_ranks) + (one ? " does" : " do") + " not end, and " +
              entry.operation + " waits for that" + (victims.empty() ? "." : "; " + waiting + ".");
          break;
        }
        finding.summary = "Nothing ends although " + entry.operation +
                          " has been issued by all that it needs; " + waiting + ".";
        break;
      default:
        finding.summary = "What " + waiting + " for" +
                          (entry.operation.empty() ? "" : " in " + entry.operation) +
                          " was not seen" + (unseen.empty() ? "" : ": " + unseen.front()) + ".";
        break;
    }
    findings.push_back(std::move(finding));
  }
  return findings;
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
  if (witness.empty()) return;
  // Who is already a member does not make the call a second time; and who writes memory nobody
  // sees.
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
  if (witness.empty()) return;
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

std::vector<Finding> FindSuspicions(const RoundView& view, const std::vector<bool>& stuck) {
  const WaitForGraph& graph = view.graph;
  const uint64_t threshold = view.options.suspect_after_ns;
  std::vector<uint32_t> old;
  auto age = [&](uint32_t n) {
    return view.now_ns - std::min(view.now_ns, graph.nodes()[n].since_ns);
  };
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
    if (!can[n]) {
      search.NotJoined(can, n);
    } else if (graph.nodes()[n].kind == NodeKind::kThread) {
      if (age(n) >= kInitFactor * threshold) search.InitStuck(can, n);
    } else if (graph.nodes()[n].kind == NodeKind::kKernelDone) {
      const Kernel* kernel = graph.execution().FindKernel(graph.nodes()[n].kernel);
      bool mismatched = false;
      if (kernel != nullptr && kernel->comm_index >= 0) {
        const Communicator& comm = graph.matcher().comms()[kernel->comm_index];
        mismatched = comm.collective_mismatch >= 0 || comm.transfer_mismatch >= 0 ||
                     (comm.operator_mismatch >= 0 &&
                      !graph.matcher().mismatches()[comm.operator_mismatch].completed);
      }
      if (mismatched || kernel == nullptr || !kernel->enqueued) continue;
      if (without_kernels[n] && search.GroupedDifferently(can, n)) continue;
      if (age(n) >= (without_kernels[n] ? kAllIssuedFactor : kKernelFactor) * threshold) {
        // Kernels might have written what a stream waits for; after so long that is the likelier
        // story.
        const std::set<ProcessId> memory = Reach(graph, without_kernels, n).memory;
        if (memory.empty() && without_kernels[n]) {
          search.AllIssued(can, n);
        } else if (memory.empty()) {
          search.KernelInFront(without_kernels, n);
        } else {
          search.NotWritten(without_kernels, n, memory);
        }
      }
    }
  }
  return search.Take();
}

}  // namespace gordian::graph
