// Looks at a job's status again and again, in a thread of its own: a look may take seconds, and
// the views answer keys and signals meanwhile.
#ifndef GORDIAN_CLI_WATCH_STATUS_FOLLOWER_H_
#define GORDIAN_CLI_WATCH_STATUS_FOLLOWER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/status/status_source.h"
#include "cli/watch/watch_data.h"
#include "common/status.h"

namespace gordian::cli {

struct StatusNews {
  StatusOr<SeenStatus> seen;  // an error is the last one, as is one of a job that has ended
  std::shared_ptr<const WatchData> data;  // if asked for
};

class StatusFollower {
 public:
  // `with_data`: also makes WatchData, for which it asks for the verdict.
  StatusFollower(StatusSource source, bool with_data);
  ~StatusFollower();
  StatusFollower(const StatusFollower&) = delete;
  StatusFollower& operator=(const StatusFollower&) = delete;

  int fd() const { return fd_; }  // readable when there is something to take
  // The latest.
  std::optional<StatusNews> Take();

  // Says that the process was stopped: a look that was under way then may fail of it, and is
  // repeated. For any thread.
  void WasStopped() { ++stops_; }

  // Asks it to end. False: a look is still under way, for which the destructor would wait.
  bool End();

 private:
  void Follow();
  StatusNews Look();

  StatusSource source_;
  const bool with_data_;
  const int fd_;
  std::atomic<uint32_t> stops_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false, looking_ = false;
  std::optional<StatusNews> news_;
  std::thread thread_;  // uses all of the above
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_STATUS_FOLLOWER_H_
