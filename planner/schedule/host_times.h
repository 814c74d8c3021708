// Derives from host waits when work on streams ended.
#ifndef GORDIAN_PLANNER_SCHEDULE_HOST_TIMES_H_
#define GORDIAN_PLANNER_SCHEDULE_HOST_TIMES_H_

#include <cstdint>
#include <map>
#include <utility>

#include "planner/proof/job_trace.h"

namespace gordian::planner {

// A shorter wait shows that the work ended before it, not when.
inline constexpr uint64_t kRealWaitNs = 20'000;
inline bool ReallyWaited(const JobCall& call) {
  return call.call == model::Call::kHostWait && call.end_ns >= call.begin_ns + kRealWaitNs;
}

// Takes a process's calls in order, and says which work a wait covers.
class Coverage {
 public:
  void Take(const JobCall& call) {
    if (call.call != model::Call::kStreamWork) return;
    if (call.work == model::WorkKind::kEventRecord)
      events_[call.event] = {call.stream, call.ordinal};
    if (call.work == model::WorkKind::kEventForgotten) events_.erase(call.event);
  }
  bool Covers(const JobCall& wait, const JobCall& op) const {
    switch (wait.wait) {
      case model::WaitKind::kDevice:
        return true;
      case model::WaitKind::kStream:
      case model::WaitKind::kCopy:
        return wait.stream == op.stream && wait.ordinal >= op.ordinal;
      case model::WaitKind::kEvent: {
        const auto at = events_.find(wait.event);
        return at != events_.end() && at->second.first == op.stream &&
               at->second.second >= op.ordinal;
      }
      default:
        return false;
    }
  }

 private:
  std::map<uint64_t, std::pair<model::StreamId, uint64_t>> events_;
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SCHEDULE_HOST_TIMES_H_
