// Decides, before anything runs, whether a plan is free of deadlock together with everything else
// that the job's ranks do, by the wait model.
//
// The proof takes one iteration of the recorded job, removes its gradient all-reduces, repeats it
// for the plan's warm-up and two periods, and puts the plan's sends where a runner issues them: the
// rest of a generation at the begin of the forward and of the backward pass, a new gradient where
// its all-reduce was called. A recorded wait for a gradient's all-reduce becomes a wait for the
// plan: the optimizer waits for the generations that an iteration completes; a wait that leads to
// an operation on another communicator in the same iteration waits for that very gradient. Rules W1
// to W8 and W13 of docs/wait-model.md; each thread makes its calls in order.
//
// All waits are AND waits, so one decision covers every timing and every order of independent
// streams. Beyond that, streams share the multiprocessors: see Proof::capacity.
#ifndef GORDIAN_PLANNER_PROOF_PROOF_H_
#define GORDIAN_PLANNER_PROOF_PROOF_H_

#include <cstddef>
#include <string>
#include <vector>

#include "planner/proof/job_trace.h"
#include "planner/schedule/plan.h"
#include "planner/session_profile.h"

namespace gordian::planner {

struct ProofInput {
  // One plan for all ranks; or one for each, in rank order of the data-parallel communicator.
  std::vector<const Plan*> plans;
  const JobTrace* trace = nullptr;     // null: the plan alone, over `ranks` ranks
  const BucketCalls* calls = nullptr;  // only with a trace
  int ranks = 2;                       // only without a trace
  int resident = 0;                    // collectives that a GPU can run at once; 0: one per stream
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
  std::vector<std::string> models;  // the models that accepted or refused it
  size_t operations = 0, waits = 0;
  int iterations = 0;
  int streams = 0;  // largest number of collectives that one rank can have in flight
};

Proof Prove(const ProofInput& input);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_PROOF_H_
