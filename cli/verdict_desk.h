// Where verdicts and notices arrive in `gordian run`, from the analyzer's threads, and from where
// its main thread takes what is to be said and done.
#ifndef GORDIAN_CLI_VERDICT_DESK_H_
#define GORDIAN_CLI_VERDICT_DESK_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "analyzer/graph/verdict.h"
#include "analyzer/server/analysis.h"
#include "cli/verdict_policy.h"

namespace gordian::cli {

struct JobOptions;

// Thread-safe.
class VerdictDesk {
 public:
  // `options` must outlive this object.
  explicit VerdictDesk(const JobOptions& options);
  ~VerdictDesk();
  VerdictDesk(const VerdictDesk&) = delete;
  VerdictDesk& operator=(const VerdictDesk&) = delete;

  // From the analyzer's threads.
  void OnVerdict(const server::VerdictUpdate& update);
  // One line about the way to the analyzer.
  void OnNotice(std::string line);

  // From the main thread. Readable when something has arrived.
  int wake_fd() const { return wake_fd_; }
  void ClearWake();
  std::deque<std::string> TakeNews();
  std::deque<std::string> TakeNotices();
  // As VerdictPolicy's; false after Close.
  bool ActNow(uint64_t records, bool unfinished);
  bool WantsTicks() const;
  bool problem() const;
  graph::Finding latest() const;
  // The user has sent a signal that ends jobs.
  void SetInterrupted();
  // What is learnt from here on is the effect of our own kill.
  void Close();

 private:
  void Wake();

  const JobOptions& options_;
  mutable std::mutex mutex_;
  VerdictPolicy policy_;
  std::deque<std::string> news_;
  std::deque<std::string> notices_;
  graph::Finding latest_;
  bool interrupted_ = false;
  bool closed_ = false;
  bool stacks_told_ = false;
  const int wake_fd_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_VERDICT_DESK_H_
