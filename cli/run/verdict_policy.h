// Decides what `run` does about verdicts: prints each finding once, and says when to end the job.
// Pure: the caller passes verdicts and the time, and gets actions back.
#ifndef GORDIAN_CLI_RUN_VERDICT_POLICY_H_
#define GORDIAN_CLI_RUN_VERDICT_POLICY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "common/config.h"

namespace gordian::cli {

// The exit code of analyze and explain: 0, 1 (a problem, at any confidence) or 3.
int ExitCodeOfVerdict(const model::Verdict& verdict);

// What the command of `--on-verdict exec` gets of a finding, as environment variables.
std::vector<std::pair<std::string, std::string>> VerdictVariables(const model::Finding& finding);

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
    kSlow,    // a sentence: what the job waits for, possibly for good, or that gordian cannot say
    kGoesOn,  // one line: it waits no longer
  };
  // Judges a new verdict. After a signal of the user (`interrupted`), ended processes are no
  // finding. `may_end` false: the verdict may not end the job, whatever it says.
  Say Judge(const model::Verdict& verdict, bool interrupted, bool may_end = true);

  // Problems beside the main one that no report or line has shown yet, for a line each; at most
  // kMostFurther in a job. Call after Judge.
  std::vector<model::Finding> TakeFurther();
  static constexpr int kMostFurther = 8;

  // True when the caller must end the job, or run the command of exec:, now. `records` grows with
  // every record of the job; `unfinished` is true while some call or operation has not ended. Call
  // it after every verdict, and every 100 ms while WantsTicks().
  bool ActNow(uint64_t now_ns, uint64_t records, bool unfinished);

  // A mismatch alone stops nothing, so the policy acts on it only after nothing has moved for
  // suspect_after. Of a rank that has ended the job's launcher learns, too: to restart, the policy
  // leaves it three times as long. Having acted to restart, it acts again once the ranks have come
  // back, on what has happened since.
  bool WantsTicks() const { return stall_ns_ > 0 && !acted_; }

  // The finding of the latest verdict that ActNow acts, or may come to act, upon; null: none.
  const std::optional<model::Finding>& acts_on() const { return acts_on_; }

  // The latest verdict is a problem.
  bool problem() const { return problem_; }

 private:
  void ChooseWhatToActOn(const model::Verdict& verdict, bool interrupted, bool may_end);

  const Options options_;
  bool reported_ = false;
  bool problem_ = false;
  bool withdrawn_ = false;
  std::string slow_;  // the check that was said last; "": none
  std::set<std::string> said_;
  std::string last_said_;
  int told_again_ = 0;
  std::set<std::string> shown_;  // findings in a report or a line of their own
  std::vector<model::Finding> further_;
  std::optional<model::Finding> acts_on_;
  bool act_ = false;
  bool acted_ = false;
  uint64_t stall_ns_ = 0;        // act after nothing has moved for so long; 0: do not
  int restarts_ = 0;             // as of the latest verdict
  int restarts_acted_ = 0;       // as of the verdict that was acted upon
  uint64_t stalled_at_ns_ = 0;   // the latest of the latest verdict's findings
  uint64_t acted_until_ns_ = 0;  // a finding that stalled by then is of an earlier start
  uint64_t last_records_ = 0;
  std::optional<uint64_t> still_since_ns_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_VERDICT_POLICY_H_
