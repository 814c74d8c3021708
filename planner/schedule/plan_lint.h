// Checks whether a step plan would hang when written with blocking sends and receives. Decides the
// program of all ranks by the wait model in its strict form: a send waits for its receive.
#ifndef GORDIAN_PLANNER_SCHEDULE_PLAN_LINT_H_
#define GORDIAN_PLANNER_SCHEDULE_PLAN_LINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/step_plan.h"

namespace gordian::planner {

// How a rank posts the two messages of one step.
enum class Posting : uint8_t {
  kTogether,          // both at once, as in a group
  kSendFirst,         // the receive after the send is done
  kEvenSendsFirst,    // ranks with an even number; odd ones receive first
  kHigherSendsFirst,  // those whose number is above their destination's
  kStrideEvenFirst,   // rank / distance even: of a step over 2^s ranks, floor(rank / 2^s)
};
const char* Name(Posting);

struct LintArrow {
  uint32_t rank = 0;
  uint32_t step = 0;
  bool sends = false;  // stuck in a send, else in a receive
  uint32_t peer = 0;
  bool waits_for_peer = false;  // for the peer's half; else for this rank's earlier steps
};

struct LintResult {
  bool deadlock = false;
  size_t operations = 0;
  std::vector<LintArrow> cycle;
};

LintResult Lint(const runtime::StepPlan& plan, Posting posting);

// "rank 0 step 0: send to 1 > rank 1 step 0: send to 2 > ...".
std::string CycleText(const LintResult& result);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SCHEDULE_PLAN_LINT_H_
