// What `run` does about verdicts: says each thing once, and decides when the job is to be ended.
// Pure: told of verdicts and of time, it returns actions.
#ifndef GORDIAN_CLI_VERDICT_POLICY_H_
#define GORDIAN_CLI_VERDICT_POLICY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "analyzer/graph/verdict.h"
#include "common/config.h"

namespace gordian::cli {

// The exit code of analyze and explain: 0, 1 (a problem, at any confidence) or 3.
int ExitCodeOfVerdict(const graph::Verdict& verdict);

// Not thread-safe.
class VerdictPolicy {
 public:
  struct Options {
    OnVerdict on_verdict = OnVerdict::kReport;
    uint64_t suspect_after_ns = 5'000'000'000;
  };
  explicit VerdictPolicy(const Options& options) : options_(options) {}

  enum class Say {
    kNothing,
    kReport,     // the whole report: the first problem of this job
    kHeadline,   // one line: a suspicion became another, or was confirmed
    kWithdrawn,  // one line: a suspicion is no longer held
  };
  // A new verdict. After a signal from the user (`interrupted`), processes that are gone are
  // nobody's fault.
  Say Judge(const graph::Verdict& verdict, bool interrupted);

  // Whether the job is to be ended, or the command of exec: to be run, now. `records` grows with
  // whatever the job does, `unfinished` says that some call or operation has not ended. Asked after
  // every verdict, and every 100 ms while WantsTicks().
  bool ActNow(uint64_t now_ns, uint64_t records, bool unfinished);

  // A mismatch alone stops nothing: it is acted upon once nothing has moved for suspect_after.
  bool WantsTicks() const { return waiting_for_stall_ && !acted_; }

  // The job has a problem by the latest verdict.
  bool problem() const { return problem_; }

 private:
  const Options options_;
  bool reported_ = false;
  bool problem_ = false;
  bool withdrawn_ = false;
  std::set<std::string> said_;
  bool act_ = false;
  bool acted_ = false;
  bool waiting_for_stall_ = false;
  uint64_t last_records_ = 0;
  std::optional<uint64_t> still_since_ns_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_VERDICT_POLICY_H_
