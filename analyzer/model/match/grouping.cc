#include "analyzer/model/match/grouping.h"

#include <algorithm>

namespace gordian::model {
std::vector<GroupingCamp> GroupingCamps(const ExecutionGraph& execution, const Matcher& matcher,
                                        const PartRef& collective) {
  std::vector<GroupingCamp> camps;
  if (collective.comm < 0 || collective.kind != PartKind::kCollective) return camps;
  const Instance* const instance = matcher.FindInstance(collective.comm, collective.sequence);
  if (instance == nullptr ||
      IsPairwise(instance->members[static_cast<size_t>(collective.rank)].signature.call))
    return camps;
  for (size_t member = 0; member < instance->members.size(); ++member) {
    const Launch* const launch = execution.FindLaunch(instance->members[member].launch);
    if (launch == nullptr || !launch->enqueued || launch->from_state) continue;
    const Process* const process = execution.Find(launch->process);
    if (process == nullptr || process->unknown.calls) continue;
    std::vector<uint64_t> together;
    for (const Part& part : launch->parts) {
      if (UsesChannelsOfAll(RoleOf(part))) together.push_back(part.ref.sequence);
    }
    std::sort(together.begin(), together.end());
    auto camp = std::find_if(camps.begin(), camps.end(),
                             [&](const GroupingCamp& c) { return c.together == together; });
    if (camp == camps.end()) camp = camps.insert(camps.end(), {std::move(together), {}});
    camp->members.push_back(static_cast<int>(member));
  }
  std::stable_sort(camps.begin(), camps.end(), [](const auto& a, const auto& b) {
    return a.members.size() > b.members.size();
  });
  return camps;
}

}  // namespace gordian::model
