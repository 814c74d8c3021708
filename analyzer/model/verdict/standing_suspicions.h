// Keeps suspicions after the waiting ranks have given up.
//
// A rank that does not join is a suspicion while others wait for it. They do not wait for ever: a
// watchdog aborts a communicator or ends a process, and the launcher ends the rest. Then no rank
// waits any more, or all wait for the first that gave up; but the missing rank has still not
// joined, and the first to give up is no culprit. So a suspicion stands until a rank that it names
// makes progress, another process takes the place of one, or all who waited have what they waited
// for.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_STANDING_SUSPICIONS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_STANDING_SUSPICIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "analyzer/model/verdict/hangs.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

// Not thread-safe. Costs nothing without suspicions; otherwise linear in processes and their
// communicators.
class StandingSuspicions {
 public:
  // At the begin of a round: decides which suspicions stand on their own, because a waiting rank
  // has given up, no awaited rank has made progress, and no rank has been restarted.
  void Look(const RoundView&);

  // True for the finding that a rank ended or aborted after it gave up waiting for a culprit that
  // is still suspected. Call it after Look().
  bool IsConsequence(const Finding&) const;

  // Once the job has ended well: drops all of `findings` but the suspicions that were still so at
  // the end. Then the job did not go on, it was ended.
  void DropResolved(const ExecutionGraph&, const Matcher&, const Names&,
                    std::vector<Finding>* findings) const;

  // At the end of a round: puts the standing suspicions before the round's own, without duplicates.
  // Drops one whose culprits are known to have ended or aborted. Notes all for the next round.
  void Merge(const RoundView&, const std::vector<const Finding*>& confirmed,
             std::vector<Finding>* fresh);

 private:
  struct Kept {
    Finding finding;
    std::map<int, ProcessId> who;  // by rank: every process that it names
    std::map<ProcessId, uint64_t>
        reached;               // for those who must make progress: how many calls they had made
    std::set<ProcessId> gone;  // had given up by then
    bool stands = false;
  };

  // What a round shows, computed on first use.
  struct Sight {
    std::map<int, ProcessId> by_rank;
    std::set<ProcessId> aborted;     // a communicator
    std::set<ProcessId> gone;        // have ended or aborted
    std::set<ProcessId> unfinished;  // are, or were when they ended, in the middle of something
  };
  static Sight LookAt(const ExecutionGraph&, const Matcher&, const Names&);
  const Sight& See(const RoundView&);
  // The same processes are named, none that was awaited has made progress, and some rank's wait has
  // not ended, or by an abort alone.
  static bool StillSo(const Kept&, const Sight&, const ExecutionGraph&);

  std::optional<Sight> sight_;
  std::vector<Kept> kept_;
  std::set<int> gave_up_;  // ranks that gave up since the suspicions were noted
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_STANDING_SUSPICIONS_H_
