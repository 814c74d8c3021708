#include "analyzer/stacks/stack_book.h"

#include <algorithm>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/stacks/shown_sites.h"
#include "analyzer/stacks/sign_book.h"
#include "analyzer/stacks/stack_merge.h"
#include "common/clock.h"

namespace gordian::analyzer {
namespace {

using model::VerdictKind;

// Where no rank is known to be the one, every thread of these few: most often all ranks are at the
// same.
constexpr int kRanksWhileStill = 2;
// A job may be slow again and again, as at each checkpoint, and each reading holds its threads.
constexpr int kMostWhileSlow = 8;

// The culprits are in none of the intercepted calls, so any of their threads may show why.
bool WantsEveryThread(VerdictKind kind) {
  return kind == VerdictKind::kHostBlocked || kind == VerdictKind::kRankNotJoined;
}

// What gordian itself cannot explain.
bool Unexplained(const model::Finding& main) {
  return model::StandsStill(main) || main.check == "evidence-missing";
}

bool WorthStacks(const model::Finding& main) {
  return Unexplained(main) || model::SaysTrouble(main.verdict);
}

bool Holds(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

void StackBook::OnEvent(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kProcessStarted:
      pids_[event.process_started().process()] = event.process_started().pid();
      break;
    case v1::Event::kStacksTaken: {
      const v1::StacksTaken& taken = event.stacks_taken();
      if (taken.request() < latest_) break;
      if (taken.request() > latest_) taken_.clear();
      latest_ = taken.request();
      v1::StacksTaken& kept = taken_[taken.process()];
      kept = taken;
      kept.clear_sites();  // for SourceBook and CallSites
      break;
    }
    case v1::Event::kStacksDone:
      done_ = std::max(done_, event.stacks_done().request());
      ++changes_;
      break;
    default:
      break;
  }
}

std::optional<v1::StacksRequest> StackBook::Want(const model::JobModel& model,
                                                 const model::Verdict& verdict,
                                                 const SiteResolver& sites) {
  const model::Finding& main = verdict.main;
  const bool possible = main.confidence == model::Confidence::kPossible && !Unexplained(main) &&
                        !model::OnlySlow(main);
  if (!WorthStacks(main) || possible) {
    asked_for_.clear();  // a later problem is another one
    taken_.clear();
    return std::nullopt;
  }
  const std::string kind =
      main.check + "/" + model::Name(main.verdict) + "/" + model::Name(main.confidence);
  if (asked_for_.contains(kind)) return std::nullopt;
  const bool slow = Unexplained(main) || model::OnlySlow(main);
  if (slow && slow_asked_ == kMostWhileSlow) return std::nullopt;
  slow_asked_ += slow ? 1 : 0;
  asked_for_.insert(kind);
  // Larger than any before, also after a restart of the analyzer.
  asked_ = std::max(asked_ + 1, RealNs());
  v1::StacksRequest request;
  request.set_request(asked_);
  const bool still = Unexplained(main);
  if (WantsEveryThread(main.verdict) || still) {
    for (const model::RankSnapshot& rank : model.Snapshot().ranks) {
      const bool shown = still ? rank.state != model::RankState::kEnded &&
                                     request.every_thread_of_size() < kRanksWhileStill
                               : Holds(main.culprit_ranks, rank.rank);
      if (shown) request.add_every_thread_of(rank.process);
    }
  }
  for (const ShownSite& shown : ShownSites(verdict, sites)) {
    v1::AskedSite* const asked = request.add_sites();
    asked->set_process(shown.site.process);
    asked->set_site(shown.site.address);
  }
  return request;
}

void StackBook::AddTo(const model::JobModel& model, model::Verdict* verdict) const {
  if (taken_.empty() || !WorthStacks(verdict->main)) return;
  if (folded_at_ != changes_ || folded_for_ != verdict->main.culprit_ranks) {
    std::map<uint32_t, std::vector<int>> ranks;
    for (const model::RankSnapshot& rank : model.Snapshot().ranks) {
      if (rank.rank >= 0) ranks[rank.process].push_back(rank.rank);
    }
    std::vector<ProcessStacks> processes;
    for (const auto& [process, taken] : taken_) {
      const auto pid = pids_.find(process);
      processes.push_back(
          {.ranks = ranks[process], .pid = pid == pids_.end() ? 0 : pid->second, .taken = &taken});
    }
    folded_ = FoldStacks(processes, verdict->main.culprit_ranks);
    not_visible_ = StacksNotVisible(processes);
    folded_at_ = changes_;
    folded_for_ = verdict->main.culprit_ranks;
  }
  verdict->stacks = folded_;
  AddStackSigns(verdict);
  std::vector<std::string>& unseen = verdict->main.evidence.not_visible;
  unseen.insert(unseen.end(), not_visible_.begin(), not_visible_.end());
}

}  // namespace gordian::analyzer
