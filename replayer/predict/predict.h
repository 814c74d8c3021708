// Finds the deadlocks that other orders of a recorded job's calls lead to.
//
// Three steps: a graph of the calls (analyzer/explore/collective_order_graph.h) names candidates;
// for each the calls are made in the order that its cycle needs, and for those that this does not
// reach, a search (analyzer/explore/explorer.h) tries the orders that remain; the wait model
// judges the result (replayer/reduce/model_run.h). Only an order that the model calls a deadlock is
// predicted.
//
// Pure except for the callback, deterministic.
#ifndef GORDIAN_REPLAYER_PREDICT_PREDICT_H_
#define GORDIAN_REPLAYER_PREDICT_PREDICT_H_

#include <cstddef>
#include <functional>

#include "replayer/predict/prediction.h"
#include "replayer/predict/recorded_orders.h"

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

// Of one window.
Predictions Predict(const RecordedOrders& orders, const PredictOptions& options = {});

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_PREDICT_H_
