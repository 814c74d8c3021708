// Findings about things that do not move: cycles, dead ends, and what merely looks bad.
#ifndef GORDIAN_ANALYZER_GRAPH_HANGS_H_
#define GORDIAN_ANALYZER_GRAPH_HANGS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/graph/confirm.h"
#include "analyzer/graph/describe.h"
#include "analyzer/graph/job_model.h"

namespace gordian::graph {

// Something that cannot move by the rules. Confirmed once two rounds agree on its proof.
struct Hang {
  Finding finding;
  Proof proof;
  std::string identity;       // the same for the same hang, however it is proven
  bool confirmable = true;    // false: what it rests on may end (a stopped process goes on)
  bool ripe = true;           // false: wait for more of the same before saying anything
  std::set<ProcessId> ended;  // the processes whose end this is about; empty: about something else
};

struct RoundView {
  const WaitForGraph& graph;
  const Names& names;
  const ModelOptions& options;
  uint64_t now_ns;              // begin of the round
  bool finding_stands = false;  // a hang was reported before: people may be killing the job
};

// Cycles (wait-model.md §3.4) and what waits for dead, stopped, aborted or departed members (W14).
// *stuck gets, for every node, whether one of these explains it.
std::vector<Hang> FindHangs(const RoundView&, std::vector<bool>* stuck);

// What has waited for longer than the threshold without a proof, and is not in `stuck`.
std::vector<Finding> FindSuspicions(const RoundView&, const std::vector<bool>& stuck);

// Used by both: one finding for a cycle. `without`: what can progress once the witness does, for
// only who is then free waited because of it. `proven`: as `can`, of what the proof may rest on.
Hang CycleHang(const RoundView&, const std::vector<bool>& can, const std::vector<bool>& without,
               const std::vector<WitnessStep>& witness, const std::vector<bool>& proven);
inline Hang CycleHang(const RoundView& view, const std::vector<bool>& can,
                      const std::vector<bool>& without, const std::vector<WitnessStep>& witness) {
  return CycleHang(view, can, without, witness, can);
}
// `forced` for WaitForGraph::Decide(): the witness, and what `forced` has already.
void Force(const std::vector<WitnessStep>& witness, std::vector<bool>* forced);

// By hash alone: state_block.h.
std::vector<Finding> UnlocatedFindings(const Matcher&, const Names&, uint64_t now_ns);
// When a mismatch was first a finding: by communicator, kind and sequence. It stays what it was
// however long it is told.
using FirstTold = std::map<std::tuple<int, PartKind, uint64_t>, uint64_t>;
std::vector<Finding> MismatchFindings(const Matcher&, const Names&, uint64_t now_ns, bool settled,
                                      FirstTold*);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_HANGS_H_
