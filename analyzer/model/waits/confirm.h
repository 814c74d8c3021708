// Two rounds (wait-model.md §4): what was stuck in both, with no counter of it changed between
// them, is stuck for ever.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_CONFIRM_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_CONFIRM_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {

struct Proof {
  std::string key;                  // names the stuck nodes; equal in two rounds for the same hang
  std::vector<uint64_t> signature;  // every counter of what is involved
  // The counters of threads that may come to make a missing call. Their change prevents a proof, not
  // a suspicion: a thread beside the circle may run for as long as the job hangs.
  std::vector<uint64_t> others;
  std::vector<std::string> missing;  // why it cannot be confirmed; empty: it can
  std::vector<std::string> assumes;
  // The launches of it, with the indices of their communicators.
  std::vector<std::pair<LaunchId, int>> launches;
  bool conjectural = false;    // it rests on what no host can see: never confirmed
  uint64_t stalled_at_ns = 0;  // the last progress of anything involved
};

// `nodes`: from ProofOf(). `leaves`: dead, stopped or aborted processes that the proof ends at.
Proof MakeProof(const WaitForGraph&, const Names&, const std::vector<uint32_t>& nodes,
                const std::vector<uint32_t>& leaves = {});

class Confirmer {
 public:
  struct Standing {
    bool confirmed = false;           // the same as in the round before, nothing missing in either
    uint64_t unchanged_since_ns = 0;  // begin of the first round that showed it like this
  };

  // At most one call with each proof in a round.
  Standing Check(const Proof& proof, uint64_t round_begin_ns);
  // What was not shown in this round is forgotten.
  void EndRound();

  // True when something stuck needs only one more round like the last.
  bool WantsRound() const { return wants_; }

 private:
  struct Seen {
    std::vector<uint64_t> signature, others;
    bool complete = false;
    uint64_t since_ns = 0;
  };
  std::map<std::string, Seen> before_, now_;
  bool wants_ = false, wants_now_ = false;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_CONFIRM_H_
