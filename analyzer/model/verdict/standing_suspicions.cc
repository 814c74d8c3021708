#include "analyzer/model/verdict/standing_suspicions.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "analyzer/model/facts/incarnations.h"
#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::model {
namespace {

// Signals by which a process ends of its own fault, whatever it waited for.
bool IsCrash(const Process& process) {
  if (process.exit_kind != ExitKind::kSignal) return false;
  const int signal = process.exit_value;
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGSYS;
}

std::map<int, ProcessId> ByRank(const ExecutionGraph& execution, const Names& names) {
  std::map<int, ProcessId> by_rank;
  for (const auto& [id, process] : execution.processes()) {
    if (names.incarnations().Replaced(id) || names.incarnations().Beside(id)) continue;
    for (const int rank : names.AllRanks(id)) by_rank.emplace(rank, id);
  }
  return by_rank;
}

// How much of what others wait for a process has called.
uint64_t Reached(const Process& process) {
  uint64_t reached = process.comms.size();
  for (const auto& [id, comm] : process.comms) {
    reached += comm.collectives.next + comm.collectives.launched + comm.windows;
    for (const auto& [peer, numbers] : comm.transfers) reached += numbers.next + numbers.launched;
  }
  return reached;
}

std::set<ProcessId> Aborted(const Matcher& matcher) {
  std::set<ProcessId> aborted;
  for (const Communicator& comm : matcher.comms()) {
    for (const CommMember& member : comm.members) {
      if (member.aborted) aborted.insert(member.process);
    }
  }
  return aborted;
}

// Those with a call that has not returned, or an operation that is not known to be done.
std::set<ProcessId> InTheMiddle(const ExecutionGraph& execution) {
  std::set<ProcessId> unfinished;
  for (const auto& [id, launch] : execution.launches()) unfinished.insert(launch.process);
  for (const auto& [id, process] : execution.processes()) {
    const bool in_call = std::any_of(process.threads.begin(), process.threads.end(),
                                     [](const auto& thread) { return thread.second.open; });
    if (in_call || process.Lossy()) unfinished.insert(id);
  }
  return unfinished;
}

bool SaysGone(const Finding& finding) {
  return finding.verdict == VerdictKind::kRankExited ||
         finding.verdict == VerdictKind::kRankAborted;
}

bool IsSuspicion(const Finding& finding) {
  return finding.confidence == Confidence::kSuspected && SaysTrouble(finding.verdict);
}

}  // namespace

StandingSuspicions::Sight StandingSuspicions::LookAt(const ExecutionGraph& execution,
                                                     const Matcher& matcher, const Names& names) {
  Sight sight;
  sight.by_rank = ByRank(execution, names);
  sight.aborted = Aborted(matcher);
  sight.gone = sight.aborted;
  for (const auto& [id, process] : execution.processes()) {
    if (process.Dead() && !IsCrash(process)) sight.gone.insert(id);
  }
  sight.unfinished = InTheMiddle(execution);
  return sight;
}

const StandingSuspicions::Sight& StandingSuspicions::See(const RoundView& view) {
  if (!sight_) sight_ = LookAt(view.graph.execution(), view.graph.matcher(), view.names);
  return *sight_;
}

bool StandingSuspicions::StillSo(const Kept& kept, const Sight& sight,
                                 const ExecutionGraph& execution) {
  for (const auto& [rank, id] : kept.who) {
    const auto now = sight.by_rank.find(rank);
    if (now == sight.by_rank.end() || now->second != id) return false;
  }
  for (const auto& [id, reached] : kept.reached) {
    const Process* const process = execution.Find(id);
    if (process == nullptr || Reached(*process) != reached) return false;
  }
  const std::vector<int>& victims = kept.finding.victim_ranks;
  const bool all_wait = victims.empty() || !kept.finding.cycle.empty();
  return std::any_of(kept.who.begin(), kept.who.end(), [&](const auto& named) {
    const auto& [rank, id] = named;
    const bool waits = all_wait || std::find(victims.begin(), victims.end(), rank) != victims.end();
    return waits && (sight.unfinished.contains(id) ||
                     (sight.aborted.contains(id) && !kept.gone.contains(id)));
  });
}

void StandingSuspicions::Look(const RoundView& view) {
  gave_up_.clear();
  sight_.reset();
  if (kept_.empty()) return;
  const Sight& sight = See(view);
  const std::set<ProcessId>& gone = sight.gone;
  for (Kept& kept : kept_) {
    const bool somebody = std::any_of(kept.who.begin(), kept.who.end(), [&](const auto& named) {
      return gone.contains(named.second) && !kept.gone.contains(named.second);
    });
    kept.stands = somebody && StillSo(kept, sight, view.graph.execution());
    if (!kept.stands) continue;
    const std::vector<int>& culprits = kept.finding.culprit_ranks;
    for (const auto& [rank, id] : kept.who) {
      if (gone.count(id) == 0 || kept.gone.count(id) != 0) continue;
      const bool blamed = std::find(culprits.begin(), culprits.end(), rank) != culprits.end();
      if (!blamed || !kept.finding.cycle.empty()) gave_up_.insert(rank);  // in a circle all wait
    }
  }
}

bool StandingSuspicions::IsConsequence(const Finding& finding) const {
  if (!SaysGone(finding)) return false;
  return !finding.culprit_ranks.empty() &&
         std::all_of(finding.culprit_ranks.begin(), finding.culprit_ranks.end(),
                     [&](int rank) { return gave_up_.count(rank) != 0; });
}

void StandingSuspicions::DropResolved(const ExecutionGraph& execution, const Matcher& matcher,
                                      const Names& names, std::vector<Finding>* findings) const {
  if (findings->empty()) return;
  const Sight sight = LookAt(execution, matcher, names);
  const auto unresolved = [&](const Kept& kept) {
    return !kept.reached.empty() && StillSo(kept, sight, execution) &&
           std::none_of(kept.reached.begin(), kept.reached.end(), [&](const auto& awaited) {
             return execution.Find(awaited.first)->Lossy();
           });
  };
  std::erase_if(*findings, [&](const Finding& finding) {
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) {
      return one.finding.check == finding.check &&
             one.finding.culprit_ranks == finding.culprit_ranks;
    });
    return finding.culprit_ranks.empty() || kept == kept_.end() || !unresolved(*kept);
  });
}

void StandingSuspicions::Merge(const RoundView& view, const std::vector<const Finding*>& confirmed,
                               std::vector<Finding>* fresh) {
  std::vector<Kept> now;
  std::vector<Finding> findings;
  for (Kept& kept : kept_) {
    const auto same = [&](const Finding& finding) {
      return finding.culprit_ranks == kept.finding.culprit_ranks;
    };
    const auto gone = [&](const Finding& finding) {
      return same(finding) && SaysGone(finding) && finding.confidence != Confidence::kPossible;
    };
    const bool over = std::any_of(fresh->begin(), fresh->end(), gone) ||
                      std::any_of(confirmed.begin(), confirmed.end(),
                                  [&](const Finding* finding) { return gone(*finding); });
    if (!kept.stands || over) continue;
    std::erase_if(*fresh, same);  // the same with fewer who wait
    findings.push_back(kept.finding);
    now.push_back(std::move(kept));
  }
  kept_ = std::move(now);
  if (std::any_of(fresh->begin(), fresh->end(), IsSuspicion)) {
    const Sight& sight = See(view);
    for (const Finding& finding : *fresh) {
      if (!IsSuspicion(finding)) continue;
      Kept kept;
      kept.finding = finding;
      kept.gone = sight.gone;
      const std::vector<int>& awaited =
          finding.culprit_ranks.empty() ? finding.victim_ranks : finding.culprit_ranks;
      for (const std::vector<int>* ranks : {&finding.culprit_ranks, &finding.victim_ranks}) {
        for (const int rank : *ranks) {
          const auto at = sight.by_rank.find(rank);
          if (at == sight.by_rank.end()) continue;
          kept.who.emplace(rank, at->second);
          if (ranks == &awaited)
            kept.reached[at->second] = Reached(*view.graph.execution().Find(at->second));
        }
      }
      kept_.push_back(std::move(kept));
    }
  }
  fresh->insert(fresh->begin(), std::make_move_iterator(findings.begin()),
                std::make_move_iterator(findings.end()));
}

}  // namespace gordian::model
