#include "analyzer/model/verdict/group_signs.h"

#include <algorithm>
#include <string>

namespace gordian::model {
namespace {

constexpr size_t kMostSigns = 4;

}  // namespace

std::vector<Sign> GroupSigns(const ExecutionGraph& execution, const Names& names,
                             const Finding& finding) {
  std::vector<Sign> signs;
  for (const auto& [id, process] : execution.processes()) {
    for (const auto& [tid, thread] : process.threads) {
      if (thread.in_group_end) continue;
      const Launch* first = nullptr;
      size_t operations = 0;
      for (const LaunchId held : thread.group_launches) {
        const Launch* launch = execution.FindLaunch(held);
        if (launch == nullptr) continue;
        if (first == nullptr) first = launch;
        operations += std::max<size_t>(launch->parts.size(), 1);  // a signal is no part
      }
      if (first == nullptr) continue;
      const int rank = names.LaunchRank(*first);
      const std::vector<int>& culprits = finding.culprit_ranks;
      if (std::find(culprits.begin(), culprits.end(), rank) == culprits.end()) continue;
      const std::string who = "rank " + std::to_string(rank);
      signs.push_back({"group-left-open",
                       {rank},
                       operations == 1
                           ? who + " has called " + names.NameOf(*first) +
                                 " in a group that it has not ended, so NCCL has not launched it"
                           : who + " has called " + std::to_string(operations) + " operations, " +
                                 names.NameOf(*first) +
                                 " first, in a group that it has not ended, so NCCL has launched "
                                 "none of them"});
    }
  }
  std::stable_sort(signs.begin(), signs.end(),
                   [](const Sign& a, const Sign& b) { return a.ranks < b.ranks; });
  if (signs.size() > kMostSigns) signs.resize(kMostSigns);
  return signs;
}

}  // namespace gordian::model
