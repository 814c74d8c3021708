#include "analyzer/graph/decider.h"

namespace gordian::graph {

std::vector<bool> AndOrGraph::Decide() const {
  const size_t n = kinds_.size();
  std::vector<uint32_t> waits(n, 0);      // conditions not yet met
  std::vector<uint32_t> first(n + 1, 0);  // waiters of a node: by_target[first[i], first[i + 1])
  for (const auto& [from, to] : edges_) {
    ++waits[from];
    ++first[to + 1];
  }
  for (size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<uint32_t> by_target(edges_.size()), fill(first.begin(), first.end() - 1);
  for (const auto& [from, to] : edges_) by_target[fill[to]++] = from;

  std::vector<bool> can(n, false);
  std::vector<uint32_t> work;
  auto reach = [&](uint32_t node) {
    if (can[node]) return;
    can[node] = true;
    work.push_back(node);
  };
  for (uint32_t i = 0; i < n; ++i) {
    if (kinds_[i] == Kind::kCan || (kinds_[i] == Kind::kAnd && waits[i] == 0)) reach(i);
  }
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    for (uint32_t e = first[node]; e < first[node + 1]; ++e) {
      const uint32_t waiter = by_target[e];
      switch (kinds_[waiter]) {
        case Kind::kAnd:
          if (--waits[waiter] == 0) reach(waiter);
          break;
        case Kind::kOr:
          reach(waiter);
          break;
        case Kind::kCan:
        case Kind::kCannot:
          break;
      }
    }
  }
  return can;
}

}  // namespace gordian::graph
