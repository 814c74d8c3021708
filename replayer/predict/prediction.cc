#include "replayer/predict/prediction.h"

#include <algorithm>
#include <utility>

namespace gordian::replayer {
namespace {

// `more` has the sites of `known`. One without doubt stands for those with it.
void Join(Prediction&& more, Prediction* known) {
  const size_t alike = known->alike + more.alike + 1;
  if ((more.doubt.empty() && !known->doubt.empty()) || (more.run_decides && !known->run_decides))
    *known = std::move(more);
  known->alike = alike;
}

}  // namespace

bool PredictionList::Add(Prediction&& prediction) {
  const std::set<std::string> sites = prediction.sites;
  std::vector<OpId> calls = prediction.cycle;
  std::sort(calls.begin(), calls.end());
  const bool another = cycles_[sites].insert(std::move(calls)).second;
  const auto known = found_.find(sites);
  if (known == found_.end()) {
    found_.emplace(sites, std::move(prediction));
    return true;
  }
  Join(std::move(prediction), &known->second);
  if (!another) --known->second.alike;
  return false;
}

void PredictionList::MoveTo(Predictions* all) {
  for (auto& [sites, prediction] : found_)
    (prediction.doubt.empty() ? all->predicted : all->unconfirmed).push_back(std::move(prediction));
  found_.clear();
  for (auto* const list : {&all->predicted, &all->unconfirmed}) {
    std::sort(list->begin(), list->end(),
              [](const Prediction& a, const Prediction& b) { return a.cycle < b.cycle; });
  }
}

namespace {

// One of each of these sites, in the order of the sites.
void Arrange(std::vector<std::vector<Prediction>*> lists, Predictions* all) {
  std::map<std::set<std::string>, Prediction> found;
  for (std::vector<Prediction>* const list : lists) {
    for (Prediction& prediction : std::exchange(*list, {})) {
      const std::set<std::string> sites = prediction.sites;
      if (const auto known = found.find(sites); known != found.end()) {
        Join(std::move(prediction), &known->second);
      } else {
        found.emplace(sites, std::move(prediction));
      }
    }
  }
  for (auto& [sites, prediction] : found)
    (prediction.doubt.empty() ? all->predicted : all->unconfirmed).push_back(std::move(prediction));
}

void AddReasons(const std::vector<std::string>& reasons, Predictions* all) {
  for (const std::string& why : reasons) {
    if (std::find(all->not_judged.begin(), all->not_judged.end(), why) == all->not_judged.end())
      all->not_judged.push_back(why);
  }
}

}  // namespace

void Merge(Predictions&& window, bool free, Predictions* all) {
  if (all->windows == 0) {
    *all = std::move(window);
    all->windows = 1;
    return;
  }
  ++all->windows;
  Arrange({&all->predicted, &all->unconfirmed, &window.predicted, &window.unconfirmed}, all);
  AddReasons(window.not_judged, all);
  all->judged |= window.judged;
  // Orders across windows were not tried.
  all->complete &= window.complete && !free;
  all->candidates += window.candidates;
  all->states += window.states;
  all->ranks = std::max(all->ranks, window.ranks);
  all->calls += window.calls;
  all->left_out += window.left_out;
}

MergedWindow SummaryOf(const Predictions& window) {
  MergedWindow summary{
      .candidates = window.candidates, .states = window.states, .calls = window.calls};
  for (const auto* const list : {&window.predicted, &window.unconfirmed}) {
    for (const Prediction& prediction : *list)
      summary.found.emplace_back(prediction.sites, prediction.alike + 1);
  }
  return summary;
}

void MergeAgain(const MergedWindow& window, const std::vector<std::string>& reasons,
                Predictions* all) {
  if (all->windows++ == 1) Arrange({&all->predicted, &all->unconfirmed}, all);
  for (const auto& [sites, count] : window.found) {
    for (auto* const list : {&all->predicted, &all->unconfirmed}) {
      for (Prediction& known : *list) {
        if (known.sites == sites) known.alike += count;
      }
    }
  }
  AddReasons(reasons, all);
  all->complete = false;  // orders across windows were not tried
  all->candidates += window.candidates;
  all->states += window.states;
  all->calls += window.calls;
}

}  // namespace gordian::replayer
