#include "cli/run/verdict_desk.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "analyzer/report/report.h"
#include "cli/run/job_runner.h"
#include "cli/run/restarts.h"
#include "common/clock.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

constexpr uint64_t kRefusalStandsNs = kNsPerSecond;

}  // namespace

VerdictDesk::VerdictDesk(const JobOptions& options, MayEnd may_end)
    : options_(options),
      may_end_(std::move(may_end)),
      policy_({.on_verdict = options.config.on_verdict,
               .suspect_after_ns = static_cast<uint64_t>(options.config.suspect_after_s * 1e9)}),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

VerdictDesk::~VerdictDesk() { close(wake_fd_); }

void VerdictDesk::OnVerdict(const analyzer::VerdictUpdate& update) {
  const bool may_end = !may_end_ || may_end_(update.rings);
  const std::lock_guard lock(mutex_);
  latest_ = update.verdict.main;
  analyzer::ReportOptions report{
      .color = options_.color, .width = options_.width, .session = options_.session_dir};
  if (!closed_) {
    switch (policy_.Judge(update.verdict, interrupted_, may_end)) {
      case VerdictPolicy::Say::kNothing:
        break;
      case VerdictPolicy::Say::kReport:
        news_.push_back(analyzer::ReportText(update.verdict, update.sites, report));
        stacks_said_ = !update.verdict.stacks.empty();
        break;
      case VerdictPolicy::Say::kHeadline:
        // A circle's line names its ranks; any other sentence stands in full.
        news_.push_back(update.verdict.main.cycle.empty()
                            ? analyzer::SentenceText(update.verdict.main, report)
                            : analyzer::Headline(update.verdict.main, report) + "\n");
        break;
      case VerdictPolicy::Say::kSlow:
        news_.push_back(analyzer::SentenceText(update.verdict.main, report));
        break;
      case VerdictPolicy::Say::kGoesOn:
        news_.push_back("gordian: the job goes on\n");
        break;
      case VerdictPolicy::Say::kWithdrawn:
        if (!update.verdict.disproved.empty()) break;  // said below
        news_.push_back(update.verdict.restarts.times > 0
                            ? "gordian: the launcher restarted the ranks; the finding above is "
                              "about the earlier start\n"
                            : "gordian: the suspicion is withdrawn: the job made progress\n");
        break;
    }
    if (policy_.acts_on() && IsRestart(options_.config.on_verdict))
      acting_ = {CauseOf(*policy_.acts_on(), update.sites), update.rings};
    for (const model::Finding& finding : policy_.TakeFurther()) {
      news_.push_back(analyzer::FurtherText(finding, report));
    }
    if (options_.config.on_verdict == OnVerdict::kRecover) NoteRecovery(update.verdict);
    if (update.verdict.disproved.size() > disproved_said_) {
      disproved_said_ = update.verdict.disproved.size();
      news_.push_back(analyzer::DisprovedText(update.verdict, report));
    }
    // Stacks arrive after their verdict, which is not printed again for them.
    if (policy_.problem() && !stacks_said_ && !update.verdict.stacks.empty()) {
      stacks_said_ = true;
      news_.push_back(analyzer::StacksText(update.verdict, report));
    }
  }
  Wake();
}

void VerdictDesk::NoteRecovery(const model::Verdict& verdict) {
  std::vector<const model::Finding*> findings = {&verdict.main};
  for (const model::Finding& finding : verdict.findings) findings.push_back(&finding);
  for (const model::Finding* finding : findings) {
    const model::Recovery& recovery = finding->recovery;
    // A later list may hold more, but begins with the same.
    const std::string first = recovery.operations.empty() ? "" : recovery.operations.front();
    if (!recovery.checked || recovery.recovered || interrupted_ || recoveries_.contains(first)) {
      continue;
    }
    if (recovery.refused == model::RecoveryCondition::kHold) {
      recoveries_.insert(first);
      refusals_.erase(first);
      recovery_ = recovery;
      return;
    }
    Refusal& refusal = refusals_.try_emplace(first, Refusal{.since_ns = MonoNs()}).first->second;
    refusal.line = "gordian: not recovered (" + std::string(model::Name(recovery.refused)) +
                   "): " + Printable(recovery.why) + "\n";
  }
}

// A cycle is proven as soon as it stands, while hosts may still be about to call what a recovery
// needs; so a refusal counts once it has stood for a second.
void VerdictDesk::SayRefusals() {
  std::erase_if(refusals_, [&](auto& entry) {
    if (MonoNs() - entry.second.since_ns < kRefusalStandsNs) return false;
    recoveries_.insert(entry.first);
    news_.push_back(std::move(entry.second.line));
    return true;
  });
}

std::optional<model::Recovery> VerdictDesk::TakeRecovery() {
  const std::lock_guard lock(mutex_);
  return std::exchange(recovery_, std::nullopt);
}

void VerdictDesk::OnNotice(std::string line) {
  const std::lock_guard lock(mutex_);
  notices_.push_back(std::move(line));
  Wake();
}

void VerdictDesk::ClearWake() {
  uint64_t count = 0;
  if (read(wake_fd_, &count, sizeof count) < 0) {
    // The counter was zero already.
  }
}

std::deque<std::string> VerdictDesk::TakeNews() {
  const std::lock_guard lock(mutex_);
  SayRefusals();
  return std::exchange(news_, {});
}

std::deque<std::string> VerdictDesk::TakeNotices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

bool VerdictDesk::ActNow(uint64_t records, bool unfinished) {
  const std::lock_guard lock(mutex_);
  return !closed_ && policy_.ActNow(MonoNs(), records, unfinished);
}

VerdictDesk::Acting VerdictDesk::acting() const {
  const std::lock_guard lock(mutex_);
  return acting_;
}

bool VerdictDesk::WantsTicks() const {
  const std::lock_guard lock(mutex_);
  return !closed_ && (policy_.WantsTicks() || !refusals_.empty());
}

bool VerdictDesk::problem() const {
  const std::lock_guard lock(mutex_);
  return policy_.problem();
}

model::Finding VerdictDesk::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void VerdictDesk::SetInterrupted() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
}

bool VerdictDesk::interrupted() const {
  const std::lock_guard lock(mutex_);
  return interrupted_;
}

void VerdictDesk::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void VerdictDesk::Wake() {
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) {
    // The counter is full, so the descriptor is readable already.
  }
}

}  // namespace gordian::cli
