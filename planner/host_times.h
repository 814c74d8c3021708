// What host waits show of work on streams.
#ifndef GORDIAN_PLANNER_HOST_TIMES_H_
#define GORDIAN_PLANNER_HOST_TIMES_H_

#include <cstdint>
#include <map>
#include <utility>

#include "planner/job_trace.h"

namespace gordian::planner {

// A wait that returned at once shows that something was done before, not when.
inline constexpr uint64_t kRealWaitNs = 20'000;
inline bool ReallyWaited(const JobCall& call) {
  return call.call == graph::Call::kHostWait && call.end_ns >= call.begin_ns + kRealWaitNs;
}

// Takes the calls of a process in order, and tells whether a wait covers work on a stream.
class Coverage {
 public:
  void Take(const JobCall& call) {
    if (call.call != graph::Call::kStreamWork) return;
    if (call.work == graph::WorkKind::kEventRecord)
      events_[call.event] = {call.stream, call.ordinal};
    if (call.work == graph::WorkKind::kEventForgotten) events_.erase(call.event);
  }
  bool Covers(const JobCall& wait, const JobCall& op) const {
    switch (wait.wait) {
      case graph::WaitKind::kDevice:
        return true;
      case graph::WaitKind::kStream:
      case graph::WaitKind::kCopy:
        return wait.stream == op.stream && wait.ordinal >= op.ordinal;
      case graph::WaitKind::kEvent: {
        const auto at = events_.find(wait.event);
        return at != events_.end() && at->second.first == op.stream &&
               at->second.second >= op.ordinal;
      }
      default:
        return false;
    }
  }

 private:
  std::map<uint64_t, std::pair<graph::StreamId, uint64_t>> events_;
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_HOST_TIMES_H_
