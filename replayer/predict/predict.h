// Finds the deadlocks that other orders of a recorded job's calls lead to.
//
// Three steps: a graph of the calls (analyzer/explore/collective_order_graph.h) names candidates;
// for each the calls are made in the order that its cycle needs, and for those that this does not
// reach, a search (analyzer/explore/order_search.h) tries the orders that remain; the wait model
// judges the result (replayer/reduce/model_run.h). Only an order that the model calls a deadlock is
// predicted.
//
// Pure except for the callback, deterministic.
#ifndef GORDIAN_REPLAYER_PREDICT_PREDICT_H_
#define GORDIAN_REPLAYER_PREDICT_PREDICT_H_

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "replayer/predict/recorded_orders.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct PredictProgress {
  size_t candidates = 0, tried = 0;
  size_t states = 0;  // that the search has seen
  size_t found = 0;   // deadlocks
};

struct PredictOptions {
  size_t max_candidates = 100;
  size_t max_states = 20'000;
  // Called between candidates and states; returning false ends the search. May be empty.
  std::function<bool(const PredictProgress&)> progress;
};

// A rank calls `first` before `second`. Both are calls of different threads.
struct CallOrder {
  size_t rank = 0;
  OpId first = 0, second = 0;
  bool as_recorded = false;
};

// What a prediction rests on.
enum class Freedom {
  kThreadsUnordered,  // nothing orders calls of two threads
  kReadinessOrdered,  // the job says that calls come in any order (readiness.h)
};

struct Prediction {
  Freedom freedom = Freedom::kThreadsUnordered;
  std::set<std::string> sites;  // equal for those that a person would not tell apart
  // The call that each rank of the cycle waits in; of kReadinessOrdered, two calls that would meet.
  std::vector<OpId> cycle;
  std::vector<CallOrder> orders;  // one or more of each rank of the cycle that had a choice
  size_t alike = 0;               // more deadlocks with these sites that were met
  Schedule witness;               // its gates force the deadlock, if one was reached
  std::string doubt;              // why it is not confirmed; empty: it is
  bool run_decides = false;       // a run of the witness that hangs removes the doubt
};

struct Predictions {
  bool judged = false;                  // false: `not_judged` says why
  std::vector<std::string> not_judged;  // one line each
  std::vector<Prediction> predicted;
  std::vector<Prediction> unconfirmed;
  // Where nothing is predicted: no order of the recorded run's threads leads to a deadlock.
  bool complete = false;
  size_t candidates = 0, states = 0;
  size_t ranks = 0, calls = 0, left_out = 0;  // judged; called before those
};

// Of one window.
Predictions Predict(const RecordedOrders& orders, const PredictOptions& options = {});

// Adds the predictions of a later window of the same job.
void Merge(Predictions&& window, bool free, Predictions* all);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_PREDICT_H_
