#include "analyzer/server/stack_book.h"

#include <algorithm>
#include <utility>

#include "analyzer/graph/check_catalogue.h"
#include "analyzer/server/sign_book.h"
#include "analyzer/server/stack_merge.h"
#include "common/clock.h"

namespace gordian::server {
namespace {

using graph::VerdictKind;

// Its culprits are in none of the calls that are seen: any of their threads may say why.
bool WantsEveryThread(VerdictKind kind) {
  return kind == VerdictKind::kHostBlocked || kind == VerdictKind::kRankNotJoined;
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
      taken_[taken.process()] = taken;
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

std::optional<v1::StacksRequest> StackBook::Want(const graph::JobModel& model,
                                                 const graph::Finding& main) {
  if (!graph::SaysTrouble(main.verdict) || main.confidence == graph::Confidence::kPossible) {
    asked_for_.clear();  // what is stuck next is another matter
    taken_.clear();
    return std::nullopt;
  }
  const std::string kind =
      main.check + "/" + graph::Name(main.verdict) + "/" + graph::Name(main.confidence);
  if (!asked_for_.insert(kind).second) return std::nullopt;
  // Of an analyzer that starts again, too: larger than any before.
  asked_ = std::max(asked_ + 1, RealNs());
  v1::StacksRequest request;
  request.set_request(asked_);
  if (WantsEveryThread(main.verdict)) {
    for (const graph::RankSnapshot& rank : model.Snapshot().ranks) {
      if (Holds(main.culprit_ranks, rank.rank)) request.add_every_thread_of(rank.process);
    }
  }
  return request;
}

void StackBook::AddTo(const graph::JobModel& model, graph::Verdict* verdict) const {
  if (taken_.empty() || !graph::SaysTrouble(verdict->main.verdict)) return;
  if (folded_at_ != changes_ || folded_for_ != verdict->main.culprit_ranks) {
    std::map<uint32_t, std::vector<int>> ranks;
    for (const graph::RankSnapshot& rank : model.Snapshot().ranks) {
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

}  // namespace gordian::server
