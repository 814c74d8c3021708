// Takes verdicts and notices from the analyzer's threads, and hands them to the main thread of
// `gordian run` to print and act upon.
#ifndef GORDIAN_CLI_RUN_VERDICT_DESK_H_
#define GORDIAN_CLI_RUN_VERDICT_DESK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/session/analysis.h"
#include "cli/run/verdict_policy.h"

namespace gordian::cli {

struct JobOptions;

// Thread-safe.
class VerdictDesk {
 public:
  // `options` must outlive this object. Of a verdict from elsewhere, `may_end` says whether it may
  // end this job, from the ring files of the processes that it is about; on the analyzer's threads.
  using MayEnd = std::function<bool(const std::vector<std::string>& rings)>;
  explicit VerdictDesk(const JobOptions& options, MayEnd may_end = nullptr);
  ~VerdictDesk();
  VerdictDesk(const VerdictDesk&) = delete;
  VerdictDesk& operator=(const VerdictDesk&) = delete;

  // Call from the analyzer's threads.
  void OnVerdict(const analyzer::VerdictUpdate& update);
  // Queues one line about the connection to the analyzer.
  void OnNotice(std::string line);

  // Call from the main thread. The descriptor is readable when something has arrived.
  int wake_fd() const { return wake_fd_; }
  void ClearWake();
  std::deque<std::string> TakeNews();
  std::deque<std::string> TakeNotices();
  // As VerdictPolicy::ActNow; false after Close.
  bool ActNow(uint64_t records, bool unfinished);
  // What the latest verdict that may be acted upon is about.
  struct Acting {
    std::string cause;               // CauseOf
    std::vector<std::string> rings;  // of the processes that its problems are about
  };
  Acting acting() const;
  bool WantsTicks() const;
  bool problem() const;
  model::Finding latest() const;
  // With --on-verdict recover: a cycle that could be recovered and was not handed out before.
  std::optional<model::Recovery> TakeRecovery();
  // The user sent a signal that ends jobs.
  void SetInterrupted();
  bool interrupted() const;
  // Ignores verdicts from here on: they describe the effect of gordian's own kill.
  void Close();

 private:
  void Wake();

  const JobOptions& options_;
  mutable std::mutex mutex_;
  const MayEnd may_end_;
  VerdictPolicy policy_;
  std::deque<std::string> news_;
  std::deque<std::string> notices_;
  model::Finding latest_;
  Acting acting_;
  bool interrupted_ = false;
  bool closed_ = false;
  bool stacks_said_ = false;
  size_t disproved_said_ = 0;
  void NoteRecovery(const model::Verdict& verdict);
  void SayRefusals();
  std::optional<model::Recovery> recovery_;
  std::set<std::string> recoveries_;  // by their first operation: handed out, or refused
  struct Refusal {
    uint64_t since_ns = 0;
    std::string line;  // the latest
  };
  std::map<std::string, Refusal> refusals_;  // by the same: not said yet
  const int wake_fd_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_VERDICT_DESK_H_
