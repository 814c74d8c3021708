// Finds the smallest schedule that hangs in the same way as a given one.
//
// Delta debugging: A. Zeller, R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
// IEEE Transactions on Software Engineering 28(2), 2002, algorithm ddmin. It removes, coarse before
// fine: ranks, communicators, members of communicators, steps (one collective at all its members;
// both ends of a transfer), threads, events, single calls. Then it simplifies the shape: makes
// communicators beforehand, merges threads and streams of a rank, drops needless connections and
// gates that change nothing. It repeats all this until nothing more can be removed, and reduces the
// sizes. Last, it adds the calls that the job did not reach (not_reached.h), as every written
// program has them, and removes the waits at the ends of threads: a wait that holds back such a call
// stays, all others go, since a thread waits at its end anyway.
//
// A candidate counts if the model (model_run.h) finds the same verdict, check and kinds of edges as
// for the whole, with the awaited ranks held back for the same kinds of reasons, and if each
// remaining thread that stood in a call that did not return still stands in it. Without comparing
// the reasons, the minimizer would remove calls that a thread does not reach, and the cycle would
// rest on a call that the program no longer contains.
//
// Candidates can be run: the minimizer calls `confirm` for the smallest; if that fails, for the
// larger ones before it, and from the last good one on for each candidate. So a job that the model
// judges rightly costs one run.
//
// Deterministic. Pure except for the callbacks: a caller that wants a time limit reads the clock in
// `progress`.
#ifndef GORDIAN_REPLAYER_REDUCE_MINIMIZER_H_
#define GORDIAN_REPLAYER_REDUCE_MINIMIZER_H_

#include <cstddef>
#include <functional>
#include <string>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct MinimizeProgress {
  const char* step = "";     // "ranks"
  size_t candidates = 0;     // judged by the model so far
  size_t confirmations = 0;  // runs so far
  size_t ranks = 0;          // of the smallest so far
  size_t operations = 0;
};

struct MinimizeOptions {
  // Runs it, and returns whether it hangs in the same way. Empty: the model's word suffices.
  std::function<bool(const Schedule&)> confirm;
  // Called before each candidate; returning false ends the search with the best so far. May be
  // empty.
  std::function<bool(const MinimizeProgress&)> progress;
  size_t max_candidates = 50'000;
  size_t max_confirmations = 64;
};

struct MinimizeReport {
  Schedule schedule;    // unusable if refused
  std::string refused;  // why there is none: "by the model the schedule does not hang: finished"
  // True if nothing was left to try; false if the budget ran out or `progress` returned false.
  bool minimal = false;
  bool confirmed = false;  // `confirm` returned true for `schedule`
  size_t ranks_before = 0, ranks_after = 0;
  size_t operations_before = 0, operations_after = 0;  // of NCCL
  size_t calls_before = 0, calls_after = 0;
  size_t candidates = 0;
  size_t confirmations = 0;
};

// `schedule` must pass Check(). Keeps its Origin.
MinimizeReport Minimize(const Schedule& schedule, const MinimizeOptions& options = {});

// One line for people: "2 of 64 ranks, 4 of 1,310 operations (211 candidates, 1 run)".
std::string Describe(const MinimizeReport& report);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_MINIMIZER_H_
