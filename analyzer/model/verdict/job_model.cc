#include "analyzer/model/verdict/job_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/facts/incarnations.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/describe.h"
#include "analyzer/model/verdict/divergence_signs.h"
#include "analyzer/model/verdict/group_signs.h"
#include "analyzer/model/verdict/hangs.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/recovery_check.h"
#include "analyzer/model/verdict/standing_suspicions.h"
#include "analyzer/model/verdict/transfer_signs.h"
#include "analyzer/model/waits/confirm.h"
#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {
namespace {

// "5 s", "0.5 s"; shorter than a tenth is "0 s".
std::string Seconds(uint64_t ns) {
  const uint64_t tenths = ns / 100'000'000;
  const uint64_t rest = tenths % 10;
  return std::to_string(tenths / 10) + (rest == 0 ? "" : "." + std::to_string(rest)) + " s";
}

void Unite(const std::vector<std::string>& from, std::vector<std::string>* into) {
  into->insert(into->end(), from.begin(), from.end());
  std::sort(into->begin(), into->end());
  into->erase(std::unique(into->begin(), into->end()), into->end());
}

}  // namespace

class JobModel::Impl {
 public:
  explicit Impl(ModelOptions options) : options_(options) {}

  void OnRound(Round round);
  bool RuntimeTakesPart() const { return any_recovery_begun_ || execution_.any_elsewhere(); }
  bool HasUnfinished() const;
  Verdict Current() const;
  std::map<ProcessId, int> Ranks() const { return RanksNow(execution_, NamesNow()); }
  std::vector<ProcessId> About(const Verdict& verdict) const {
    std::set<int> ranks;
    const auto add = [&](const Finding& finding) {
      if (!SaysTrouble(finding.verdict)) return;
      ranks.insert(finding.culprit_ranks.begin(), finding.culprit_ranks.end());
      ranks.insert(finding.victim_ranks.begin(), finding.victim_ranks.end());
    };
    add(verdict.main);
    for (const Finding& finding : verdict.findings) add(finding);
    if (ranks.empty()) return {};
    return ProcessesOf(execution_, NamesNow(), ranks);
  }
  void OnJobEnded(ExitKind kind, int exit_value, uint64_t time_ns, bool killed);
  void OnRecovery(const RecoveryNews& news);

  const ModelOptions options_;
  Matcher matcher_;
  ExecutionGraph execution_{&matcher_};
  Confirmer confirmer_;
  // Drops the names: their sources have changed.
  void Forget() { names_.reset(); }
  uint64_t now_ns_ = 0;
  uint64_t first_ns_ = 0;  // begin of the first round

 private:
  struct Standing {
    Finding finding;
    std::string identity;
    std::set<ProcessId> ended;  // as Hang's
    std::set<ProcessId> about;  // processes of its culprits and victims; of `ended`: none
    std::vector<std::pair<LaunchId, int>> launches;  // as Proof's
    bool recovery_begun = false;                     // what ends now disproves nothing
    bool recovery_told = false;                      // its outcome stands
  };

  // Valid until the next fact. A report right after a round uses the round's names again.
  const Names& NamesNow() const {
    if (!names_) names_.emplace(execution_, matcher_);
    return *names_;
  }
  uint64_t LongestPause(uint64_t begin_ns);
  void AcceptBlocked(const Round& round);
  bool SuspectCircle(const Round& round, const Names& names, Conjecture conjecture,
                     const std::vector<bool>& moves);
  void SuspectBesideBystanders(const Round& round, const Names& names);
  void SuspectResources(const Round& round, const Names& names, const WaitForGraph& graph,
                        const std::vector<bool>& stuck);
  void Confirm(const Hang& hang, uint64_t end_ns);
  void NoteDisproved();
  void RetireReplaced(const std::vector<Hang>& found, const Incarnations& incarnations);
  void LookForProgress(const RoundView& view);
  std::string HowItEnded(const Names& names) const;
  Finding Base(const Names& names) const;
  void FillEvidence(const Names& names, Finding* finding) const;
  std::vector<CulpritProcess> CulpritsOf(const Names& names, const Finding& finding) const;
  static std::set<ProcessId> JobOf(const Names& names, const Finding& finding);
  void NameJob(const Names& names, Finding* finding) const;

  uint64_t last_begin_ns_ = 0, pause_before_ns_ = 0;  // of rounds
  mutable std::optional<Names> names_;
  mutable FirstReported mismatches_reported_;
  mutable std::map<CommUid, uint64_t> inits_reported_;
  std::vector<WaitNode> nodes_;  // kept as memory for the next round's graph
  std::vector<Standing> confirmed_;
  std::vector<Finding> suspected_;
  std::vector<Finding> disproved_;
  std::vector<Finding> last_trouble_;  // of the last round that had any
  std::string still_;                  // what the ranks do while nothing moves; else empty
  StandingSuspicions standing_;
  HeldOperations held_;  // of the last round
  bool any_recovery_begun_ = false;
  bool ended_ = false, killed_by_gordian_ = false;
  ExitKind exit_kind_ = ExitKind::kUnknown;
  int exit_value_ = 0;
};

// Between the begins of the last round and of this one; what exceeds it is time in which gordian did
// not look. A pace that is slow throughout, as of a busy machine or of a node that does not answer,
// has no such time; nor has the first pause, which nothing precedes.
uint64_t JobModel::Impl::LongestPause(uint64_t begin_ns) {
  constexpr uint64_t kAny = uint64_t{1} << 62;
  const uint64_t pause = begin_ns - std::min(begin_ns, last_begin_ns_);
  const uint64_t longest =
      pause_before_ns_ == 0
          ? kAny
          : std::max(4 * pause_before_ns_, std::clamp<uint64_t>(options_.suspect_after_ns / 4,
                                                                250'000'000, 1'000'000'000));
  if (last_begin_ns_ != 0) pause_before_ns_ = std::min(pause, longest);
  last_begin_ns_ = begin_ns;
  return longest;
}

// A call that NCCL has accepted but not returned from counts by its arguments
// (wait-model.md §5).
void JobModel::Impl::AcceptBlocked(const Round& round) {
  for (const ProcessState& state : round.processes) {
    const Process* process = execution_.Find(state.process);
    if (process == nullptr) continue;
    for (const ThreadState& now : process->state.threads) {
      auto it = process->threads.find(now.thread);
      if (now.call_id == 0 || it == process->threads.end() || !it->second.open) continue;
      const OpenCall& open = *it->second.open;
      if (open.launch == 0 || open.record.order != now.call_order) continue;
      if (execution_.Lasted(open.record.time_ns, round.begin_ns) <
          options_.first_use_counts_after_ns)
        continue;
      const Launch* launch = execution_.FindLaunch(open.launch);
      if (launch == nullptr) continue;
      for (const Part& part : launch->parts) matcher_.Accept(part.ref, round.begin_ns);
    }
  }
}

void JobModel::Impl::Confirm(const Hang& hang, uint64_t end_ns) {
  Finding finding = hang.finding;
  finding.confidence = Confidence::kConfirmed;
  if (end_ns > finding.stalled_at_ns) {
    finding.detected_after_s = static_cast<double>(end_ns - finding.stalled_at_ns) * 1e-9;
  }
  for (Standing& standing : confirmed_) {
    if (standing.identity != hang.identity) continue;
    // More ranks may be stuck now, but the finding keeps its time.
    finding.stalled_at_ns = standing.finding.stalled_at_ns;
    finding.detected_after_s = standing.finding.detected_after_s;
    if (standing.recovery_begun || standing.recovery_told) {
      finding.recovery = std::move(standing.finding.recovery);
    }
    standing.finding = std::move(finding);
    standing.ended.insert(hang.ended.begin(), hang.ended.end());
    return;
  }
  for (const auto& [launch, comm] : hang.proof.launches) execution_.Watch(launch);
  std::set<ProcessId> about;
  if (hang.ended.empty()) {
    std::set<int> ranks(finding.culprit_ranks.begin(), finding.culprit_ranks.end());
    ranks.insert(finding.victim_ranks.begin(), finding.victim_ranks.end());
    for (const ProcessId id : ProcessesOf(execution_, NamesNow(), ranks)) about.insert(id);
  }
  confirmed_.push_back(
      {std::move(finding), hang.identity, hang.ended, std::move(about), hang.proof.launches});
}

void JobModel::Impl::OnRecovery(const RecoveryNews& news) {
  any_recovery_begun_ |= news.step == RecoveryNews::Step::kBegun;
  for (Standing& standing : confirmed_) {
    Recovery& recovery = standing.finding.recovery;
    // More may have been called since.
    const bool same = std::any_of(
        recovery.operations.begin(), recovery.operations.end(), [&](const std::string& operation) {
          return std::find(news.operations.begin(), news.operations.end(), operation) !=
                 news.operations.end();
        });
    if (!same || standing.recovery_told) continue;
    standing.recovery_begun = news.step != RecoveryNews::Step::kRefused;
    standing.recovery_told = news.step != RecoveryNews::Step::kBegun;
    recovery.ms = news.ms;
    recovery.recovered = news.step == RecoveryNews::Step::kDone;
    if (news.step == RecoveryNews::Step::kBegun) return;
    recovery.refused = recovery.recovered ? RecoveryCondition::kHold : news.refused;
    recovery.why = news.why;
    recovery.rank = news.rank;
    recovery.site = news.site;
    recovery.units.clear();
    recovery.members.clear();
    return;
  }
}

// A launch of a proven circle is done. An abort frees what waits, and disproves nothing.
void JobModel::Impl::NoteDisproved() {
  if (execution_.DoneAfterAll().empty()) return;
  std::erase_if(confirmed_, [&](Standing& standing) {
    if (standing.finding.verdict != VerdictKind::kDeadlock || standing.recovery_begun) return false;
    const bool aborted =
        std::any_of(standing.launches.begin(), standing.launches.end(), [&](const auto& launch) {
          if (launch.second < 0) return false;
          const std::vector<CommMember>& members = matcher_.comms()[launch.second].members;
          return std::any_of(members.begin(), members.end(), [&](const CommMember& member) {
            const Process* process = execution_.Find(member.process);
            const bool failed = process != nullptr && process->ended &&
                                (process->exit_kind != ExitKind::kCode || process->exit_value != 0);
            return member.aborted || failed;
          });
        });
    const bool done = std::any_of(
        standing.launches.begin(), standing.launches.end(),
        [&](const auto& launch) { return execution_.DoneAfterAll().contains(launch.first); });
    if (aborted || !done) return false;
    if (any_recovery_begun_) return true;  // the runtime has executed it with another circle
    disproved_.push_back(std::move(standing.finding));
    return true;
  });
}

// The exit of a restarted rank is history once no rank waits for its old process: the waiting ranks
// have ended, or use a new communicator. `found`: this round's hangs. Another hang is history once
// all whom it was about have ended, and one of them has come back.
void JobModel::Impl::RetireReplaced(const std::vector<Hang>& found,
                                    const Incarnations& incarnations) {
  std::set<ProcessId> waited_for;
  for (const Hang& hang : found) waited_for.insert(hang.ended.begin(), hang.ended.end());
  std::erase_if(confirmed_, [&](const Standing& standing) {
    if (standing.ended.empty()) return incarnations.Past(standing.about);
    return std::all_of(standing.ended.begin(), standing.ended.end(), [&](ProcessId id) {
      return incarnations.Replaced(id) && waited_for.count(id) == 0;
    });
  });
}

namespace {

const char* Assumption(Conjecture conjecture) {
  switch (conjecture) {
    case Conjecture::kUnbuffered:
      return "the transport does not buffer these sends";
    case Conjecture::kSharedQueue:
      return "streams of one device share its hardware queues";
    case Conjecture::kNoProcessors:
      return "operations of one device leave each other no multiprocessors";
    case Conjecture::kBystanders:
      return "threads that have called no NCCL call none, and those that run wait for the "
             "program's "
             "host functions";
    case Conjecture::kNone:
      break;
  }
  return "";
}

}  // namespace

// A lasting cycle that only the conjecture explains is a suspicion. `moves` (empty: ignored) are
// the nodes that nothing known holds up; the cycle may hold no other launch.
bool JobModel::Impl::SuspectCircle(const Round& round, const Names& names, Conjecture conjecture,
                                   const std::vector<bool>& moves) {
  const WaitForGraph graph(execution_, matcher_, options_, round.begin_ns, conjecture);
  const RoundView view{graph, names, options_, round.begin_ns, false};
  const std::vector<bool> can = graph.Decide(~LeafMask{0});
  const std::vector<WitnessStep> witness = FindWitness(graph, can);
  if (witness.empty()) return false;
  // A cycle that stands without the conjecture is reported elsewhere, with fewer victims.
  const Reason conjectured =
      conjecture == Conjecture::kUnbuffered ? Reason::kSend : Reason::kResources;
  const auto needs_it = [&](const WitnessStep& step) { return step.edge.reason == conjectured; };
  if (conjecture != Conjecture::kBystanders &&
      std::none_of(witness.begin(), witness.end(), needs_it)) {
    return false;
  }
  for (const WitnessStep& step : witness) {
    if (moves.empty() || graph.nodes()[step.node].kind != NodeKind::kLaunchDone) continue;
    if (!moves[step.node]) return false;
  }
  std::vector<bool> forced(can.size(), false);
  Force(witness, &forced);
  Hang hang = CycleHang(view, can, graph.Decide(~LeafMask{0}, forced), witness);
  if (view.Lasted(hang.finding.stalled_at_ns) < options_.suspect_after_ns) return false;
  hang.finding.detected_after_s =
      static_cast<double>(round.end_ns - hang.finding.stalled_at_ns) * 1e-9;
  hang.finding.evidence.assumes.push_back(Assumption(conjecture));
  suspected_.push_back(std::move(hang.finding));
  return true;
}

// Ranks that wait for each other but for threads of theirs that call CUDA alone, or poll a flag that
// a host function sets: likelier than that none of them comes.
void JobModel::Impl::SuspectBesideBystanders(const Round& round, const Names& names) {
  const auto absent = [](const Finding& finding) {
    return finding.check == "rank-not-joined" || finding.check == "host-blocked";
  };
  if (std::none_of(suspected_.begin(), suspected_.end(), absent)) return;
  if (!SuspectCircle(round, names, Conjecture::kBystanders, {})) return;
  std::erase_if(suspected_, absent);
}

// W6: launches that nothing known holds up and that have not ended for long.
void JobModel::Impl::SuspectResources(const Round& round, const Names& names,
                                      const WaitForGraph& graph, const std::vector<bool>& stuck) {
  // Excludes nodes that missing kernels, threads or records may still explain.
  const std::vector<bool> moves =
      graph.Decide(~(Bit(LeafKind::kRunning) | Bit(LeafKind::kAsleep) | Bit(LeafKind::kUnknown) |
                     Bit(LeafKind::kKernel) | Bit(LeafKind::kMemory)));
  bool old = false;
  for (uint32_t n : graph.waiters()) {
    const WaitNode& node = graph.nodes()[n];
    old |= node.kind == NodeKind::kLaunchDone && moves[n] && !stuck[n] &&
           execution_.Lasted(node.since_ns, round.begin_ns) >= options_.suspect_after_ns;
  }
  if (!old) return;
  if (!SuspectCircle(round, names, Conjecture::kSharedQueue, moves) &&
      !SuspectCircle(round, names, Conjecture::kNoProcessors, moves)) {
    return;
  }
  // It says the same with less detail.
  std::erase_if(suspected_, [](const Finding& finding) { return finding.check == "stuck-kernel"; });
}

void JobModel::Impl::OnRound(Round round) {
  Forget();
  now_ns_ = std::max(now_ns_, round.end_ns);
  if (first_ns_ == 0) first_ns_ = round.begin_ns;
  if (ended_) return;
  execution_.NoteRound(round.begin_ns, LongestPause(round.begin_ns));
  execution_.TakeRound(&round);
  NoteDisproved();
  AcceptBlocked(round);
  const WaitForGraph graph(execution_, matcher_, options_, round.begin_ns, Conjecture::kNone,
                           &nodes_);
  const Names& names = NamesNow();
  const bool stands =
      !confirmed_.empty() || !std::all_of(suspected_.begin(), suspected_.end(), OnlySlow);
  const RoundView view{graph, names, options_, round.begin_ns, stands};
  suspected_.clear();
  standing_.Look(view);
  std::vector<bool> stuck;
  std::vector<Hang> hangs = FindHangs(view, &stuck);
  if (!confirmed_.empty()) RetireReplaced(hangs, names.incarnations());
  for (Hang& hang : hangs) {
    const Confirmer::Standing standing = confirmer_.Check(hang.proof, round.begin_ns);
    if (!hang.ripe) continue;
    if (standing_.IsConsequence(hang.finding)) {
      hang.finding.confidence = Confidence::kPossible;
      suspected_.push_back(std::move(hang.finding));
      continue;
    }
    if (standing.confirmed && hang.confirmable) {
      if (hang.finding.verdict == VerdictKind::kDeadlock) {
        hang.finding.recovery = CheckRecovery(view, hang.witness);
      }
      Confirm(hang, round.end_ns);
      continue;
    }
    const bool known = std::any_of(confirmed_.begin(), confirmed_.end(),
                                   [&](const Standing& s) { return s.identity == hang.identity; });
    const bool long_enough =
        !hang.confirmable || view.Lasted(standing.unchanged_since_ns) >= options_.suspect_after_ns;
    if (!known && long_enough) {
      if (round.end_ns > hang.finding.stalled_at_ns) {
        hang.finding.detected_after_s =
            static_cast<double>(round.end_ns - hang.finding.stalled_at_ns) * 1e-9;
      }
      suspected_.push_back(std::move(hang.finding));
    }
  }
  confirmer_.EndRound();
  held_.clear();
  for (Finding& finding : FindSuspicions(view, stuck, &held_)) {
    if (round.end_ns > finding.stalled_at_ns) {
      finding.detected_after_s = static_cast<double>(round.end_ns - finding.stalled_at_ns) * 1e-9;
    }
    suspected_.push_back(std::move(finding));
  }
  bool old_send = false;
  for (uint32_t n : graph.waiters()) {
    const WaitNode& node = graph.nodes()[n];
    const Launch* launch = execution_.FindLaunch(node.launch);
    if (stuck[n] || launch == nullptr || view.Lasted(node.since_ns) < options_.suspect_after_ns) {
      continue;
    }
    for (const Part& part : launch->parts) old_send |= part.ref.kind == PartKind::kSend;
  }
  if (old_send) SuspectCircle(round, names, Conjecture::kUnbuffered, {});
  if (hangs.empty()) SuspectResources(round, names, graph, stuck);
  if (hangs.empty()) SuspectBesideBystanders(round, names);
  std::vector<const Finding*> confirmed;
  for (const Standing& known : confirmed_) confirmed.push_back(&known.finding);
  standing_.Merge(view, confirmed, &suspected_);
  LookForProgress(view);
  if (confirmed_.empty() && suspected_.empty()) return;
  last_trouble_ = suspected_;
  for (const Standing& known : confirmed_) last_trouble_.push_back(known.finding);
}

// Says what the ranks do once none has called or finished anything for as long as the threshold.
void JobModel::Impl::LookForProgress(const RoundView& view) {
  still_.clear();
  uint64_t last = first_ns_;
  uint64_t busy = 0;
  bool called = false;  // some rank has called NCCL
  for (const auto& [id, process] : execution_.processes()) {
    last = std::max(last, process.last_progress_ns);
    called |= std::max(process.calls_begun, process.state.nccl_calls) > 0;
  }
  // Most rounds end here: names and descriptions take longer than the rest of the round.
  if (view.Lasted(last) < options_.suspect_after_ns) return;
  std::map<std::string, std::vector<int>> ranks;  // by what they do
  const Describer describer(view.graph, view.names);
  for (const auto& [id, process] : execution_.processes()) {
    if (process.Dead() || (!process.CalledNccl() && process.info.env_rank < 0)) continue;
    if (view.names.incarnations().Beside(id)) continue;
    busy = std::max(busy, process.last_busy_ns);
    ranks[describer.Instead(id, nullptr)].push_back(view.names.Rank(id));
  }
  // Programs load much before their first call of NCCL: they stand still once they sleep, too.
  if (!called) last = std::max(last, busy);
  if (ranks.empty() || view.Lasted(last) < options_.suspect_after_ns) return;
  still_ = called ? "No rank has called or finished anything for more than "
                  : "No rank has called NCCL yet, or done anything else for more than ";
  still_ += Seconds(options_.suspect_after_ns) + ": ";
  size_t shown = 0;
  for (auto& [what, who] : ranks) {
    if (++shown > 4) break;
    std::sort(who.begin(), who.end());
    still_ += (shown == 1 ? "" : "; ") + RankList(who) + (who.size() > 1 ? ": each " : " ") + what;
  }
  still_ += shown > 4 ? "; and so on." : ".";
}

void JobModel::Impl::OnJobEnded(ExitKind kind, int exit_value, uint64_t time_ns, bool killed) {
  Forget();
  ended_ = true;
  killed_by_gordian_ = killed;
  exit_kind_ = kind;
  exit_value_ = exit_value;
  now_ns_ = std::max(now_ns_, time_ns);
  if (!killed) NoteDisproved();
  // The last records may still show a mismatch.
  for (auto& [id, process] : execution_.processes()) {
    execution_.End(id, ExitKind::kUnknown, 0, time_ns);
  }
  Round last;
  last.begin_ns = last.end_ns = time_ns;
  execution_.TakeRound(&last);
  if (killed) {
    // What gordian acted on stays, whatever the last records say.
    if (confirmed_.empty() && suspected_.empty()) suspected_ = std::move(last_trouble_);
    return;
  }
  RetireReplaced({}, Incarnations(execution_));
  // The job ended by itself after all, unless its own watchdogs ended it.
  if (kind == ExitKind::kCode && exit_value == 0) {
    standing_.DropResolved(execution_, matcher_, NamesNow(), &suspected_);
  }
}

bool JobModel::Impl::HasUnfinished() const {
  if (ended_) return false;
  for (const auto& [id, launch] : execution_.launches()) {
    const Process* process = execution_.Find(launch.process);
    if (process != nullptr && !process->Dead()) return true;
  }
  for (const auto& [id, process] : execution_.processes()) {
    if (process.Dead()) continue;
    // Lost records may describe unfinished operations: only the state block knows.
    if (process.Lossy() || process.merger.incomplete()) return true;
    for (const auto& [thread_id, thread] : process.threads) {
      if (thread.open) return true;
    }
    for (const auto& [comm_id, comm] : process.comms) {
      if (comm.unsettled) return true;
    }
  }
  return false;
}

void JobModel::Impl::FillEvidence(const Names& names, Finding* finding) const {
  Evidence& evidence = finding->evidence;
  evidence.ranks_seen = names.seen();
  evidence.ranks_expected = names.expected();
  evidence.records = evidence.records_lost = evidence.nccl_calls = 0;
  std::vector<std::string> unseen;
  for (const auto& [id, process] : execution_.processes()) {
    evidence.records += process.records;
    const uint64_t lost = std::max(process.merger.lost(), process.state.lost_records);
    evidence.records_lost += lost;
    evidence.nccl_calls += std::max(process.calls_begun, process.state.nccl_calls);
    for (const std::string& text : process.state.not_visible) {
      unseen.push_back(text + " in " + names.RankOf(id));
    }
    // The finding may have said the same without a number, or of a moment when less was lost.
    const std::vector<std::string> all_lost = names.AllLost(process);
    std::set<std::string> said;
    for (const std::string& text : all_lost) said.insert(WithoutCount(text));
    if (!said.empty()) said.insert(WithoutCount(names.Lost(process)));
    std::erase_if(evidence.not_visible,
                  [&](const std::string& text) { return said.contains(WithoutCount(text)); });
    unseen.insert(unseen.end(), all_lost.begin(), all_lost.end());
    if (process.lost_sight)
      unseen.push_back("operations that " + names.RankOf(id) + " captured into graphs");
    if (names.unseen() > 0 && process.info.env_rank >= 0 && !process.Dead() &&
        std::max(process.calls_begun, process.state.nccl_calls) == 0 &&
        !names.incarnations().Beside(id)) {
      unseen.push_back("NCCL calls of " + names.RankOf(id) + " (pid " +
                       std::to_string(process.info.pid) +
                       "): its NCCL is linked statically or bound past the shim, as with "
                       "RTLD_DEEPBIND");
    }
  }
  if (evidence.ranks_seen < evidence.ranks_expected && evidence.ranks_seen > 0) {
    unseen.push_back(std::to_string(evidence.ranks_expected - evidence.ranks_seen) + " of " +
                     std::to_string(evidence.ranks_expected) + " ranks");
  }
  if (execution_.beyond() || matcher_.beyond())
    unseen.push_back("operations that are more than gordian follows at once");
  Unite(unseen, &evidence.not_visible);
}

// "The job has ended with code 1: rank 0 exited with code 1." Ranks stand in the order of their ends.
// A rank that raises an exception may exit after ranks that fail because of it, so the time of its
// exception counts.
std::string JobModel::Impl::HowItEnded(const Names& names) const {
  std::vector<std::pair<uint64_t, std::string>> exits;
  for (const auto& [id, process] : execution_.processes()) {
    if (!process.ended || process.exit_kind == ExitKind::kUnknown ||
        process.exit_kind == ExitKind::kGordian) {
      continue;
    }
    if (names.incarnations().Replaced(id)) continue;
    const bool raised = !process.exception.empty();
    const uint64_t when = raised ? process.exception_ns : process.ended_ns;
    if (process.exit_kind == ExitKind::kSignal) {
      exits.emplace_back(
          when, names.RankOf(id) + " was killed by signal " + std::to_string(process.exit_value));
    } else if (process.exit_value != 0) {
      exits.emplace_back(when, names.RankOf(id) + " exited with code " +
                                   std::to_string(process.exit_value) +
                                   (raised ? ", by " + process.exception : ""));
    }
  }
  std::stable_sort(exits.begin(), exits.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text = "The job has ended";
  if (exit_kind_ == ExitKind::kSignal) {
    text += " by signal " + std::to_string(exit_value_);
  } else if (exit_kind_ == ExitKind::kCode && exit_value_ != 0) {
    text += " with code " + std::to_string(exit_value_);
  }
  for (size_t i = 0; i < exits.size() && i < 4; ++i) {
    text += (i == 0 ? ": " : "; ") + exits[i].second;
  }
  text += ".";
  return text;
}

Finding JobModel::Impl::Base(const Names& names) const {
  uint64_t calls = 0, lost = 0;
  for (const auto& [id, process] : execution_.processes()) {
    calls += std::max(process.calls_begun, process.state.nccl_calls);
    lost += std::max(process.merger.lost(), process.state.lost_records);
    lost += process.records_missing ? 1 : 0;
  }
  if (calls == 0 && !ended_ && first_ns_ != 0 && now_ns_ < first_ns_ + options_.suspect_after_ns) {
    Finding finding = MakeFinding("job-healthy", Confidence::kSuspected);
    finding.summary = "The job has started and has not called NCCL yet.";
    return finding;
  }
  if (!ended_ && !still_.empty()) {
    Finding finding = MakeFinding("no-progress", Confidence::kPossible);
    finding.summary = still_;
    return finding;
  }
  if (calls == 0) {
    Finding finding = MakeFinding("no-nccl-calls", Confidence::kSuspected);
    finding.summary = "Gordian saw no NCCL call.";
    return finding;
  }
  Finding finding = MakeFinding(ended_ ? "job-finished" : "job-healthy", Confidence::kConfirmed);
  // The visible part is fine, but lost records may hold a problem.
  if (lost > 0 || execution_.beyond() || matcher_.beyond() || names.seen() < names.expected())
    finding.confidence = Confidence::kSuspected;
  if (!ended_) {
    finding.summary = "Nothing is stuck.";
    return finding;
  }
  finding.summary = HowItEnded(names);
  return finding;
}

// Returns the processes of the job that the finding is about; none where there is one job.
std::set<ProcessId> JobModel::Impl::JobOf(const Names& names, const Finding& finding) {
  if (!names.several_jobs()) return {};
  for (const WaitEdge& edge : finding.cycle) {
    if (edge.site.process != 0) return names.JobOf(edge.site.process);
  }
  for (const StuckOperation& operation : finding.operations) {
    for (const OperationMember& member : operation.members) {
      if (member.site.process != 0) return names.JobOf(member.site.process);
    }
  }
  return {};
}

// A rank's number alone does not say which of several jobs it is of.
void JobModel::Impl::NameJob(const Names& names, Finding* finding) const {
  constexpr size_t kMost = 8;
  std::vector<uint32_t> pids;
  for (const ProcessId id : JobOf(names, *finding)) {
    if (const Process* const process = execution_.Find(id)) pids.push_back(process->info.pid);
  }
  if (pids.empty()) return;
  std::sort(pids.begin(), pids.end());
  finding->summary += pids.size() == 1 ? " It is the job of pid " : " It is the job of pids ";
  for (size_t i = 0; i < std::min(pids.size(), kMost); ++i)
    finding->summary += (i == 0 ? "" : ", ") + std::to_string(pids[i]);
  if (pids.size() > kMost)
    finding->summary += " and " + std::to_string(pids.size() - kMost) + " more";
  finding->summary += "; gordian has seen another one.";
}

std::vector<CulpritProcess> JobModel::Impl::CulpritsOf(const Names& names,
                                                       const Finding& finding) const {
  std::vector<CulpritProcess> culprits;
  if (finding.culprit_ranks.empty()) return culprits;
  const std::set<int> ranks(finding.culprit_ranks.begin(), finding.culprit_ranks.end());
  std::map<int, ProcessId> holders;
  const std::set<ProcessId> job = JobOf(names, finding);
  for (const ProcessId id : job) {
    for (const int rank : names.AllRanks(id)) {
      if (ranks.contains(rank)) holders[rank] = id;
    }
  }
  if (job.empty()) holders = HoldersOf(execution_, names, ranks);
  for (const auto& [rank, id] : holders) {
    const Process* const process = execution_.Find(id);
    culprits.push_back({.rank = rank,
                        .process = id,
                        .pid = process != nullptr ? process->info.pid : 0,
                        .node = ""});
  }
  return culprits;
}

Verdict JobModel::Impl::Current() const {
  const Names& names = NamesNow();
  std::vector<Finding> findings;
  for (const Standing& standing : confirmed_) findings.push_back(standing.finding);
  for (Finding& finding :
       MismatchFindings(matcher_, names, held_, now_ns_, ended_, &mismatches_reported_)) {
    findings.push_back(std::move(finding));
  }
  for (Finding& finding :
       InitMismatchFindings(matcher_, execution_, names, now_ns_, &inits_reported_)) {
    findings.push_back(std::move(finding));
  }
  for (Finding& finding : UnlocatedFindings(matcher_, names, now_ns_)) {
    findings.push_back(std::move(finding));
  }
  findings.insert(findings.end(), suspected_.begin(), suspected_.end());
  if (!std::all_of(findings.begin(), findings.end(), OnlySlow))
    std::erase_if(findings, OnlySlow);  // what is stuck explains what is slow
  if (findings.empty()) findings.push_back(Base(names));
  for (Finding& finding : findings) {
    // Who ended it did so in the middle of this.
    const bool ended_in_it = ended_ && !killed_by_gordian_ && SaysTrouble(finding.verdict) &&
                             finding.verdict != VerdictKind::kMismatch;
    if (ended_in_it) finding.summary += " " + HowItEnded(names);
    FillEvidence(names, &finding);
    finding.communicators = CommunicatorsOf(finding, matcher_, names);
    finding.culprit_processes = CulpritsOf(names, finding);
    NameJob(names, &finding);
  }
  Verdict verdict = WorstFirst(std::move(findings));
  verdict.restarts = names.incarnations().Summary();
  verdict.disproved = disproved_;
  for (Finding& finding : verdict.disproved) FillEvidence(names, &finding);
  if (SaysTrouble(verdict.main.verdict)) {
    verdict.signs = TransferSigns(matcher_, names);
    const std::vector<Sign> divergent = DivergenceSigns(matcher_, names);
    verdict.signs.insert(verdict.signs.end(), divergent.begin(), divergent.end());
    const std::vector<Sign> groups = GroupSigns(execution_, names, verdict.main);
    verdict.signs.insert(verdict.signs.end(), groups.begin(), groups.end());
  }
  return verdict;
}

JobModel::JobModel(ModelOptions options) : impl_(std::make_unique<Impl>(options)) {}
JobModel::~JobModel() = default;

void JobModel::OnProcessStarted(const ProcessInfo& info) {
  impl_->Forget();
  impl_->execution_.Start(info);
}

void JobModel::OnProcessEnded(ProcessId process, ExitKind kind, int exit_value, uint64_t time_ns) {
  impl_->Forget();
  impl_->now_ns_ = std::max(impl_->now_ns_, time_ns);
  impl_->execution_.End(process, kind, exit_value, time_ns);
}

void JobModel::OnFinalCounts(ProcessId process, uint64_t lost_records, uint64_t nccl_calls) {
  impl_->Forget();
  impl_->execution_.FinalCounts(process, lost_records, nccl_calls);
}

void JobModel::OnFinalNotVisible(ProcessId process, std::vector<std::string> what) {
  Process* const known = impl_->execution_.Find(process);
  if (known == nullptr) return;
  std::vector<std::string>& all = known->state.not_visible;
  for (std::string& text : what) {
    if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
  }
}

void JobModel::OnFinalBlock(ProcessId process, std::shared_ptr<const StateBlock> block) {
  impl_->Forget();
  impl_->execution_.FinalBlock(process, std::move(block));
}

void JobModel::OnRecordsMissing(ProcessId process) {
  impl_->Forget();
  impl_->execution_.RecordsMissing(process);
}

void JobModel::OnCommName(ProcessId process, CommId comm, const std::string& name) {
  impl_->Forget();
  impl_->execution_.NameComm(process, comm, name);
}

void JobModel::OnKeyName(uint64_t key, const std::string& name) {
  impl_->Forget();
  impl_->execution_.NameKey(key, name);
}

void JobModel::OnException(ProcessId process, const std::string& text, uint64_t time_ns) {
  impl_->Forget();
  impl_->execution_.NoteException(process, text, time_ns);
}

void JobModel::OnRecord(const CallRecord& record) {
  impl_->Forget();
  impl_->now_ns_ = std::max(impl_->now_ns_, record.time_ns);
  impl_->execution_.Record(record);
}

void JobModel::OnJobEnded(ExitKind kind, int exit_value, uint64_t time_ns, bool killed_by_gordian) {
  impl_->OnJobEnded(kind, exit_value, time_ns, killed_by_gordian);
}

void JobModel::OnRecovery(const RecoveryNews& news) { impl_->OnRecovery(news); }

void JobModel::OnRound(Round round) { impl_->OnRound(std::move(round)); }
bool JobModel::WantsConfirmation() const { return impl_->confirmer_.WantsRound(); }
bool JobModel::RuntimeTakesPart() const { return impl_->RuntimeTakesPart(); }
bool JobModel::HasUnfinished() const { return impl_->HasUnfinished(); }
Verdict JobModel::Current() const { return impl_->Current(); }
const ExecutionGraph& JobModel::execution() const { return impl_->execution_; }
const Matcher& JobModel::matcher() const { return impl_->matcher_; }
std::map<ProcessId, int> JobModel::Ranks() const { return impl_->Ranks(); }
std::vector<ProcessId> JobModel::About(const Verdict& verdict) const {
  return impl_->About(verdict);
}
uint64_t JobModel::LastProgress() const {
  uint64_t last = 0;
  for (const auto& [id, process] : impl_->execution_.processes()) {
    last = std::max(last, process.last_progress_ns);
  }
  return last;
}
JobSnapshot JobModel::Snapshot() const {
  return TakeSnapshot(impl_->execution_, impl_->matcher_, impl_->now_ns_);
}

}  // namespace gordian::model
