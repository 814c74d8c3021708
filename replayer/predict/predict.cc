#include "replayer/predict/predict.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/explore/collective_order_graph.h"
#include "analyzer/explore/explorer.h"
#include "analyzer/explore/follow.h"
#include "replayer/predict/order_judge.h"
#include "replayer/predict/readiness.h"
#include "replayer/predict/schedule_state.h"

namespace gordian::replayer {
namespace {

using explore::Step;

// So many ends of orders a search asks the model about.
constexpr size_t kMostEnds = 1000;

class Predictor {
 public:
  Predictor(const RecordedOrders& orders, const PredictOptions& options)
      : orders_(orders), options_(options), judge_(orders) {}

  Predictions Run() {
    if (!judge_.Begin(&result_)) return std::move(result_);
    FindAll();
    found_.MoveTo(&result_);
    result_.complete &= result_.unconfirmed.empty();
    return std::move(result_);
  }

 private:
  bool GoesOn() const {
    return !options_.progress ||
           options_.progress({result_.candidates, tried_, result_.states, found_.size()});
  }

  void FindAll() {
    const OrderedCalls calls = OrderedCallsOf(orders_);
    const explore::Candidates candidates =
        explore::FindCandidates(calls.calls, options_.max_candidates);
    result_.candidates = candidates.found.size();
    std::vector<const explore::Candidate*> open;
    for (const explore::Candidate& candidate : candidates.found) {
      if (!GoesOn()) return;
      ++tried_;
      if (!Follow(calls, candidate)) open.push_back(&candidate);
    }
    std::erase_if(open, [&](const explore::Candidate* candidate) {
      return found_.Contains(SitesOf(calls, *candidate));
    });
    bool searched = candidates.all;
    if (!open.empty()) searched &= Search();
    // Of dead ends that are no deadlocks, or that gates cannot force, nothing is claimed.
    others_.NoteIn(&result_);
    // A complete search has shown of the others that no order reaches them.
    result_.complete = searched && result_.not_judged.empty();
    if (searched) return;
    for (const explore::Candidate* const candidate : open) {
      if (CanHold(calls, *candidate)) Leave(calls, *candidate);
    }
    if (!candidates.all)
      result_.not_judged.push_back("orders beyond the first " + std::to_string(result_.candidates) +
                                   " candidates");
  }

  // Makes the calls in the order that the candidate needs. Returns whether that is a deadlock.
  bool Follow(const OrderedCalls& calls, const explore::Candidate& candidate) {
    std::vector<explore::Wish> wishes;
    for (const auto* const pairs : {&candidate.reversals, &candidate.as_recorded}) {
      for (const auto& [first, second] : *pairs)
        wishes.push_back({.later = calls.steps[second], .before = calls.steps[first]});
    }
    const std::unique_ptr<explore::Explorable> state = judge_.root().Clone();
    const std::vector<Step> path = explore::Follow(state.get(), wishes);
    return Judge(*state, path);
  }

  // Returns whether every order was tried.
  bool Search() {
    explore::ExploreOptions options;
    options.max_states = options_.max_states;
    options.on_end = [&](uint64_t, const explore::Explorable& state, const std::vector<Step>& path,
                         size_t) {
      if (judged_ends_ < kMostEnds) Judge(state, path);
      ++judged_ends_;
    };
    options.on_batch = [&](const explore::ExploreCounts& counts, size_t) {
      result_.states = counts.states;
      return judged_ends_ < kMostEnds && GoesOn();
    };
    explore::Explorer explorer(judge_.root(), std::move(options));
    const bool complete = explorer.Run();
    result_.states = explorer.counts().states;
    return complete && judged_ends_ <= kMostEnds;
  }

  // Asks the model about a state in which nothing moves. Returns whether it is a deadlock.
  bool Judge(const explore::Explorable& state, const std::vector<Step>& path) {
    std::string key = state.Key();
    if (const auto known = judged_.find(key); !key.empty() && known != judged_.end())
      return known->second;
    JudgedEnd end = judge_.Judge(state, path);
    const bool deadlock = end.kind == JudgedEnd::Kind::kDeadlock;
    judged_.emplace(std::move(key), deadlock);
    others_.Add(end);
    if (deadlock) found_.Add(std::move(end.prediction));
    return deadlock;
  }

  std::set<std::string> SitesOf(const OrderedCalls& calls,
                                const explore::Candidate& candidate) const {
    std::set<std::string> sites;
    for (const size_t call : candidate.calls) sites.insert(judge_.SiteOf(*calls.ops[call]));
    return sites;
  }

  // Whether a rank can make its calls in the orders that the candidate needs: they do not contradict
  // one another, nor the order of its threads' calls.
  static bool CanHold(const OrderedCalls& calls, const explore::Candidate& candidate) {
    std::vector<explore::Reversal> orders = candidate.reversals;
    orders.insert(orders.end(), candidate.as_recorded.begin(), candidate.as_recorded.end());
    std::vector<size_t> all;
    for (const auto& [first, second] : orders) all.insert(all.end(), {first, second});
    for (const size_t one : all) {
      for (const size_t other : all) {
        if (one < other && calls.calls[one].actor == calls.calls[other].actor)
          orders.emplace_back(one, other);
      }
    }
    // What is behind nothing else cannot contradict anything.
    for (size_t before = 0; before != orders.size();) {
      const std::vector<explore::Reversal> left = orders;
      before = left.size();
      std::erase_if(orders, [&](const explore::Reversal& order) {
        return std::none_of(left.begin(), left.end(), [&](const explore::Reversal& other) {
          return other.second == order.first;
        });
      });
    }
    return orders.empty();
  }

  // A candidate that no trial reached, while not all were tried.
  void Leave(const OrderedCalls& calls, const explore::Candidate& candidate) {
    Prediction prediction{.witness = orders_.schedule};
    for (const size_t call : candidate.calls) {
      prediction.cycle.push_back(calls.ops[call]->id);
    }
    prediction.sites = SitesOf(calls, candidate);
    for (const auto* const pairs : {&candidate.reversals, &candidate.as_recorded}) {
      for (const auto& [first, second] : *pairs)
        prediction.orders.push_back({calls.calls[first].group, calls.ops[first]->id,
                                     calls.ops[second]->id, pairs == &candidate.as_recorded});
    }
    prediction.doubt = "no order that leads there was found among those that were tried";
    found_.Add(std::move(prediction));
  }

  const RecordedOrders& orders_;
  const PredictOptions options_;
  const OrderJudge judge_;
  std::unordered_map<std::string, bool> judged_;  // by the state's key
  PredictionList found_;
  OtherEnds others_;
  size_t tried_ = 0;
  size_t judged_ends_ = 0;  // of the search
  Predictions result_;
};

}  // namespace

Predictions Predict(const RecordedOrders& orders, const PredictOptions& options) {
  Predictions predictions = Predictor(orders, options).Run();
  if (!predictions.judged) return predictions;
  for (Prediction& found : PredictReadiness(orders, options.max_candidates))
    predictions.unconfirmed.push_back(std::move(found));
  predictions.complete &= predictions.unconfirmed.empty();
  return predictions;
}

bool JobPredictor::Knows(size_t window) const {
  return windows_[window].searched && windows_[window].merged.states < options_.max_states;
}

void JobPredictor::Take(const RecordedOrders& window) {
  if (window.as) {
    windows_.emplace_back();  // never named: the first one is
    MergeAgain(windows_[*window.as].merged, window.not_judged, &all_);
  } else {
    Predictions predictions = Predict(window, options_);
    windows_.push_back({SummaryOf(predictions), predictions.states < options_.max_states});
    Merge(std::move(predictions), window.free || !window.ready_sites.empty(), &all_);
  }
  const size_t states = windows_[window.as.value_or(windows_.size() - 1)].merged.states;
  options_.max_states -= std::min(options_.max_states - 1, states);
}

}  // namespace gordian::replayer
