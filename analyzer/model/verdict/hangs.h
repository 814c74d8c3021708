// Finds nodes that do not move: cycles, dead ends, and suspicions without proof.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_HANGS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_HANGS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/model/verdict/describe.h"
#include "analyzer/model/verdict/job_model.h"
#include "analyzer/model/waits/confirm.h"
#include "analyzer/model/waits/cycle_finder.h"

namespace gordian::model {

// A finding that follows from the rules. Confirmed once two rounds agree on its proof.
struct Hang {
  Finding finding;
  Proof proof;
  std::string identity;       // equal for the same hang, however it is proven
  bool confirmable = true;    // false: its cause may end (a stopped process may continue)
  bool ripe = true;           // false: wait for more of the same before reporting
  std::set<ProcessId> ended;  // processes whose end it reports; empty: it is about something else
  std::vector<WitnessStep> witness;  // of a cycle, in the round's graph
};

struct RoundView {
  const WaitForGraph& graph;
  const Names& names;
  const ModelOptions& options;
  uint64_t now_ns;              // begin of the round
  bool finding_stands = false;  // an earlier report stands: people may be killing the job

  uint64_t Lasted(uint64_t since_ns) const { return graph.execution().Lasted(since_ns, now_ns); }
};

// Finds cycles (wait-model.md §3), and waits for dead, stopped, aborted or departed members
// (W14). Sets (*stuck)[i] for every node that one of these explains.
std::vector<Hang> FindHangs(const RoundView&, std::vector<bool>* stuck);

// By communicator whose members have all completed a mismatch: the later operation that all have
// issued and that does not end.
using HeldOperations = std::map<int, StuckOperation>;

// Finds waits longer than the threshold without a proof, outside of `stuck`.
std::vector<Finding> FindSuspicions(const RoundView&, const std::vector<bool>& stuck,
                                    HeldOperations* held);

// Used by both: one finding for a cycle. `without`: the nodes that can progress once the witness
// does; only those freed by it waited because of it. `proven`: as `can`, for the facts a proof may
// use.
Hang CycleHang(const RoundView&, const std::vector<bool>& can, const std::vector<bool>& without,
               const std::vector<WitnessStep>& witness, const std::vector<bool>& proven);
inline Hang CycleHang(const RoundView& view, const std::vector<bool>& can,
                      const std::vector<bool>& without, const std::vector<WitnessStep>& witness) {
  return CycleHang(view, can, without, witness, can);
}
// Adds the witness to `forced`, for WaitForGraph::Decide().
void Force(const std::vector<WitnessStep>& witness, std::vector<bool>* forced);

// Callers of ncclCommInitRank that contradict each other. `reported`: when each first was.
std::vector<Finding> InitMismatchFindings(const Matcher&, const ExecutionGraph&, const Names&,
                                          uint64_t now_ns, std::map<CommUid, uint64_t>* reported);
// Mismatches that only the hashes show: state_block.h.
std::vector<Finding> UnlocatedFindings(const Matcher&, const Names&, uint64_t now_ns);
// When a mismatch was first reported: by communicator, kind and sequence.
using FirstReported = std::map<std::tuple<int, PartKind, uint64_t>, uint64_t>;
std::vector<Finding> MismatchFindings(const Matcher&, const Names&, const HeldOperations&,
                                      uint64_t now_ns, bool settled, FirstReported*);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_HANGS_H_
