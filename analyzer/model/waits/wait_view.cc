#include "analyzer/model/waits/wait_view.h"

namespace gordian::model {

WaitView::WaitView(const ExecutionGraph& execution, const Matcher& matcher,
                   const ModelOptions& options, uint64_t now_ns, Conjecture conjecture)
    : execution(execution),
      matcher(matcher),
      options(options),
      now_ns(now_ns),
      conjecture(conjecture),
      begun_uses(execution, matcher),
      begun_early(execution) {
  launches.reserve(execution.launches().size());
  for (const auto& [id, launch] : execution.launches()) launches.push_back(id);
  std::sort(launches.begin(), launches.end());  // the same facts give the same graph
}

const std::vector<std::pair<const StreamQueue*, const WorkItem*>>& WaitView::WritesOf(
    const Process& process) const {
  auto [it, added] = writes_.try_emplace(process.info.process);
  if (!added) return it->second;
  for (const auto& [stream, queue] : process.streams) {
    for (const WorkItem& item : queue.items) {
      if (item.kind == WorkKind::kMemoryWrite) it->second.emplace_back(&queue, &item);
    }
  }
  return it->second;
}

const std::vector<LaunchId>& WaitView::LaunchesOf(ProcessId process) const {
  if (launches_of_.empty()) {
    for (const LaunchId id : launches) {
      launches_of_[execution.FindLaunch(id)->process].push_back(id);
    }
  }
  return launches_of_[process];
}

}  // namespace gordian::model
