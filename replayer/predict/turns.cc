#include "replayer/predict/turns.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace gordian::replayer {
namespace {

// So often must two threads have taken turns.
constexpr size_t kRuns = 6;
constexpr size_t kMostSites = 1000;

class Comparison {
 public:
  explicit Comparison(const LoggedProcess& process) : process_(process) {}

  // `one` and `other`: numbers of calls, ascending.
  bool InTurns(const std::vector<uint32_t>& one, const std::vector<uint32_t>& other) {
    runs_ = 0;
    auto a = one.begin(), b = other.begin();
    bool of_one = false;
    size_t length = 0, before = 0, before_that = 0;  // of the run at hand and those before it
    const LoggedCall* last = nullptr;
    while (a != one.end() || b != other.end()) {
      const bool first = b == other.end() || (a != one.end() && *a < *b);
      const LoggedCall& call = process_.calls[first ? *a++ : *b++];
      if (last != nullptr && first == of_one) {
        ++length;
      } else {
        if (last != nullptr) {
          if (last->end_order() > call.order) return false;
          // The first two runs, and the last one, may be cut off.
          if (runs_ >= 4 && length != before_that) return false;
          before_that = before;
          before = length;
        }
        ++runs_;
        length = 1;
      }
      of_one = first;
      last = &call;
    }
    return runs_ >= kRuns;
  }

 private:
  const LoggedProcess& process_;
  size_t runs_ = 0;
};

}  // namespace

std::vector<std::pair<uint64_t, uint64_t>> SitesInTurns(const LoggedProcess& process) {
  std::map<std::pair<uint32_t, uint64_t>, std::vector<uint32_t>> sites;  // by thread and site
  std::vector<std::vector<uint32_t>*> of_kind(process.kinds.size(), nullptr);
  for (uint32_t own = 0; own < process.calls.size(); ++own) {
    const LoggedCall& call = process.calls[own];
    const CallKind& kind = process.kinds[call.kind];
    if (kind.IsGroupEnd()) continue;
    std::vector<uint32_t>*& calls = of_kind[call.kind];
    if (calls == nullptr) calls = &sites[{kind.thread, kind.site}];
    calls->push_back(own);
  }
  std::vector<std::pair<uint64_t, uint64_t>> found;
  if (sites.size() > kMostSites) return found;
  Comparison comparison(process);
  for (auto one = sites.begin(); one != sites.end(); ++one) {
    for (auto other = std::next(one); other != sites.end(); ++other) {
      if (one->first.first != other->first.first && comparison.InTurns(one->second, other->second))
        found.emplace_back(one->first.second, other->first.second);
    }
  }
  return found;
}

}  // namespace gordian::replayer
