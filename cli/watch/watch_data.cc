#include "cli/watch/watch_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "cli/status/status_fields.h"
#include "cli/status/status_view.h"
#include "cli/status/status_words.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

// How far each rank is behind on its worst communicator.
std::unordered_map<int, int64_t> BehindOf(const std::vector<WatchedCommunicator>& communicators,
                                          const std::vector<std::vector<int>>& by) {
  std::unordered_map<int, int64_t> behind;
  for (size_t c = 0; c < communicators.size(); ++c) {
    if (communicators[c].destroyed) {
      continue;
    }
    for (size_t i = 0; i < communicators[c].behind.size(); ++i) {
      int64_t& most = behind[communicators[c].behind[i]];
      most = std::max<int64_t>(most, i < by[c].size() ? by[c][i] : 1);
    }
  }
  return behind;
}

void ReadCommunicators(const ordered_json& status, WatchData* data) {
  std::vector<std::vector<int>> by;
  std::map<std::string, int> times;  // several communicators may have one uid
  for (const ordered_json* from : FieldList(status, "communicators")) {
    WatchedCommunicator& to = data->communicators.emplace_back();
    to.name = FieldText(*from, "name");
    to.uid = FieldText(*from, "uid");
    to.site = FieldText(*from, "site");
    to.id = to.uid + "/" + to.name + "/" + std::to_string(times[to.uid + "/" + to.name]++);
    to.ranks = FieldRanks(*from, "ranks");
    to.behind = FieldRanks(*from, "behind");
    to.size = FieldNumber(*from, "size");
    to.ranks_seen = FieldNumber(*from, "ranks_seen");
    to.made_by = FieldNumber(*from, "made_by_rank");
    to.least = FieldNumber(*from, "sequence_min");
    to.most = FieldNumber(*from, "sequence_max");
    to.destroyed = FieldFlag(*from, "destroyed");
    by.push_back(FieldRanks(*from, "behind_by"));
    for (const int calls : by.back()) {
      to.behind_by = std::max<int64_t>(to.behind_by, calls);
    }
    to.members = FoldRanks(to.ranks);
    if (to.ranks_seen != to.size) {
      to.members += (to.members.empty() ? "" : ": ") + std::to_string(to.ranks_seen) + " of " +
                    std::to_string(to.size);
    }
  }
  const std::unordered_map<int, int64_t> behind = BehindOf(data->communicators, by);
  for (WatchedRank& rank : data->ranks) {
    const auto found = behind.find(rank.rank);
    rank.behind = found == behind.end() ? 0 : found->second;
  }
  std::stable_sort(data->communicators.begin(), data->communicators.end(),
                   [](const WatchedCommunicator& a, const WatchedCommunicator& b) {
                     if (a.destroyed != b.destroyed) return b.destroyed;
                     return !a.behind.empty() && b.behind.empty();
                   });
}

void ReadRanks(const ordered_json& status, WatchData* data) {
  const std::vector<int>& culprits = data->verdict.main.culprit_ranks;
  const std::set<int> is_culprit(culprits.begin(), culprits.end());
  std::map<std::string, int> times;  // ids of what makes no sense, or is of another version
  for (const ordered_json* from : FieldList(status, "ranks")) {
    WatchedRank& to = data->ranks.emplace_back();
    to.rank = static_cast<int>(FieldNumber(*from, "rank"));
    to.pid = FieldNumber(*from, "pid");
    to.incarnation = FieldNumber(*from, "incarnation", 1);
    to.nccl_calls = FieldNumber(*from, "nccl_calls");
    to.since_s = FieldReal(*from, "since_s");
    to.culprit = is_culprit.contains(to.rank);
    to.node = FieldText(*from, "node");
    const std::string ending = FieldText(*from, "ending");
    to.state = ending.empty() ? FieldText(*from, "state") : ending;
    std::replace(to.state.begin(), to.state.end(), '_', ' ');
    to.call = FieldText(*from, "call");
    to.operation = FieldText(*from, "operation");
    to.site = FieldText(*from, "site");
    to.id = to.rank >= 0 ? std::to_string(to.rank) : to.node + "/" + std::to_string(to.pid);
    if (const int before = times[to.id]++; before > 0) {
      to.id += "/" + std::to_string(before);
    }
  }
  std::stable_sort(data->ranks.begin(), data->ranks.end(),
                   [](const WatchedRank& a, const WatchedRank& b) { return a.rank < b.rank; });
}

}  // namespace

std::shared_ptr<const WatchData> MakeWatchData(const SeenStatus& seen, const std::string& title,
                                               const std::string& session) {
  auto data = std::make_shared<WatchData>();
  data->overview = StatusOverview(seen.status, title);
  data->session = session;
  data->running = seen.running;
  data->job_ended = FieldFlag(seen.status, "job_ended");
  if (seen.verdict != nullptr) {
    data->verdict = seen.verdict->verdict;
    data->sites = seen.verdict->sites();
  } else {
    data->verdict = VerdictOfStatus(seen.status);
    data->sites = [](const model::Site&) { return std::string(); };
  }
  ReadRanks(seen.status, data.get());
  ReadCommunicators(seen.status, data.get());
  for (const ordered_json* from : FieldList(seen.status, "nodes")) {
    data->nodes.push_back({.name = FieldText(*from, "name"),
                           .number = FieldNumber(*from, "number"),
                           .away = FieldFlag(*from, "away"),
                           .ended = FieldFlag(*from, "ended")});
  }
  return data;
}

}  // namespace gordian::cli
