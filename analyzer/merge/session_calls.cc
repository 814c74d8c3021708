#include "analyzer/merge/session_calls.h"

#include <algorithm>
#include <utility>

#include "analyzer/exporters/torch_operation_name.h"
#include "analyzer/model/collective.h"

namespace gordian::merge {
namespace {

using exporters::LoggedGroup;
using exporters::LoggedOperation;
using exporters::Progress;
using importers::FlightBegun;
using importers::FlightDump;
using importers::FlightEntry;
using importers::FlightGroup;
using importers::FlightStatus;
using model::Call;

std::string SiteText(const analyzer::CallSite& site) {
  if (site.file.empty()) return site.function;
  std::string text = site.file.substr(site.file.find_last_of('/') + 1);
  if (site.line > 0) text += ":" + std::to_string(site.line);
  return site.function.empty() ? text : text + " " + site.function;
}

SessionGroup GroupOf(const LoggedGroup& logged, size_t index) {
  SessionGroup group;
  group.name = logged.name;
  group.given = logged.given;
  group.unsure = logged.unsure;
  for (size_t member = 0; member < logged.ranks.size(); ++member) {
    const bool known = member < logged.known.size() && logged.known[member];
    group.group.ranks.push_back(known ? logged.ranks[member] : importers::kUnknownMember);
    if (!known) continue;
    group.seen.insert(logged.ranks[member]);
    group.called[logged.ranks[member]] = static_cast<int64_t>(logged.called[member]);
  }
  group.group.name = "session " + std::to_string(index);
  group.group.description = logged.name;
  return group;
}

// The transfers of a communicator, apart from its collectives.
FlightGroup TransfersOf(const FlightGroup& group) {
  return {group.name + " transfers", group.description, group.ranks};
}

class RankCalls {
 public:
  RankCalls(const exporters::Job& job, const std::vector<SessionGroup>& groups,
            const std::vector<bool>& pairs, int rank)
      : job_(job), groups_(groups), pairs_(pairs) {
    dump_.rank = rank;
    dump_.version = "session";
  }

  FlightDump Make(const std::vector<LoggedOperation>& operations) {
    const LoggedOperation* before = nullptr;
    for (const LoggedOperation& operation : operations) {
      if (operation.progress == Progress::kAborted) continue;
      Add(operation, before);
      before = &operation;
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].seen.count(dump_.rank) == 0) continue;
      const FlightGroup& group = groups_[g].group;
      dump_.groups[group.Key()] = group;
      if (groups_[g].transfers && !pairs_[g]) {
        const FlightGroup transfers = TransfersOf(group);
        dump_.groups[transfers.Key()] = transfers;
      }
      // A pair that only sends and receives has its numbers in the entries.
      if (pairs_[g]) continue;
      FlightStatus& status = status_[g];
      status.enqueued = std::max(status.enqueued, groups_[g].called.at(dump_.rank));
      dump_.status[group.Key()] = status;
    }
    return std::move(dump_);
  }

 private:
  void Add(const LoggedOperation& operation, const LoggedOperation* before) {
    const auto g = static_cast<size_t>(operation.group);
    const FlightGroup& group = groups_[g].group;
    FlightEntry entry;
    entry.record = static_cast<int64_t>(dump_.entries.size());
    entry.operation = exporters::TorchOperationName(operation.call);
    entry.p2p = operation.IsTransfer();
    entry.completed = operation.progress == Progress::kDone;
    if (!entry.completed)
      entry.begun = operation.progress == Progress::kStarted ? FlightBegun::kYes : FlightBegun::kNo;
    entry.site = SiteText(operation.site);
    const auto count = static_cast<int64_t>(operation.count);
    const auto members = static_cast<int64_t>(group.ranks.size());
    entry.elements_in = operation.call == Call::kReduceScatter ? count * members : count;
    entry.elements_out = operation.call == Call::kAllGather ? count * members : count;
    if (entry.p2p) {
      const bool batched = before != nullptr && operation.batch != 0 &&
                           before->batch == operation.batch && before->thread == operation.thread &&
                           before->group == operation.group && before->IsTransfer();
      if (!batched) ++transfers_[g];
      entry.sequence = transfers_[g];
      entry.sends = operation.call == Call::kSend;
      entry.peer = operation.root_or_peer;
      entry.group = (pairs_[g] ? group : TransfersOf(group)).Key();
    } else {
      entry.sequence = static_cast<int64_t>(operation.sequence) + 1;
      entry.group = group.Key();
      FlightStatus& status = status_[g];
      status.enqueued = std::max(status.enqueued, entry.sequence);
      if (entry.completed) status.completed = std::max(status.completed, entry.sequence);
    }
    const uint64_t last = entry.completed ? operation.done_ns : operation.called_ns;
    dump_.newest_ns = std::max(dump_.newest_ns, static_cast<int64_t>(job_.RealTime(last)));
    dump_.entries.push_back(std::move(entry));
  }

  const exporters::Job& job_;
  const std::vector<SessionGroup>& groups_;
  const std::vector<bool>& pairs_;
  std::map<size_t, FlightStatus> status_;
  std::map<size_t, int64_t> transfers_;
  FlightDump dump_;
};

}  // namespace

SessionCalls CallsOfSession(const exporters::Job& job) {
  SessionCalls calls;
  std::vector<SessionGroup> groups;
  std::vector<bool> collectives;
  for (const LoggedGroup& logged : job.log.groups()) {
    groups.push_back(GroupOf(logged, groups.size()));
    collectives.push_back(false);
    calls.world = std::max(calls.world, static_cast<int>(logged.ranks.size()));
  }
  for (const auto& [number, rank] : job.log.ranks()) {
    std::set<int> begun;
    for (const LoggedOperation& operation : rank.operations) {
      const auto g = static_cast<size_t>(operation.group);
      if (!operation.IsTransfer()) {
        collectives[g] = true;
        continue;
      }
      groups[g].transfers = true;
      if (begun.insert(operation.group).second && operation.sequence != 0)
        groups[g].all_transfers = false;
    }
  }
  std::vector<bool> pairs;
  for (size_t g = 0; g < groups.size(); ++g) {
    pairs.push_back(groups[g].transfers && groups[g].all_transfers && !collectives[g] &&
                    groups[g].group.ranks.size() == 2);
  }
  for (const auto& [number, rank] : job.log.ranks()) {
    if (number < 0) continue;
    calls.dumps.push_back(RankCalls(job, groups, pairs, number).Make(rank.operations));
  }
  const model::Evidence& evidence = job.result.verdict.main.evidence;
  calls.world = std::max(calls.world, evidence.ranks_expected);
  calls.lost = evidence.records_lost;
  for (SessionGroup& group : groups) {
    const std::string key = group.group.Key();
    calls.groups.emplace(key, std::move(group));
  }
  return calls;
}

}  // namespace gordian::merge
