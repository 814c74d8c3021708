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
#include <utility>
#include <vector>

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

// Predicts a job window by window. Of windows that are equal in all that matters it looks at one:
//
//   JobPredictor predictor(options);
//   orders_options.knows = [&](size_t earlier) { return predictor.Knows(earlier); };
//   ReadOrders(path, {}, orders_options, [&](RecordedOrders&& orders) {
//     predictor.Take(orders);
//     return true;
//   });
//
// The predictions are those of Predict() of each window with its calls, merged. Not thread-safe.
class JobPredictor {
 public:
  // `max_states` is of all windows.
  explicit JobPredictor(PredictOptions options) : options_(std::move(options)) {}

  // Whether a further window with the same calls would have the same predictions: not where the
  // search would be broken off elsewhere.
  bool Knows(size_t window) const;
  void Take(const RecordedOrders& window);
  const Predictions& predictions() const { return all_; }
  Predictions&& Release() { return std::move(all_); }

 private:
  struct Window {
    MergedWindow merged;
    bool searched = false;  // the search was not broken off after so many states
  };

  PredictOptions options_;
  std::vector<Window> windows_;
  Predictions all_;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_PREDICT_H_
