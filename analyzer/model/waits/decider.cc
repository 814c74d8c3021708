#include "analyzer/model/waits/decider.h"

namespace gordian::model {

void AndOrGraph::Index() const {
  const size_t n = kinds_.size();
  conditions_.assign(n, 0);
  first_.assign(n + 1, 0);
  for (const auto& [from, to] : edges_) {
    ++conditions_[from];
    ++first_[to + 1];
  }
  for (size_t i = 0; i < n; ++i) first_[i + 1] += first_[i];
  by_target_.resize(edges_.size());
  std::vector<uint32_t> fill(first_.begin(), first_.end() - 1);
  for (const auto& [from, to] : edges_) by_target_[fill[to]++] = from;
}

std::vector<bool> AndOrGraph::Decide() const {
  const size_t n = kinds_.size();
  if (first_.size() != n + 1 || by_target_.size() != edges_.size()) Index();
  unmet_ = conditions_;
  std::vector<bool> can(n, false);
  work_.clear();
  auto reach = [&](uint32_t node) {
    if (can[node]) return;
    can[node] = true;
    work_.push_back(node);
  };
  for (uint32_t i = 0; i < n; ++i) {
    if (kinds_[i] == Kind::kCan || (kinds_[i] == Kind::kAnd && unmet_[i] == 0)) reach(i);
  }
  while (!work_.empty()) {
    const uint32_t node = work_.back();
    work_.pop_back();
    for (uint32_t e = first_[node]; e < first_[node + 1]; ++e) {
      const uint32_t waiter = by_target_[e];
      switch (kinds_[waiter]) {
        case Kind::kAnd:
          if (--unmet_[waiter] == 0) reach(waiter);
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

}  // namespace gordian::model
