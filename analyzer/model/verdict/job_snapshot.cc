#include "analyzer/model/verdict/job_snapshot.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/comm_names.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::model {
namespace {

std::string Ending(const Process& process) {
  if (process.ended && process.exit_kind == ExitKind::kCode) {
    return "exited with code " + std::to_string(process.exit_value);
  }
  if (process.ended && process.exit_kind == ExitKind::kSignal) {
    return "killed by signal " + std::to_string(process.exit_value);
  }
  return process.exit_kind == ExitKind::kGordian ? "ended by gordian" : "ended";
}

std::string OperationOf(const Launch& launch, const Names& names) {
  return launch.parts.empty() && launch.signal == nullptr ? "" : names.NameOf(launch);
}

// The open call of the thread that has been in its call longest.
const OpenCall* LongestCall(const Process& process) {
  const OpenCall* longest = nullptr;
  for (const auto& [id, thread] : process.threads) {
    if (!thread.open) continue;
    const OpenCall& open = *thread.open;
    if (longest == nullptr || open.record.order < longest->record.order) longest = &open;
  }
  return longest;
}

const ThreadState* Poller(const Process& process) {
  for (const ThreadState& state : process.state.threads) {
    if (!state.library_thread && state.call_id == 0 && state.poll_object != 0) return &state;
  }
  return nullptr;
}

RankSnapshot RankOf(const Process& process, const Launch* oldest, const ExecutionGraph& execution,
                    const Matcher& matcher, const Names& names) {
  RankSnapshot snapshot;
  snapshot.process = process.info.process;
  snapshot.pid = process.info.pid;
  snapshot.nccl_calls = std::max(process.calls_begun, process.state.nccl_calls);
  snapshot.since_ns = process.last_record_ns;
  if (oldest != nullptr) snapshot.operation = OperationOf(*oldest, names);
  if (const OpenCall* open = LongestCall(process)) {
    const CallRecord& record = open->record;
    snapshot.state = RankState::kInCall;
    snapshot.call_id = record.call_id;
    snapshot.call = record.call == Call::kHostWait ? Name(record.As<ring::HostWaitPayload>().kind)
                                                   : Name(record.call);
    snapshot.since_ns = record.time_ns;
    snapshot.site = {process.info.process, record.call_site};
    if (const InitCall* init = open->init == 0 ? nullptr : matcher.FindInit(open->init)) {
      snapshot.operation = names.Init(*init);
    } else if (const Launch* launch = execution.FindLaunch(open->launch)) {
      snapshot.operation = OperationOf(*launch, names);
    }
  } else if (const ThreadState* poller = Poller(process)) {
    snapshot.state = RankState::kInCall;
    snapshot.call = "a loop that polls";
    snapshot.since_ns = poller->poll_since_ns;
  }
  if (process.Dead()) {
    snapshot.state = RankState::kEnded;
    snapshot.ending = Ending(process);
    if (process.ended) snapshot.since_ns = process.ended_ns;
  } else if (process.has_state && process.state.stopped) {
    snapshot.state = RankState::kStopped;
    snapshot.since_ns = process.stopped_since_ns;
  }
  return snapshot;
}

CommSnapshot CommunicatorOf(int index, const Matcher& matcher, const Names& names) {
  const Communicator& comm = matcher.comms()[index];
  CommSnapshot snapshot;
  snapshot.name = names.CommName(index);
  snapshot.uid = comm.uid;
  snapshot.color = comm.color;
  snapshot.size = comm.nranks;
  snapshot.ranks = names.Members(index).ranks;
  if (const int maker = MakerOf(comm); maker >= 0) {
    const CommMember& member = comm.members[static_cast<size_t>(maker)];
    snapshot.made_by = names.MemberRank(index, maker);
    snapshot.made_at = {member.process, member.made_at};
  }
  bool any = false, held = false;
  uint64_t least = 0, most = 0;
  for (const CommMember& member : comm.members) {
    if (!member.known) continue;
    ++snapshot.ranks_seen;
    held |= !member.left && !member.aborted;
    least = any ? std::min(least, member.next_sequence) : member.next_sequence;
    most = std::max(most, member.next_sequence);
    any = true;
  }
  snapshot.destroyed = any && !held;
  snapshot.sequence_min = static_cast<int64_t>(least) - 1;
  snapshot.sequence_max = static_cast<int64_t>(most) - 1;
  std::vector<std::pair<int, int64_t>> behind;
  for (int r = 0; r < static_cast<int>(comm.members.size()); ++r) {
    const CommMember& member = comm.members[r];
    if (!member.known || member.next_sequence >= most) continue;
    behind.emplace_back(names.MemberRank(index, r),
                        static_cast<int64_t>(most - member.next_sequence));
  }
  std::sort(behind.begin(), behind.end());
  for (const auto& [rank, by] : behind) {
    snapshot.behind.push_back(rank);
    snapshot.behind_by.push_back(by);
  }
  return snapshot;
}

}  // namespace

const char* Name(RankState state) {
  switch (state) {
    case RankState::kRunning:
      return "running";
    case RankState::kInCall:
      return "in_call";
    case RankState::kStopped:
      return "stopped";
    case RankState::kEnded:
      return "ended";
  }
  return "running";
}

namespace {

// False for a launcher, an earlier incarnation of a restarted rank, or a rank's helper process.
bool IsRank(ProcessId id, const Process& process, const Incarnations& incarnations) {
  return (process.CalledNccl() || process.info.env_rank >= 0) && !incarnations.Replaced(id) &&
         !incarnations.Beside(id);
}

}  // namespace

std::map<ProcessId, int> RanksNow(const ExecutionGraph& execution, const Names& names) {
  std::map<ProcessId, int> all;
  for (const auto& [id, process] : execution.processes()) {
    if (!IsRank(id, process, names.incarnations())) continue;
    const std::vector<int> ranks = names.AllRanks(id);
    const auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (lowest != ranks.end() && *lowest >= 0) all.emplace_hint(all.end(), id, *lowest);
  }
  return all;
}

std::map<int, ProcessId> HoldersOf(const ExecutionGraph& execution, const Names& names,
                                   const std::set<int>& ranks) {
  std::map<int, std::set<ProcessId>> claims;
  for (const auto& [id, process] : execution.processes()) {
    if (!IsRank(id, process, names.incarnations())) continue;
    for (const int rank : names.AllRanks(id)) {
      if (ranks.contains(rank)) claims[rank].insert(id);
    }
  }
  std::map<int, ProcessId> holders;
  for (const auto& [rank, processes] : claims) {
    if (processes.size() == 1) holders[rank] = *processes.begin();
  }
  return holders;
}

std::vector<ProcessId> ProcessesOf(const ExecutionGraph& execution, const Names& names,
                                   const std::set<int>& ranks) {
  std::set<ProcessId> processes;
  for (const auto& [rank, process] : HoldersOf(execution, names, ranks)) processes.insert(process);
  return {processes.begin(), processes.end()};
}

JobSnapshot TakeSnapshot(const ExecutionGraph& execution, const Matcher& matcher, uint64_t now_ns) {
  JobSnapshot snapshot;
  snapshot.now_ns = now_ns;
  const Names names(execution, matcher);
  std::unordered_map<ProcessId, const Launch*> oldest;
  for (const auto& [id, launch] : execution.launches()) {
    const Launch*& first = oldest[launch.process];
    if (first == nullptr || launch.id < first->id) first = &launch;
  }
  for (const auto& [id, process] : execution.processes()) {
    snapshot.last_progress_ns = std::max(snapshot.last_progress_ns, process.last_progress_ns);
    const Incarnations& incarnations = names.incarnations();
    if (!IsRank(id, process, incarnations)) continue;
    const auto launch = oldest.find(id);
    RankSnapshot one = RankOf(process, launch == oldest.end() ? nullptr : launch->second, execution,
                              matcher, names);
    one.incarnation = incarnations.Number(id);
    std::vector<int> ranks = names.AllRanks(id);
    if (ranks.empty()) ranks.push_back(-1);
    for (int rank : ranks) {
      one.rank = rank;
      snapshot.ranks.push_back(one);
    }
  }
  std::stable_sort(snapshot.ranks.begin(), snapshot.ranks.end(),
                   [](const RankSnapshot& a, const RankSnapshot& b) { return a.rank < b.rank; });
  for (int i = 0; i < static_cast<int>(matcher.comms().size()); ++i) {
    snapshot.communicators.push_back(CommunicatorOf(i, matcher, names));
  }
  return snapshot;
}

}  // namespace gordian::model
