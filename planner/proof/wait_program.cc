#include "planner/proof/wait_program.h"

#include <algorithm>
#include <queue>

namespace gordian::planner {
namespace {

constexpr uint32_t kUnseen = UINT32_MAX;
constexpr size_t kStarts = 64;  // of searches for a short cycle

}  // namespace

WaitDecision WaitProgram::Decide() const {
  WaitDecision decision;
  const std::vector<bool> can = graph_.Decide();
  const auto n = static_cast<uint32_t>(can.size());
  for (Moment m = 0; m < n; ++m) {
    if (!can[m]) decision.stuck.push_back(m);
  }
  decision.ends = decision.stuck.empty();
  if (decision.ends) return decision;

  // Edges among the stuck moments, from each to the ones it waits for.
  std::vector<uint32_t> first(n + 1, 0), targets;
  for (const auto& [from, to] : edges_) {
    if (!can[from] && !can[to]) ++first[from + 1];
  }
  for (uint32_t i = 0; i < n; ++i) first[i + 1] += first[i];
  targets.resize(first[n]);
  std::vector<uint32_t> fill(first.begin(), first.end() - 1);
  for (const auto& [from, to] : edges_) {
    if (!can[from] && !can[to]) targets[fill[from]++] = to;
  }
  // A walk from any stuck moment to one that it waits for must enter a cycle.
  std::vector<Moment> starts;
  std::vector<uint8_t> walked(n, 0);
  for (const Moment from : decision.stuck) {
    Moment at = from;
    while (walked[at] == 0 && first[at] != first[at + 1]) {
      walked[at] = 1;
      at = targets[first[at]];
    }
    if (walked[at] == 1 && first[at] != first[at + 1]) {  // a new cycle: `at` is on it
      Moment on = at;
      do {
        starts.push_back(on);
        walked[on] = 2;
        on = targets[first[on]];
      } while (on != at);
    }
    // Marks the walk as done, so that later walks stop there.
    for (at = from; walked[at] == 1;) {
      walked[at] = 2;
      if (first[at] == first[at + 1]) break;
      at = targets[first[at]];
    }
    if (starts.size() >= kStarts) break;
  }
  if (starts.size() > kStarts) starts.resize(kStarts);
  // Finds the shortest cycle through one of those.
  for (const Moment start : starts) {
    std::vector<uint32_t> parent(n, kUnseen);
    std::queue<Moment> queue;
    queue.push(start);
    bool found = false;
    while (!queue.empty() && !found) {
      const Moment at = queue.front();
      queue.pop();
      for (uint32_t e = first[at]; e < first[at + 1] && !found; ++e) {
        const Moment to = targets[e];
        if (to == start) {
          std::vector<Moment> cycle;
          for (Moment m = at; m != start; m = parent[m]) cycle.push_back(m);
          cycle.push_back(start);
          std::reverse(cycle.begin(), cycle.end());
          if (decision.cycle.empty() || cycle.size() < decision.cycle.size()) {
            decision.cycle = std::move(cycle);
          }
          found = true;
        } else if (parent[to] == kUnseen) {
          parent[to] = at;
          queue.push(to);
        }
      }
    }
  }
  return decision;
}

}  // namespace gordian::planner
