// Is a plan free of deadlock together with all else that the job's ranks do? Decided before
// anything runs, by the wait model.
//
// One iteration of the recorded job, its gradient all-reduces taken out, is repeated for the plan's
// warm-up and two periods, and the plan's sends are put where a runner issues them: what is left of
// a generation at the begin of the forward and of the backward pass, a new gradient where its
// all-reduce was called. What waited for a gradient's all-reduce waits for the plan: the optimizer
// for the generations that an iteration completes; whatever leads to an operation on another
// communicator, in the same iteration, for the very gradient. Rules W1 to W8 and W13 of
// docs/wait-model.md; host calls in the order of their threads.
//
// Waits are all AND, so one decision stands for every timing and every order of independent
// streams. What the streams share beyond that are the multiprocessors: see Proof::capacity.
#ifndef GORDIAN_PLANNER_PROOF_H_
#define GORDIAN_PLANNER_PROOF_H_

#include <cstddef>
#include <string>
#include <vector>

#include "planner/job_trace.h"
#include "planner/plan.h"
#include "planner/session_profile.h"

namespace gordian::planner {

struct ProofInput {
  // One for all ranks; or one for each, in the order of the data-parallel communicator's ranks.
  std::vector<const Plan*> plans;
  const JobTrace* trace = nullptr;     // null: the plan alone, over `ranks` ranks
  const BucketCalls* calls = nullptr;  // with a trace
  int ranks = 2;                       // without
  int resident = 0;  // collectives that a GPU can hold at once; 0: as many as there are streams
};

struct ProofArrow {
  int rank = -1;
  int waits_for_rank = -1;
  std::string what;
  std::string waits_for;
};

struct Proof {
  bool accepted = false;
  std::string refusal;  // "cycle", "mismatch", "capacity", "not-provable"; "": accepted
  std::string detail;   // one line
  std::vector<ProofArrow> cycle;
  std::vector<std::string> models;  // that were run
  size_t operations = 0, waits = 0;
  int iterations = 0;
  int streams = 0;  // most collectives of one rank that can be in flight
};

Proof Prove(const ProofInput& input);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_H_
