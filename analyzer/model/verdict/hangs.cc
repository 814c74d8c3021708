#include "analyzer/model/verdict/hangs.h"

#include <algorithm>
#include <set>

#include "analyzer/model/match/wrong_peer.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/culprits.h"
#include "proto/ring/tagged_number.h"

namespace gordian::model {
namespace {

constexpr size_t kMaxCycles = 4;   // reported at most
constexpr int kMaxWitnesses = 16;  // tried at most
// Ranks that end well end one after another: waits for all of them before it names the missing
// ones.
constexpr uint64_t kSettleNs = 1'000'000'000;

constexpr LeafMask kEveryLeaf = ~LeafMask{0};

void Remove(const std::vector<int>& ranks, std::set<int>* from) {
  for (int rank : ranks) from->erase(rank);
}

std::string CycleSummary(const std::vector<Arrow>& arrows) {
  std::set<int> ranks;
  for (const Arrow& arrow : arrows) ranks.insert(arrow.edge.rank);
  const std::vector<int> list(ranks.begin(), ranks.end());
  std::string text = RankList(list, true) + (list.size() == 1   ? " waits for itself: "
                                             : list.size() == 2 ? " wait for each other: "
                                                                : " wait for each other: ");
  const size_t shown = std::min<size_t>(arrows.size(), 4);
  for (size_t i = 0; i < shown; ++i) {
    const Arrow& arrow = arrows[i];
    const Arrow& before = arrows[(i + arrows.size() - 1) % arrows.size()];
    if (i > 0) text += "; ";
    text += "rank " + std::to_string(arrow.edge.rank) + " is in " + arrow.operation +
            " and has not " + (before.not_called ? "called " : "reached ") + before.Awaited();
  }
  if (shown < arrows.size()) text += "; and so on";
  return text + ".";
}

// The rank that the thread waits as, and those that it has yet to call for.
std::vector<int> OwnRanks(const Arrow& arrow) {
  std::vector<int> ranks = arrow.missing;
  ranks.push_back(arrow.edge.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string OneThreadSummary(const Arrow& arrow) {
  return "One thread calls " + arrow.operation + " for " + RankList(OwnRanks(arrow)) +
         ": it waits for the call of rank " + std::to_string(arrow.edge.rank) +
         " before it calls for " + RankList(arrow.missing) + ".";
}

constexpr char kComparePeers[] =
    "Compare the peers first: a send has no receive, and a receive of another rank, as long, has "
    "no send. Only if both peers are right, change the order of the calls, or add the missing one.";
constexpr char kEqualCalls[] =
    "See why that rank makes a call more or less than the others: an input of another length, a "
    "branch that it takes alone, an early return. Equal calls at every rank mend it; another order "
    "does not.";
constexpr char kMixedOrder[] =
    "Call the transfer and the collective in one order at every rank that makes both, or on "
    "streams that do not wait for each other.";
constexpr char kCompareTags[] =
    "Compare the tags first: a send and a receive between the same two ranks have met no partner, "
    "and a receive takes only a send of its own tag.";
constexpr char kTransfersInTurn[] =
    "Let one of two ranks send first and the other receive first, or issue both transfers "
    "(batch_isend_irecv, isend and irecv) before either is waited for.";
constexpr char kGroupsInOneOrder[] =
    "Call the operations of these groups in one order at every rank. Where a rank makes a call "
    "that others do not make, look for a branch that it takes alone.";
constexpr char kAllMakeGroups[] =
    "Have every rank of the job call new_group, also those that are no members, and in one order "
    "with their other calls.";
constexpr char kConnectTogether[] =
    "Put the sends and receives that ranks exchange between ncclGroupStart and ncclGroupEnd, so "
    "that both directions connect at once, or let each send meet its receive: one rank sends "
    "first, the other receives first.";

// The peer that the part waits for has called as much with another rank, which has not met it.
bool PeerCalledAnother(const Matcher& matcher, const PartRef& part) {
  if (part.comm < 0) return false;
  const Communicator& comm = matcher.comms()[part.comm];
  const Transfer* const own = matcher.FindTransfer(part);
  const bool sends = part.kind == PartKind::kSend;
  if (comm.unsure || comm.opaque || own == nullptr) return false;
  const MemberSlot& waits = sends ? own->send : own->receive;
  if ((sends ? own->receive : own->send).Called()) return false;
  for (const auto& [pair, channel] : comm.transfers) {
    const auto& [source, destination] = pair;
    if ((sends ? destination : source) != part.peer || (sends ? source : destination) == part.rank)
      continue;
    for (const auto& [sequence, other] : channel) {
      if (other.send.Called() == other.receive.Called()) continue;
      const MemberSlot& end = sends ? other.receive : other.send;
      if (end.Called() && Bytes(end.signature) == Bytes(waits.signature)) return true;
      break;  // what follows on the channel follows from it
    }
  }
  return false;
}

// The peer has called the other end with another tag, and that has met no partner either.
bool PeerCalledAnotherTag(const Matcher& matcher, const PartRef& part) {
  if (part.comm < 0) return false;
  const Communicator& comm = matcher.comms()[part.comm];
  const bool sends = part.kind == PartKind::kSend;
  const auto channel = comm.transfers.find(sends ? std::pair(part.rank, part.peer)
                                                 : std::pair(part.peer, part.rank));
  if (channel == comm.transfers.end()) return false;
  return std::any_of(channel->second.begin(), channel->second.end(), [&](const auto& entry) {
    const auto& [number, transfer] = entry;
    const bool peer_called = (sends ? transfer.receive : transfer.send).Called();
    const bool own_called = (sends ? transfer.send : transfer.receive).Called();
    return number >> ring::kTagShift != part.sequence >> ring::kTagShift && peer_called &&
           !own_called;
  });
}

// Where the check's own advice is too general, or another mistake is the likelier one; else null.
const char* AdviceFor(const std::string& check, const std::vector<Arrow>& arrows,
                      const Matcher& matcher, const Culprits& culprits) {
  bool transfer = false, collective = false, other = false, peer = false, tag = false;
  for (const Arrow& arrow : arrows) {
    if (arrow.init != nullptr && arrow.init->parent >= 0 &&
        matcher.comms()[static_cast<size_t>(arrow.init->parent)].host)
      return kAllMakeGroups;
    const bool is_collective =
        arrow.part != nullptr && arrow.part->ref.kind == PartKind::kCollective;
    other |= arrow.part == nullptr;
    collective |= is_collective;
    transfer |= arrow.part != nullptr && !is_collective;
    if (arrow.part != nullptr && !is_collective) {
      peer |= MeantAnotherPeer(matcher, arrow.part->ref) != WrongPeer::kNo ||
              PeerCalledAnother(matcher, arrow.part->ref);
      tag |= PeerCalledAnotherTag(matcher, arrow.part->ref);
    }
  }
  if (tag) return kCompareTags;
  if (peer) return kComparePeers;
  if (!culprits.why.empty()) return kEqualCalls;
  if (check == "first-use-order-cycle" && transfer && !collective && !other)
    return kConnectTogether;
  if (check == "point-to-point-order-cycle" && transfer && collective) return kMixedOrder;
  // No stream has a part in it.
  const auto in_host_operation = [](const Arrow& arrow) {
    return arrow.local.contains(Reason::kHostOperation);
  };
  if (!std::all_of(arrows.begin(), arrows.end(), in_host_operation)) return nullptr;
  if (transfer && !collective && !other) return kTransfersInTurn;
  return check == "communicator-order-cycle" ? kGroupsInOneOrder : nullptr;
}

// Calls of ncclCommInitRank that wait for members of which nothing says which processes they are:
// more processes that wait in such calls may be meant than places are free.
struct UnnamedCalls {
  std::vector<const InitCall*> calls;  // empty: the witness names every member
  std::set<int> callers;
};

std::string UnnamedSummary(const UnnamedCalls& unnamed) {
  const std::vector<int> ranks(unnamed.callers.begin(), unnamed.callers.end());
  return RankList(ranks, true) + " wait for each other: each is in one of " +
         std::to_string(unnamed.calls.size()) +
         " calls that make communicators, and the members that these lack are in the others.";
}

const char* CycleCheck(const std::vector<Arrow>& arrows) {
  bool transfer = false, first_use = false, host = false, event = false, send = false;
  bool memory = false, resources = false, signal = false, collective = false, only_host = true;
  for (const Arrow& arrow : arrows) {
    memory |= arrow.edge.reason == Reason::kMemoryWait;
    send |= arrow.edge.reason == Reason::kSend;
    signal |= arrow.edge.reason == Reason::kSignal;
    first_use |= arrow.edge.reason == Reason::kFirstUse;
    transfer |= arrow.part != nullptr && arrow.part->ref.kind != PartKind::kCollective;
    collective |= arrow.part != nullptr && arrow.part->ref.kind == PartKind::kCollective;
    bool by_host = false;
    for (Reason reason : arrow.local) {
      by_host |= reason == Reason::kHostSync || reason == Reason::kHostFree ||
                 reason == Reason::kHostCopy || reason == Reason::kPolling;
      event |= reason == Reason::kEventWait;
      resources |= reason == Reason::kResources;
    }
    host |= by_host;
    only_host &= by_host;
  }
  if (resources) return "resource-cycle";
  if (memory) return "memory-wait-cycle";
  if (signal) return "signal-order-cycle";
  if (send) return "unbuffered-send-cycle";
  if (first_use) return "first-use-order-cycle";
  // Of a transfer and a collective whose ranks wait on the host for one before they call the other,
  // no order of sends and receives is the matter.
  if (transfer && !(collective && only_host)) return "point-to-point-order-cycle";
  if (event) return "event-cycle";
  return host ? "host-wait-cycle" : "communicator-order-cycle";
}

UnnamedCalls FindUnnamed(const RoundView& view, const std::vector<bool>& can,
                         const std::vector<WitnessStep>& witness) {
  UnnamedCalls unnamed;
  const auto& nodes = view.graph.nodes();
  std::set<ProcessId> waiting;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].kind != NodeKind::kInit || can[n]) continue;
    const InitCall* const init = view.graph.matcher().FindInit(nodes[n].init);
    if (init == nullptr || init->parent >= 0) continue;
    unnamed.calls.push_back(init);
    for (const InitMember& member : init->members) {
      if (!member.called) continue;
      unnamed.callers.insert(view.names.Rank(member.process, member.device));
      waiting.insert(member.process);
    }
  }
  const auto open = [&](const WitnessStep& step) {
    const WaitNode& node = nodes[step.node];
    const InitCall* const init =
        node.kind == NodeKind::kAnyProcess ? view.graph.matcher().FindInit(node.init) : nullptr;
    if (init == nullptr) return false;
    std::set<ProcessId> others = waiting;
    for (const InitMember& member : init->members) others.erase(member.process);
    return others.size() > init->members.size() - static_cast<size_t>(init->called);
  };
  if (std::none_of(witness.begin(), witness.end(), open)) return {};
  return unnamed;
}

// Callers of one call and of another that lack exactly each other's ranks: the fewer have taken
// another id, or another turn. Empty: no such two.
std::set<int> FewerOfTwoCalls(const std::map<CommUid, const InitCall*>& inits, const Names& names) {
  if (inits.size() != 2) return {};
  const InitCall* most = inits.begin()->second;
  const InitCall* fewer = inits.rbegin()->second;
  if (most->called < fewer->called) std::swap(most, fewer);
  if (most->called == fewer->called || most->parent >= 0 || fewer->parent >= 0 ||
      most->members.size() != fewer->members.size()) {
    return {};
  }
  std::set<int> ranks;
  for (size_t r = 0; r < most->members.size(); ++r) {
    if (most->members[r].called == fewer->members[r].called) return {};
    const InitMember& member = fewer->members[r];
    if (member.called) ranks.insert(names.Rank(member.process, member.device));
  }
  return ranks;
}

// The ranks that have called the collectives of the cycle.
std::set<int> CalledInstead(const RoundView& view, const std::vector<Arrow>& arrows) {
  std::set<int> ranks;
  for (const Arrow& arrow : arrows) {
    if (arrow.part == nullptr || arrow.part->ref.kind != PartKind::kCollective) continue;
    const Communicator& comm = view.graph.matcher().comms()[arrow.part->ref.comm];
    const auto instance = comm.instances.find(arrow.part->ref.sequence);
    if (instance == comm.instances.end()) continue;
    for (size_t r = 0; r < instance->second.members.size(); ++r) {
      if (instance->second.members[r].Called())
        ranks.insert(view.names.MemberRank(arrow.part->ref.comm, static_cast<int>(r)));
    }
  }
  return ranks;
}

// `stuck`: ranks that something holds up.
std::vector<int> InitCulprits(const RoundView& view, const std::vector<Arrow>& arrows,
                              bool all_inits, const std::set<int>& stuck) {
  const Names& names = view.names;
  std::set<int> culprits, everyone;
  std::map<CommUid, const InitCall*> inits;
  bool child = false;
  for (const Arrow& arrow : arrows) {
    everyone.insert(arrow.edge.rank);
    if (arrow.init == nullptr) continue;
    inits[arrow.init->uid] = arrow.init;
    child |= arrow.init->parent >= 0;
  }
  std::map<CommUid, std::set<int>> callers;
  for (const auto& [uid, init] : inits) {
    for (const InitMember& member : init->members) {
      if (!member.called) continue;
      const int rank = names.Rank(member.process, member.device);
      callers[uid].insert(rank);
      everyone.insert(rank);
    }
  }
  if (!all_inits) {
    const std::vector<int> fewer = FewerInOrder(view.graph, names, arrows);
    if (!fewer.empty()) return fewer;
    // Most members are in the call; those of the cycle that are not deviate. But when more members
    // than have called it can no longer join, the call is one too many.
    const std::set<int> instead = CalledInstead(view, arrows);
    std::set<int> absent;  // in the cycle's collectives instead
    bool too_many = true, tied = true;
    for (const auto& [uid, init] : inits) {
      int held_up = 0, elsewhere = 0;
      for (size_t r = 0; r < init->members.size() && init->parent >= 0; ++r) {
        if (init->members[r].called) continue;
        const int rank = names.MemberRank(init->parent, static_cast<int>(r));
        held_up += stuck.contains(rank);
        if (!instead.contains(rank)) continue;
        absent.insert(rank);
        ++elsewhere;
      }
      too_many &= init->called < held_up;
      tied &= init->called == elsewhere;
    }
    for (const Arrow& arrow : arrows) {
      if ((arrow.init != nullptr) == too_many) culprits.insert(arrow.edge.rank);
    }
    if (!too_many) culprits.insert(absent.begin(), absent.end());
    // As many have called the one as the other: either may be the mistake.
    if (!too_many && tied) {
      culprits = everyone;
      culprits.insert(instead.begin(), instead.end());
    }
  } else if (child) {
    size_t most = 0, second = 0;
    CommUid usual = 0;
    for (const auto& [uid, ranks] : callers) {
      if (ranks.size() > most) {
        second = most;
        most = ranks.size();
        usual = uid;
      } else {
        second = std::max(second, ranks.size());
      }
    }
    if (most > second) {
      for (const auto& [uid, ranks] : callers) {
        if (uid != usual) culprits.insert(ranks.begin(), ranks.end());
      }
    }
  } else {
    culprits = FewerOfTwoCalls(inits, names);
  }
  if (culprits.empty()) culprits = everyone;
  return {culprits.begin(), culprits.end()};
}

}  // namespace

void Force(const std::vector<WitnessStep>& witness, std::vector<bool>* forced) {
  for (const WitnessStep& step : witness) (*forced)[step.node] = true;
}

Hang CycleHang(const RoundView& view, const std::vector<bool>& can,
               const std::vector<bool>& without, const std::vector<WitnessStep>& witness,
               const std::vector<bool>& proven) {
  const Describer describer(view.graph, view.names);
  std::vector<Arrow> arrows = describer.Arrows(witness);
  // A cycle has no beginning: start at the lowest rank, so that the same one always reads the same.
  std::rotate(
      arrows.begin(),
      std::min_element(arrows.begin(), arrows.end(),
                       [](const Arrow& a, const Arrow& b) { return a.edge.rank < b.edge.rank; }),
      arrows.end());
  Hang hang;
  hang.witness = witness;
  size_t inits = 0;
  bool makes = false;
  for (const Arrow& arrow : arrows) {
    inits += arrow.init != nullptr;
    makes |= arrow.init != nullptr && MakesCommunicator(arrow.init->call);
  }
  const bool alone = arrows.size() == 1 && arrows.front().same_thread;
  const char* check = alone                    ? "group-missing"
                      : inits == 0             ? CycleCheck(arrows)
                      : !makes                 ? "communicator-call-order"
                      : inits == arrows.size() ? "communicator-init-order"
                                               : "communicator-init-missing";
  hang.finding = MakeFinding(check, Confidence::kSuspected);
  Finding& finding = hang.finding;
  const Culprits culprits =
      makes
          ? Culprits{InitCulprits(view, arrows, inits == arrows.size(), describer.StuckRanks(can)),
                     ""}
          : FindCulprits(view.graph, view.names, arrows);
  finding.culprit_ranks = alone ? OwnRanks(arrows.front()) : culprits.ranks;
  const UnnamedCalls unnamed =
      inits == arrows.size() ? FindUnnamed(view, can, witness) : UnnamedCalls();
  if (!unnamed.calls.empty()) {
    finding.culprit_ranks.assign(unnamed.callers.begin(), unnamed.callers.end());
  }
  std::vector<bool> unaffected = can;  // can move, or is stuck for another reason too
  for (size_t i = 0; i < unaffected.size(); ++i) unaffected[i] = can[i] || !without[i];
  std::set<int> victims = describer.StuckRanks(unaffected);
  for (const Arrow& arrow : arrows) victims.insert(arrow.edge.rank);
  Remove(finding.culprit_ranks, &victims);
  finding.victim_ranks.assign(victims.begin(), victims.end());
  for (const Arrow& arrow : arrows) {
    if (unnamed.calls.empty()) finding.cycle.push_back(arrow.edge);
    hang.identity += std::to_string(arrow.edge.rank) + ">" +
                     std::to_string(arrow.edge.waits_for_rank) + " " + arrow.operation + "; ";
  }
  finding.summary = !unnamed.calls.empty() ? UnnamedSummary(unnamed)
                    : alone                ? OneThreadSummary(arrows.front())
                                           : CycleSummary(arrows);
  if (!alone && !culprits.why.empty()) finding.summary += " " + culprits.why;
  if (const char* const advice = AdviceFor(check, arrows, view.graph.matcher(), culprits))
    finding.advice = advice;
  std::vector<uint32_t> stuck;
  for (const WitnessStep& step : witness) stuck.push_back(step.node);
  for (uint32_t n : view.graph.waiters()) {
    if (!can[n] && (without[n] || !unnamed.calls.empty())) stuck.push_back(n);
  }
  finding.operations = describer.Operations(stuck);
  std::vector<uint32_t> leaves;
  hang.proof =
      MakeProof(view.graph, view.names, ProofOf(view.graph, proven, witness, &leaves), leaves);
  finding.evidence.assumes = hang.proof.assumes;
  finding.evidence.not_visible = hang.proof.missing;
  finding.stalled_at_ns = hang.proof.stalled_at_ns;
  return hang;
}

namespace {

struct Ends {
  std::set<ProcessId> processes;
  std::set<std::pair<ProcessId, int>> members;  // the members, with their communicator
};

Ends EndsOf(const WaitForGraph& graph, const std::vector<bool>& can,
            const std::vector<uint32_t>& from) {
  Ends ends;
  std::vector<bool> seen(graph.nodes().size(), false);
  std::vector<uint32_t> work = from;
  while (!work.empty()) {
    const uint32_t n = work.back();
    work.pop_back();
    if (seen[n]) continue;
    seen[n] = true;
    const WaitNode& node = graph.nodes()[n];
    if (node.kind == NodeKind::kLeaf) {
      ends.processes.insert(node.process);
      ends.members.insert({node.process, node.comm});
    }
    for (const WaitNode::Edge& edge : node.out) {
      if (!can[edge.to]) work.push_back(edge.to);
    }
  }
  return ends;
}

bool EndedWell(const Process& process) {
  return process.ended && process.exit_kind == ExitKind::kCode && process.exit_value == 0;
}

void AddRanks(const Names& names, ProcessId process, std::set<int>* ranks) {
  for (int rank : names.AllRanks(process)) ranks->insert(rank);
}

// The callers of what one of `waiters` waits in, where at least half of its members have not called
// it.
struct FewCallers {
  enum class Fault {
    kOpen,     // other members may still call, or go as well
    kCallers,  // all others have ended or destroyed the communicator, and are more
    kEither,  // likewise, and are as many: they may have issued one too few, or the callers one too
              // many
  };
  std::set<int> ranks;  // empty: there is no such operation
  Fault fault = Fault::kOpen;
};

FewCallers FindFewCallers(const RoundView& view, const std::vector<uint32_t>& waiters,
                          const std::set<int>& gone) {
  for (const uint32_t n : waiters) {
    const Launch* launch = view.graph.execution().FindLaunch(view.graph.nodes()[n].launch);
    for (size_t i = 0; launch != nullptr && i < launch->parts.size(); ++i) {
      const PartRef& ref = launch->parts[i].ref;
      if (ref.comm < 0) continue;
      if (ref.kind != PartKind::kCollective) {
        if (!gone.contains(view.names.MemberRank(ref.comm, ref.peer))) continue;
        return {{view.names.MemberRank(ref.comm, ref.rank)}, FewCallers::Fault::kEither};
      }
      const Instance* instance = view.graph.matcher().FindInstance(ref.comm, ref.sequence);
      if (instance == nullptr) continue;
      const size_t called = static_cast<size_t>(instance->called);
      const size_t missing = instance->members.size() - called;
      if (missing == 0) continue;  // another part of the group
      const bool all_gone = missing == gone.size();
      if (missing < called || (missing == called && !all_gone)) return {};
      FewCallers few;
      if (all_gone) {
        few.fault = missing > called ? FewCallers::Fault::kCallers : FewCallers::Fault::kEither;
      }
      for (size_t r = 0; r < instance->members.size(); ++r) {
        if (instance->members[r].state == SlotState::kNone) continue;
        few.ranks.insert(view.names.MemberRank(ref.comm, static_cast<int>(r)));
      }
      return few;
    }
  }
  return {};
}

// Ranks that wait in a transfer with one of `ended`, seemingly meant for another peer.
std::set<int> MistakenAboutPeers(const RoundView& view, const std::vector<uint32_t>& waiters,
                                 const std::set<int>& ended, WrongPeer how_likely) {
  std::set<int> mistaken;
  for (const uint32_t n : waiters) {
    const Launch* launch = view.graph.execution().FindLaunch(view.graph.nodes()[n].launch);
    for (size_t i = 0; launch != nullptr && i < launch->parts.size(); ++i) {
      const PartRef& ref = launch->parts[i].ref;
      if (ref.kind == PartKind::kCollective || ref.comm < 0) continue;
      if (ended.count(view.names.MemberRank(ref.comm, ref.peer)) == 0) continue;
      if (MeantAnotherPeer(view.graph.matcher(), ref) < how_likely) continue;
      mistaken.insert(view.names.MemberRank(ref.comm, ref.rank));
    }
  }
  return mistaken;
}

// The one of `waiters` with the fewest waits between it and a leaf of the kind; the first of several.
uint32_t NearestWaiter(const WaitForGraph& graph, const std::vector<bool>& can, LeafKind kind,
                       const std::vector<uint32_t>& waiters) {
  std::vector<std::vector<uint32_t>> waited_by(graph.nodes().size());
  std::vector<uint32_t> reached;
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) {
    const WaitNode& node = graph.nodes()[n];
    if (can[n]) continue;
    if (node.kind == NodeKind::kLeaf && node.leaf == kind) reached.push_back(n);
    for (const WaitNode::Edge& edge : node.out) waited_by[edge.to].push_back(n);
  }
  std::vector<uint32_t> distance(graph.nodes().size(), UINT32_MAX);
  for (const uint32_t leaf : reached) distance[leaf] = 0;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const uint32_t n : waited_by[reached[i]]) {
      if (distance[n] != UINT32_MAX) continue;
      distance[n] = distance[reached[i]] + 1;
      reached.push_back(n);
    }
  }
  return *std::min_element(waiters.begin(), waiters.end(),
                           [&](uint32_t a, uint32_t b) { return distance[a] < distance[b]; });
}

// "ranks 0 and 1 wait in AllReduce #3 on dp, and rank 2 behind them", where `nearest` waits in that
// AllReduce.
std::string WhoWaits(const Describer& describer, const WaitForGraph& graph, uint32_t nearest,
                     const std::vector<uint32_t>& waiters, const std::set<int>& victims) {
  const std::string operation = describer.Operation(graph.nodes()[nearest]);
  if (victims.empty()) return "other ranks wait in " + operation;
  std::set<int> inside;
  for (const uint32_t n : waiters) {
    const WaitNode& node = graph.nodes()[n];
    const int rank = describer.RankOf(node);
    if (victims.contains(rank) && describer.Operation(node) == operation) inside.insert(rank);
  }
  if (inside.empty()) inside = victims;
  std::vector<int> behind;
  for (const int rank : victims) {
    if (!inside.contains(rank)) behind.push_back(rank);
  }
  std::string text = RankList({inside.begin(), inside.end()}) +
                     (inside.size() == 1 ? " waits in " : " wait in ") + operation;
  if (!behind.empty())
    text += ", and " + RankList(behind) + " behind " + (inside.size() == 1 ? "it" : "them");
  return text;
}

// One finding for everything that is stuck because of leaves of one kind.
void FindEnds(const RoundView& view, LeafKind kind, const std::vector<bool>& without,
              std::vector<bool>* stuck, std::vector<Hang>* hangs) {
  const WaitForGraph& graph = view.graph;
  const std::vector<bool> can = graph.Decide(kEveryLeaf & ~Bit(kind));
  std::vector<uint32_t> waiters;
  for (uint32_t n : graph.waiters()) {
    if (!can[n] && without[n]) waiters.push_back(n);
  }
  if (waiters.empty()) return;
  std::stable_sort(waiters.begin(), waiters.end(), [&](uint32_t a, uint32_t b) {
    return graph.nodes()[a].since_ns < graph.nodes()[b].since_ns;
  });
  const Ends ends = EndsOf(graph, can, waiters);
  const Describer describer(graph, view.names);
  Hang hang;
  std::set<int> culprits;
  std::set<int> named;  // blamed instead: they issued an operation too many
  std::string what;
  // Members that go on in their own code may decide who is at fault: they get longer.
  const auto settle = [&](const FewCallers& few) {
    const bool open = !few.ranks.empty() && few.fault == FewCallers::Fault::kOpen;
    return open ? std::max(kSettleNs, view.options.suspect_after_ns) : kSettleNs;
  };
  switch (kind) {
    case LeafKind::kAborted: {
      uint64_t first = UINT64_MAX;
      for (const auto& [process, comm] : ends.members) {
        if (comm < 0) continue;
        for (const CommMember& member : graph.matcher().comms()[comm].members) {
          if (member.process != process || !member.aborted || member.left_ns >= first) continue;
          first = member.left_ns;
          culprits = {view.names.Rank(process, member.device)};
        }
      }
      hang.finding = MakeFinding("rank-aborted", Confidence::kSuspected);
      what = " aborted the communicator";
      break;
    }
    case LeafKind::kLeft: {
      uint64_t last = 0;
      for (const auto& [process, comm] : ends.members) {
        if (comm < 0) continue;
        for (const CommMember& member : graph.matcher().comms()[comm].members) {
          if (member.process != process || !member.left) continue;
          last = std::max(last, member.left_ns);
          culprits.insert(view.names.Rank(process, member.device));
        }
      }
      const FewCallers few = FindFewCallers(view, waiters, culprits);
      hang.finding = MakeFinding("rank-left", Confidence::kSuspected);
      hang.ripe = view.Lasted(last) >= settle(few);
      if (few.fault == FewCallers::Fault::kCallers) named = few.ranks;
      what = " destroyed the communicator without it";
      break;
    }
    case LeafKind::kDead: {
      const Process* first = nullptr;  // the first that ended badly
      bool how_known = true;           // how each has ended
      FewCallers few;
      uint64_t last = 0;
      auto ended = [](const Process& p) { return p.ended ? p.ended_ns : p.last_record_ns; };
      for (ProcessId id : ends.processes) {
        const Process* process = graph.execution().Find(id);
        if (process == nullptr || !process->Dead()) continue;
        last = std::max(last, ended(*process));
        how_known &= process->ended;
        if (process->ended && !EndedWell(*process) &&
            (first == nullptr || ended(*process) < ended(*first))) {
          first = process;
        }
      }
      if (first != nullptr) {
        AddRanks(view.names, first->info.process, &culprits);
        // A person or script may have killed it because of the reported hang.
        const bool perhaps_us = view.finding_stands && first->exit_kind == ExitKind::kSignal;
        hang.ripe = !perhaps_us || view.Lasted(ended(*first)) >= 2 * kSettleNs;
        what = std::string(" ") + describer.Instead(first->info.process, nullptr);
      } else {
        for (ProcessId id : ends.processes) AddRanks(view.names, id, &culprits);
        few = FindFewCallers(view, waiters, culprits);
        hang.ripe = view.Lasted(last) >= settle(few);
        what = culprits.size() == 1 ? " has exited with code 0" : " have exited with code 0";
      }
      bool peers = false;  // what is wrong may be a peer
      if (first == nullptr) {
        if (few.fault == FewCallers::Fault::kCallers) named = few.ranks;
        if (named.empty()) {
          named = MistakenAboutPeers(view, waiters, culprits, WrongPeer::kLikely);
          peers = !named.empty();
        }
      }
      hang.finding = MakeFinding("rank-exited", Confidence::kSuspected);
      if (few.fault != FewCallers::Fault::kOpen) hang.finding.advice = kEqualCalls;
      if (first == nullptr && named.empty()) {  // either may be at fault
        named = MistakenAboutPeers(view, waiters, culprits, WrongPeer::kPossible);
        peers = !named.empty();
        if (named.empty()) named = few.ranks;
        if (!named.empty()) named.insert(culprits.begin(), culprits.end());
      }
      if (peers) hang.finding.advice = kComparePeers;
      hang.ripe &= how_known;
      // Others wait because gordian acted: for a launcher, which ends them or starts all again.
      if (first != nullptr && first->exit_kind == ExitKind::kGordian) hang.ripe = false;
      hang.ended = ends.processes;
      break;
    }
    default: {
      hang.finding = MakeFinding("rank-stopped", Confidence::kSuspected);
      hang.confirmable = false;
      for (ProcessId id : ends.processes) {
        const Process* process = graph.execution().Find(id);
        if (process == nullptr || process->stopped_since_ns == 0) continue;
        if (view.Lasted(process->stopped_since_ns) < view.options.suspect_after_ns) continue;
        AddRanks(view.names, id, &culprits);
      }
      bool any_runs = false;  // if every process is stopped, a person stopped the job
      for (const auto& [id, process] : graph.execution().processes()) {
        any_runs |= !process.Dead() && process.has_state && !process.state.stopped;
      }
      hang.ripe = any_runs;
      what = culprits.size() == 1 ? " is stopped" : " are stopped";
      break;
    }
  }
  // The process ended before it had a rank, and another may take its place: leave this to
  // suspicions.
  if (kind == LeafKind::kDead && culprits.empty()) return;
  if (culprits.empty()) hang.ripe = false;
  for (size_t i = 0; i < stuck->size(); ++i) (*stuck)[i] = (*stuck)[i] || (!can[i] && without[i]);
  Finding& finding = hang.finding;
  finding.culprit_ranks.assign(culprits.begin(), culprits.end());
  std::vector<bool> unaffected = can;  // can move, or is stuck for another reason too
  for (size_t i = 0; i < unaffected.size(); ++i) unaffected[i] = can[i] || !without[i];
  std::set<int> victims = describer.StuckRanks(unaffected);
  Remove(finding.culprit_ranks, &victims);
  finding.victim_ranks.assign(victims.begin(), victims.end());
  finding.summary =
      RankList(finding.culprit_ranks, true) + what + "; " +
      WhoWaits(describer, graph, NearestWaiter(graph, can, kind, waiters), waiters, victims) + ".";
  if (!named.empty()) {
    finding.culprit_ranks.assign(named.begin(), named.end());
    Remove(finding.culprit_ranks, &victims);
    finding.victim_ranks.assign(victims.begin(), victims.end());
  }
  finding.operations = describer.Operations(waiters);
  // Some of the waiters may wait by a conjecture; one that does not proves as much.
  constexpr size_t kTried = 16;
  for (size_t i = 0; i < std::min(waiters.size(), kTried); ++i) {
    std::vector<uint32_t> leaves;
    Proof proof = MakeProof(graph, view.names, ProofOf(graph, can, waiters[i], &leaves), leaves);
    const bool certain = !proof.conjectural;
    if (i == 0 || certain) hang.proof = std::move(proof);
    if (certain) break;
  }
  finding.evidence.not_visible = hang.proof.missing;
  finding.evidence.assumes = hang.proof.assumes;
  finding.stalled_at_ns = hang.proof.stalled_at_ns;
  hang.identity = finding.check;
  hangs->push_back(std::move(hang));
}

void AddVictims(const std::vector<int>& ranks, Finding* finding) {
  std::set<int> victims(finding->victim_ranks.begin(), finding->victim_ranks.end());
  victims.insert(ranks.begin(), ranks.end());
  Remove(finding->culprit_ranks, &victims);
  finding->victim_ranks.assign(victims.begin(), victims.end());
}

// The same culprits took the same communicators in the wrong order.
bool SameCause(const Finding& a, const Finding& b) {
  const auto communicators = [](const Finding& finding) {
    std::set<CommUid> out;
    for (const WaitEdge& edge : finding.cycle) out.insert(edge.comm);
    return out;
  };
  return a.check == b.check && a.culprit_ranks == b.culprit_ranks &&
         communicators(a) == communicators(b);
}

// What can move if some conjectures come true.
struct Level {
  std::vector<bool> granted, can;
};

template <typename Grant>
void AddLevel(const WaitForGraph& graph, const std::vector<bool>& can, const Grant& grant,
              std::vector<Level>* levels) {
  std::vector<bool> granted(can.size(), false);
  for (size_t i = 0; i < can.size(); ++i) granted[i] = grant(graph.nodes()[i]);
  if (std::find(granted.begin(), granted.end(), true) == granted.end()) return;
  std::vector<bool> moves = graph.Decide(kEveryLeaf, granted);
  levels->push_back({std::move(granted), std::move(moves)});
}

}  // namespace

std::vector<Hang> FindHangs(const RoundView& view, std::vector<bool>* stuck) {
  std::vector<Hang> hangs;
  const WaitForGraph& graph = view.graph;
  // Grants everything that may still happen: the rest waits for itself.
  const std::vector<bool> can = graph.Decide(kEveryLeaf);
  stuck->assign(graph.nodes().size(), false);
  for (size_t i = 0; i < can.size(); ++i) (*stuck)[i] = !can[i];
  std::vector<bool> forced(can.size(), false);
  // First the cycles of nodes that are stuck even if every conjecture comes true: no proof of
  // theirs may rest on a conjecture. Then those that assume no more than that kernels send no
  // signals, then all.
  std::vector<Level> levels;
  AddLevel(
      graph, can, [](const WaitNode& node) { return RestsOnConjecture(node); }, &levels);
  AddLevel(
      graph, can,
      [](const WaitNode& node) {
        return node.used_up || (RestsOnConjecture(node) && !node.by_kernels);
      },
      &levels);
  levels.push_back({forced, can});
  for (int i = 0; i < kMaxWitnesses && hangs.size() < kMaxCycles; ++i) {
    std::vector<WitnessStep> witness;
    auto level = levels.begin();
    for (; level != levels.end() && witness.empty(); ++level) {
      witness = FindWitness(graph, level->can);
      if (!witness.empty()) break;
    }
    if (witness.empty()) break;
    // A node that is stuck without this witness is stuck for another reason.
    Force(witness, &forced);
    std::vector<bool> without = graph.Decide(kEveryLeaf, forced);
    Hang hang = CycleHang(view, levels.back().can, without, witness, level->can);
    levels.back().can = std::move(without);
    for (auto other = levels.begin(); other + 1 != levels.end(); ++other) {
      Force(witness, &other->granted);
      if (other >= level) other->can = graph.Decide(kEveryLeaf, other->granted);
    }
    // The same inversion at a later step, or with another rank, is no news, but its victims are.
    const auto earlier = std::find_if(hangs.begin(), hangs.end(), [&](const Hang& other) {
      return SameCause(other.finding, hang.finding);
    });
    if (earlier == hangs.end()) {
      hangs.push_back(std::move(hang));
    } else {
      AddVictims(hang.finding.victim_ranks, &earlier->finding);
    }
  }
  LeafMask kinds = 0;
  for (const WaitNode& node : graph.nodes()) kinds |= Bit(node.leaf);
  for (LeafKind kind : {LeafKind::kAborted, LeafKind::kDead, LeafKind::kStopped, LeafKind::kLeft}) {
    if ((kinds & Bit(kind)) != 0) FindEnds(view, kind, can, stuck, &hangs);
  }
  return hangs;
}

}  // namespace gordian::model
