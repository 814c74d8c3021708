// What is known of the deadlocks that other orders of a recorded job's calls lead to.
#ifndef GORDIAN_REPLAYER_PREDICT_PREDICTION_H_
#define GORDIAN_REPLAYER_PREDICT_PREDICTION_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

// A rank calls `first` before `second`. Both are calls of different threads.
struct CallOrder {
  size_t rank = 0;
  OpId first = 0, second = 0;
  bool as_recorded = false;
};

// A call that an order never comes to.
struct UnreachedCall {
  size_t rank = 0, thread = 0;  // in the schedule
  Op op;
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
  std::vector<CallOrder> orders;         // one or more of each rank of the cycle that had a choice
  size_t alike = 0;                      // more deadlocks with these sites that were met
  Schedule witness;                      // its gates force the deadlock, if one was reached
  std::vector<UnreachedCall> unreached;  // which the witness leaves out
  std::vector<OpId> begun;               // the witness' calls in the order in which they begin
  std::optional<size_t> preemptions;     // in that order, where they were counted
  std::string doubt;                     // why it is not confirmed; empty: it is
  bool run_decides = false;              // a run of the witness that hangs removes the doubt
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
  size_t windows = 0;                         // that Merge has added
};

// Adds the predictions of the next window of the same job. `free`: calls of one window may come in
// the order of those of another one; Predict does not try those orders.
void Merge(Predictions&& window, bool free, Predictions* all);

// What is left to add of a window with the same predictions as one that Merge has added.
struct MergedWindow {
  std::vector<std::pair<std::set<std::string>, size_t>> found;  // their sites, and how many
  size_t candidates = 0, states = 0, calls = 0;
};
MergedWindow SummaryOf(const Predictions& window);  // before Merge
// `reasons`: why something of this window, and not of the other one, is not judged.
void MergeAgain(const MergedWindow& window, const std::vector<std::string>& reasons,
                Predictions* all);

// Predictions of one window; of those with equal sites, one.
class PredictionList {
 public:
  // Returns false where one with these sites is there, which may change for this one.
  bool Add(Prediction&& prediction);
  bool Contains(const std::set<std::string>& sites) const { return found_.contains(sites); }
  size_t size() const { return found_.size(); }
  // Puts them into `all`, in order.
  void MoveTo(Predictions* all);

 private:
  std::map<std::set<std::string>, Prediction> found_;
  std::map<std::set<std::string>, std::set<std::vector<OpId>>> cycles_;  // by their sites
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_PREDICTION_H_
