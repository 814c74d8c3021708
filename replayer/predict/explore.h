// Tries the orders that a recorded job's threads are free to call in (analyzer/explore/explorer.h),
// and judges each end. Where predict.h tries orders that a graph names, this tries all, within
// bounds.
//
// Pure except for the callback. Its results do not depend on the number of threads, nor on where
// the search was broken off and gone on with.
#ifndef GORDIAN_REPLAYER_PREDICT_EXPLORE_H_
#define GORDIAN_REPLAYER_PREDICT_EXPLORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/explore/explorer.h"
#include "common/status.h"
#include "replayer/predict/prediction.h"
#include "replayer/predict/recorded_orders.h"

namespace gordian::replayer {

// An end worth keeping, by the actors that move on the way there.
struct KeptEnd {
  uint64_t number = 0;
  std::vector<uint32_t> path;
};

// How far the search of one window has come. Plain, so that files can hold it.
struct WindowState {
  uint64_t digest = 0;  // of the window's calls, and what orders them; 0: not begun
  bool done = false;    // nothing is left within the bounds
  explore::Frontier frontier;
  std::vector<KeptEnd> ends;
};

struct ExploreProgress {
  explore::ExploreCounts counts;
  size_t open = 0;   // states to go on from
  size_t found = 0;  // deadlocks with other call sites
};

struct OrderSearchOptions {
  std::optional<size_t> max_preemptions;
  std::optional<size_t> max_calls;  // of one order
  size_t max_states = 1'000'000;
  // As explore::ExploreOptions::for_each: ByThreads() for several threads.
  std::function<void(size_t count, const std::function<void(size_t)>& work)> for_each;
  // Called every few moves, by the caller's thread; returning false ends the search. `save` gives
  // its state. May be empty.
  std::function<bool(const ExploreProgress&, const std::function<WindowState()>& save)> on_batch;
};

// For explore::ExploreOptions::for_each: shares the work out to so many threads.
std::function<void(size_t count, const std::function<void(size_t)>& work)> ByThreads(
    size_t threads);

// `state`: where to begin, and afterwards where it ended. Errors: it belongs to other calls.
StatusOr<Predictions> ExploreWindow(const RecordedOrders& orders, const OrderSearchOptions& options,
                                    WindowState* state);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_EXPLORE_H_
