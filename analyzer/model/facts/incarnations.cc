#include "analyzer/model/facts/incarnations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gordian::model {
namespace {

// A process' end is noted when it is seen, which a busy machine delays; its records say how long it
// lived at least.
constexpr uint64_t kSeenWithinNs = 1'000'000'000;

// When the process was gone, for who calls NCCL for the first time later than that. None: it lives.
std::optional<uint64_t> GoneBy(const Process& process) {
  if (!process.ended) return std::nullopt;
  const uint64_t seen = std::max(process.ended_ns, kSeenWithinNs) - kSeenWithinNs;
  return std::max(process.last_record_ns, seen);
}

// `later` called NCCL for the first time when `earlier` was gone.
bool CameAfter(const Process& later, const Process& earlier) {
  const std::optional<uint64_t> gone = GoneBy(earlier);
  return gone && later.first_call_ns > *gone;
}

// Of the processes that claim one rank.
struct Claimants {
  std::vector<const Process*> all;
  uint64_t last_first_call_ns = 0;
  std::vector<uint64_t> gone;  // GoneBy of those that called NCCL, ascending
};

// Each rank has one process, and none has ended, as in most jobs until the end.
bool OneLivingEach(const ExecutionGraph& execution) {
  std::vector<int> ranks;
  for (const auto& [id, process] : execution.processes()) {
    if (process.info.env_rank < 0) continue;
    if (process.ended) return false;
    ranks.push_back(process.info.env_rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end();
}

std::string Ending(const Process& process) {
  if (process.exit_kind == ExitKind::kGordian) return "gordian ended the ranks for its verdict";
  const std::string rank = "rank " + std::to_string(process.info.env_rank);
  return process.exit_kind == ExitKind::kSignal
             ? rank + " was killed by signal " + std::to_string(process.exit_value)
             : rank + " exited with code " + std::to_string(process.exit_value);
}

bool EndedBadly(const Process& process) {
  return process.ended &&
         (process.exit_kind == ExitKind::kSignal || process.exit_kind == ExitKind::kGordian ||
          (process.exit_kind == ExitKind::kCode && process.exit_value != 0));
}

}  // namespace

Incarnations::Incarnations(const ExecutionGraph& execution) {
  if (OneLivingEach(execution)) return;
  std::map<int, Claimants> by_rank;
  std::map<int, const Process*> latest_of_size;  // by the number of ranks that it believes in
  for (const auto& [id, process] : execution.processes()) {
    if (process.info.env_rank < 0) continue;
    all_[id] = {.process = &process};
    Claimants& claimants = by_rank[process.info.env_rank];
    claimants.all.push_back(&process);
    claimants.last_first_call_ns = std::max(claimants.last_first_call_ns, process.first_call_ns);
    if (const std::optional<uint64_t> gone = GoneBy(process); gone && process.calls_begun > 0)
      claimants.gone.push_back(*gone);
    if (process.info.env_world_size <= 0 || process.first_call_ns == 0) continue;
    const Process*& latest = latest_of_size[process.info.env_world_size];
    if (latest == nullptr || process.first_call_ns > latest->first_call_ns) latest = &process;
  }
  for (auto& [rank, claimants] : by_rank) std::sort(claimants.gone.begin(), claimants.gone.end());
  for (auto& [id, incarnation] : all_) {
    const Process& process = *incarnation.process;
    const Claimants& claimants = by_rank.at(process.info.env_rank);
    const std::optional<uint64_t> gone = GoneBy(process);
    incarnation.replaced |= gone && claimants.last_first_call_ns > *gone;
    incarnation.number += static_cast<int>(
        std::lower_bound(claimants.gone.begin(), claimants.gone.end(), process.first_call_ns) -
        claimants.gone.begin());
    for (const auto& [size, latest] : latest_of_size) {
      if (size > process.info.env_rank) break;
      incarnation.replaced |= CameAfter(*latest, process);
    }
  }
  CountJobs();
  for (const auto& [rank, claimants] : by_rank) {
    const std::vector<const Process*>& processes = claimants.all;
    if (processes.size() == 1) continue;
    const bool any_calls = std::any_of(processes.begin(), processes.end(), [&](const Process* p) {
      return p->calls_begun > 0 && !all_[p->info.process].replaced;
    });
    for (const Process* process : processes) {
      if (process->calls_begun == 0) all_[process->info.process].beside = any_calls;
    }
  }
}

// A launcher restarts ranks because one of them failed, or ends them itself.
void Incarnations::CountJobs() {
  std::map<int, bool> well;  // by number, of the replaced
  for (const auto& [id, incarnation] : all_) {
    if (!incarnation.replaced || incarnation.process->first_call_ns == 0) continue;
    const auto known = well.try_emplace(incarnation.number, true).first;
    known->second = known->second && !EndedBadly(*incarnation.process);
  }
  for (const auto& [number, ended_well] : well) jobs_before_ |= ended_well;
  for (auto& [id, incarnation] : all_) {
    int restarts = 0;
    for (int number = 1; number < incarnation.number; ++number) {
      const auto known = well.find(number);
      restarts += known == well.end() || !known->second ? 1 : 0;
    }
    incarnation.number = restarts + 1;
  }
}

bool Incarnations::Beside(ProcessId id) const {
  const auto found = all_.find(id);
  return found != all_.end() && found->second.beside;
}

bool Incarnations::Replaced(ProcessId id) const {
  const auto found = all_.find(id);
  return found != all_.end() && found->second.replaced;
}

bool Incarnations::Past(const std::set<ProcessId>& processes) const {
  bool replaced = false;
  for (const ProcessId id : processes) {
    const auto found = all_.find(id);
    if (found == all_.end() || !found->second.process->ended) return false;
    replaced |= found->second.replaced;
  }
  return replaced;
}

int Incarnations::Number(ProcessId id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? 1 : found->second.number;
}

Restarts Incarnations::Summary() const {
  Restarts told;
  for (const auto& [id, incarnation] : all_) {
    if (incarnation.replaced || incarnation.number == 1) continue;
    told.times = std::max(told.times, incarnation.number - 1);
    told.ranks.push_back(incarnation.process->info.env_rank);
  }
  std::sort(told.ranks.begin(), told.ranks.end());
  told.ranks.erase(std::unique(told.ranks.begin(), told.ranks.end()), told.ranks.end());
  // Whom the last restart was for: who ended first. The launcher ends the others.
  const Process* first = nullptr;
  for (const auto& [id, incarnation] : all_) {
    const Process& process = *incarnation.process;
    if (!incarnation.replaced || incarnation.number != told.times || !EndedBadly(process)) continue;
    if (first == nullptr || process.ended_ns < first->ended_ns) first = &process;
  }
  if (first != nullptr) told.because = Ending(*first);
  return told;
}

}  // namespace gordian::model
