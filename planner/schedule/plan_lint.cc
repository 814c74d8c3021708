#include "planner/schedule/plan_lint.h"

#include "planner/proof/wait_program.h"

namespace gordian::planner {
namespace {

bool SendsFirst(Posting posting, const runtime::StepPlan& plan, uint32_t rank,
                const runtime::PlanStep& step) {
  switch (posting) {
    case Posting::kTogether:
    case Posting::kSendFirst:
      return true;
    case Posting::kEvenSendsFirst:
      return rank % 2 == 0;
    case Posting::kHigherSendsFirst:
      return rank > step.to;
    case Posting::kStrideEvenFirst: {
      // The distance of this step, whichever way it goes round.
      const uint32_t n = runtime::Ranks(plan);
      const uint32_t up = (step.to + n - rank) % n;
      const uint32_t distance =
          plan.inter == runtime::InterPlan::kBruck && plan.kind == runtime::PlanKind::kAllGather
              ? n - up
              : up;
      return rank / distance % 2 == 0;
    }
  }
  return true;
}

}  // namespace

const char* Name(Posting posting) {
  switch (posting) {
    case Posting::kTogether:
      return "send and receive together";
    case Posting::kSendFirst:
      return "send first";
    case Posting::kEvenSendsFirst:
      return "even ranks send first";
    case Posting::kHigherSendsFirst:
      return "send first if above the destination";
    case Posting::kStrideEvenFirst:
      return "send first if rank / distance is even";
  }
  return "?";
}

LintResult Lint(const runtime::StepPlan& plan, Posting posting) {
  const uint32_t ranks = runtime::Ranks(plan);
  const uint32_t steps = runtime::StepCount(plan);
  // Moments of rank r in step s: send starts, send done, receive starts, receive done.
  WaitProgram program;
  for (uint64_t i = 0; i < uint64_t{4} * ranks * steps; ++i) program.Add();
  const auto moment = [&](uint32_t rank, uint32_t step, bool sends, bool done) {
    return ((rank * steps + step) * 2 + (sends ? 0 : 1)) * 2 + (done ? 1 : 0);
  };
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t step = 0; step < steps; ++step) {
      const runtime::PlanStep now = runtime::StepAt(plan, rank, step);
      for (const bool sends : {true, false}) {
        const Moment start = moment(rank, step, sends, false);
        const Moment done = moment(rank, step, sends, true);
        program.Wait(done, start);
        program.Wait(done, moment(sends ? now.to : now.from, step, !sends, false));
        if (step > 0) {
          program.Wait(start, moment(rank, step - 1, true, true));
          program.Wait(start, moment(rank, step - 1, false, true));
        }
      }
      if (posting != Posting::kTogether) {
        const bool first = SendsFirst(posting, plan, rank, now);
        program.Wait(moment(rank, step, !first, false), moment(rank, step, first, true));
      }
    }
  }
  const WaitDecision decision = program.Decide();
  LintResult result;
  result.deadlock = !decision.ends;
  result.operations = size_t{2} * ranks * steps;
  for (size_t i = 0; i < decision.cycle.size(); ++i) {
    const Moment at = decision.cycle[i];
    if (at % 2 == 0) continue;  // the end that follows also waits for the rank's past
    const uint32_t rank = at / 4 / steps;
    const uint32_t step = at / 4 % steps;
    const bool sends = at / 2 % 2 == 0;
    const runtime::PlanStep now = runtime::StepAt(plan, rank, step);
    const Moment next = decision.cycle[(i + 1) % decision.cycle.size()];
    result.cycle.push_back(
        {rank, step, sends, sends ? now.to : now.from, next / 4 / steps != rank});
  }
  return result;
}

std::string CycleText(const LintResult& result) {
  std::string text;
  for (const LintArrow& arrow : result.cycle) {
    text += (text.empty() ? "" : " > ") + ("rank " + std::to_string(arrow.rank)) + " step " +
            std::to_string(arrow.step) + ": " + (arrow.sends ? "send to " : "receive from ") +
            std::to_string(arrow.peer);
  }
  return text.empty() ? text : text + " > rank " + std::to_string(result.cycle.front().rank);
}

}  // namespace gordian::planner
