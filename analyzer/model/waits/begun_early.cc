#include "analyzer/model/waits/begun_early.h"

#include <algorithm>

namespace gordian::model {

BegunEarly::Key BegunEarly::KeyOf(const PartRef& part) {
  return {part.comm, part.kind, part.rank, part.kind == PartKind::kCollective ? -1 : part.peer,
          part.sequence};
}

BegunEarly::BegunEarly(const ExecutionGraph& execution) {
  for (const auto& [id, process] : execution.processes()) {
    if (process.Dead() || !process.has_state) continue;
    for (const EarlyOperation& early : process.state.early) {
      const auto local = process.comms.find(early.comm);
      if (local == process.comms.end() || local->second.index < 0) continue;
      const PartKind kind = !early.transfer ? PartKind::kCollective
                            : early.sends   ? PartKind::kSend
                                            : PartKind::kReceive;
      parts_.push_back(
          KeyOf({kind, local->second.index, local->second.rank, early.peer, early.sequence}));
    }
  }
  std::sort(parts_.begin(), parts_.end());
}

bool BegunEarly::Says(const Process& process, const Launch& launch) const {
  if (!process.has_state || !launch.enqueued || launch.parts.empty()) return false;
  if (process.state.early_unknown) return true;
  return std::any_of(launch.parts.begin(), launch.parts.end(), [&](const Part& part) {
    return std::binary_search(parts_.begin(), parts_.end(), KeyOf(part.ref));
  });
}

}  // namespace gordian::model
