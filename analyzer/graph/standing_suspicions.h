// Suspicions whose end is only that those who waited have given up.
//
// A rank that does not come is a suspicion for as long as others wait for it. They do not wait for
// ever: their watchdog aborts a communicator or ends a process, and the launcher ends the rest.
// Then nobody waits any more, or all wait for the first that gave up; but the one who did not come
// still has not, and the first to give up is no culprit. So a suspicion stands until somebody that
// it names goes on, or the job ends well.
#ifndef GORDIAN_ANALYZER_GRAPH_STANDING_SUSPICIONS_H_
#define GORDIAN_ANALYZER_GRAPH_STANDING_SUSPICIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "analyzer/graph/hangs.h"
#include "analyzer/graph/verdict.h"

namespace gordian::graph {

// Not thread-safe. Costs nothing while nothing is suspected, and is linear in the processes and
// their communicators else.
class StandingSuspicions {
 public:
  // At the begin of a round: which of them stand for themselves, since somebody has given up, and
  // nobody that the others wait for has gone on, and nobody has come back.
  void Look(const RoundView&);

  // That a rank has ended or aborted which gave up waiting for what is still suspected: after
  // Look().
  bool IsConsequence(const Finding&) const;

  // At the end of a round: puts those that stand before the round's own, of which what says the
  // same is left out. One whose culprits are known by now to have ended or aborted is over. Notes
  // all for the next round.
  void Merge(const RoundView&, const std::vector<const Finding*>& confirmed,
             std::vector<Finding>* fresh);

 private:
  struct Kept {
    Finding finding;
    std::map<int, ProcessId> who;  // by rank: all that it names
    std::map<ProcessId, uint64_t>
        reached;               // of those who would have to go on: how much they had called
    std::set<ProcessId> gone;  // had given up by then
    bool stands = false;
  };

  // Of a round, when it is first asked for.
  struct Sight {
    std::map<int, ProcessId> by_rank;
    std::set<ProcessId> gone;  // have ended or aborted
  };
  const Sight& See(const RoundView&);

  std::optional<Sight> sight_;
  std::vector<Kept> kept_;
  std::set<int> gave_up_;  // ranks, since what stands was noted
};

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_STANDING_SUSPICIONS_H_
