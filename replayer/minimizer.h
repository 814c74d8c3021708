// The smallest schedule that hangs as a given one does.
//
// Delta debugging: A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
// IEEE Transactions on Software Engineering 28(2), 2002, algorithm ddmin. What it takes out, coarse
// before fine, is: ranks, communicators, members of communicators, steps (one collective at all its
// members; both ends of a transfer), threads, events, single calls. After that the shape:
// communicators are made beforehand instead of on the way, threads and streams of a rank become
// one, nothing is connected beforehand that need not be, gates that change nothing go. All of it
// again until nothing more can be taken out; at last the sizes.
//
// A candidate counts when the model (model_run.h) finds in it the same verdict, check and kinds of
// edges as in the whole, with those that are waited for held back for the same kinds of reasons,
// and when each thread that stood in a call that did not return, and is still there, stands in it
// still. Without the reasons a call that is not reached would be left out, and the circle then
// rests on a call that is nowhere to be read. The last calls of threads are left where they are:
// without them a thread would merely wait at its end.
//
// Survivors can be run: `confirm` is asked for the smallest; if it says no, for the larger ones
// that led to it, and from the last good one on for each candidate. So a job that the model judges
// rightly costs one run.
//
// Deterministic. Pure but for what the callbacks do: who wants a limit in time looks at a clock in
// `progress`.
#ifndef GORDIAN_REPLAYER_MINIMIZER_H_
#define GORDIAN_REPLAYER_MINIMIZER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "replayer/schedule.h"

namespace gordian::replayer {

struct MinimizeProgress {
  const char* step = "";     // "ranks"
  size_t candidates = 0;     // decided by the model so far
  size_t confirmations = 0;  // asked for so far
  size_t ranks = 0;          // of the smallest so far
  size_t operations = 0;
};

struct MinimizeOptions {
  // Whether it hangs the same way when it runs. Empty: the model's word is enough.
  std::function<bool(const Schedule&)> confirm;
  // Called before each candidate; false ends the search with what there is. May be empty.
  std::function<bool(const MinimizeProgress&)> progress;
  size_t max_candidates = 50'000;
  size_t max_confirmations = 64;
};

struct MinimizeReport {
  Schedule schedule;    // not to be used where refused
  std::string refused;  // why there is none: "it does not hang: finished"
  // Nothing was left to try. False: the budget was used up, or `progress` said no.
  bool minimal = false;
  bool confirmed = false;  // `confirm` has said yes to `schedule`
  size_t ranks_before = 0, ranks_after = 0;
  size_t operations_before = 0, operations_after = 0;  // of NCCL
  size_t calls_before = 0, calls_after = 0;
  size_t candidates = 0;
  size_t confirmations = 0;
};

// Of a schedule in which Check() finds nothing. Its Origin is kept.
MinimizeReport Minimize(const Schedule& schedule, const MinimizeOptions& options = {});

// One line for people: "2 of 64 ranks, 4 of 1,310 operations (211 candidates, 1 run)".
std::string Describe(const MinimizeReport& report);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_MINIMIZER_H_
