#include "analyzer/model/verdict/names.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "analyzer/model/verdict/number_text.h"

namespace gordian::model {

const char* Name(Call call) {
  switch (call) {
    case Call::kAllReduce:
      return "AllReduce";
    case Call::kAllGather:
      return "AllGather";
    case Call::kReduceScatter:
      return "ReduceScatter";
    case Call::kBroadcast:
      return "Broadcast";
    case Call::kReduce:
      return "Reduce";
    case Call::kAllToAll:
      return "AlltoAll";
    case Call::kGather:
      return "Gather";
    case Call::kScatter:
      return "Scatter";
    case Call::kBarrier:
      return "barrier";
    case Call::kSend:
      return "Send";
    case Call::kRecv:
      return "Recv";
    case Call::kPutSignal:
      return "PutSignal";
    case Call::kSignal:
      return "Signal";
    case Call::kWaitSignal:
      return "WaitSignal";
    case Call::kGroupStart:
      return "GroupStart";
    case Call::kGroupEnd:
      return "GroupEnd";
    case Call::kCommInit:
      return "CommInitRank";
    case Call::kCommInitAll:
      return "CommInitAll";
    case Call::kCommSplit:
      return "CommSplit";
    case Call::kCommShrink:
      return "CommShrink";
    case Call::kCommGrow:
      return "CommGrow";
    case Call::kCommFinalize:
      return "CommFinalize";
    case Call::kCommDestroy:
      return "CommDestroy";
    case Call::kCommAbort:
      return "CommAbort";
    case Call::kCommRevoke:
      return "CommRevoke";
    case Call::kCommWindowRegister:
      return "CommWindowRegister";
    case Call::kStreamCreate:
      return "cudaStreamCreate";
    case Call::kStreamDestroy:
      return "cudaStreamDestroy";
    case Call::kGraphEndCapture:
      return "StreamEndCapture";
    case Call::kGraphDestroy:
      return "GraphDestroy";
    case Call::kGraphClone:
      return "GraphClone";
    case Call::kGraphNest:
      return "GraphAddNode";
    case Call::kGraphInstantiate:
      return "GraphInstantiate";
    case Call::kGraphExecDestroy:
      return "GraphExecDestroy";
    case Call::kStreamWork:
      return "a launch";
    case Call::kHostWait:
      return "a host wait";
    case Call::kPoll:
      return "a query";
    case Call::kText:
    case Call::kOther:
    case Call::kCommOther:
      return "another call";
  }
  return "another call";
}

const char* Name(const InitCall& init) {
  return init.host ? TorchName(init.call) : Name(init.call);
}

const char* TorchName(Call call) {
  switch (call) {
    case Call::kAllReduce:
      return "all_reduce";
    case Call::kAllGather:
      return "all_gather";
    case Call::kReduceScatter:
      return "reduce_scatter";
    case Call::kBroadcast:
      return "broadcast";
    case Call::kReduce:
      return "reduce";
    case Call::kAllToAll:
      return "all_to_all";
    case Call::kGather:
      return "gather";
    case Call::kScatter:
      return "scatter";
    case Call::kSend:
      return "send";
    case Call::kRecv:
      return "recv";
    case Call::kCommInit:
      return "init_process_group";
    case Call::kCommSplit:
      return "new_group";
    case Call::kCommDestroy:
      return "destroy_process_group";
    default:
      return Name(call);
  }
}

const char* Name(WaitKind kind) {
  switch (kind) {
    case WaitKind::kStream:
      return "cudaStreamSynchronize";
    case WaitKind::kEvent:
      return "cudaEventSynchronize";
    case WaitKind::kDevice:
      return "cudaDeviceSynchronize";
    case WaitKind::kFree:
      return "cudaFree";
    case WaitKind::kCopy:
      return "cudaMemcpy";
    case WaitKind::kAsyncCopy:
      return "cudaMemcpyAsync";
    case WaitKind::kOperation:
      return "wait()";
    case WaitKind::kStore:
      return "a wait for the store";
    case WaitKind::kNoWait:
      break;
  }
  return "a host wait";
}

namespace {

// Joins processes into jobs (union-find).
class Jobs {
 public:
  void Join(const std::vector<ProcessId>& processes) {
    for (const ProcessId id : processes) up_[Find(id)] = Find(processes.front());
  }
  // Maps each process to one process of its job, the same for all of that job.
  std::map<ProcessId, ProcessId> Take() {
    std::map<ProcessId, ProcessId> job = up_;
    for (auto& [id, of] : job) of = Find(id);
    return job;
  }

 private:
  ProcessId Find(ProcessId id) {
    ProcessId* up = &up_.try_emplace(id, id).first->second;
    while (*up != id) {
      *up = up_.at(*up);
      id = *up;
      up = &up_.at(id);
    }
    return id;
  }

  std::map<ProcessId, ProcessId> up_;
};

// Processes that share communicators, or make one together, are of one job.
std::map<ProcessId, ProcessId> JobsOf(const Matcher& matcher) {
  Jobs jobs;
  for (const Communicator& comm : matcher.comms()) {
    std::vector<ProcessId> members;
    for (const CommMember& member : comm.members) {
      if (member.known) members.push_back(member.process);
    }
    jobs.Join(members);
  }
  for (const auto& [uid, init] : matcher.inits()) {
    std::vector<ProcessId> callers;
    for (const InitMember& member : init.members) {
      if (member.called) callers.push_back(member.process);
    }
    for (const InitClaim& claim : init.claims) callers.push_back(claim.process);
    jobs.Join(callers);
  }
  return jobs.Take();
}

}  // namespace

Names::Ranks::Ranks(const ExecutionGraph& execution, const Matcher& matcher)
    : incarnations(execution) {
  // Earlier processes of restarted ranks are no ranks of the job any more, but keep their names.
  struct Membership {
    std::pair<ProcessId, int> key;
    int nranks, rank;
  };
  std::vector<Membership> memberships;
  bool several = false;
  for (const Communicator& comm : matcher.comms()) {
    std::vector<ProcessId> processes;
    bool current = false;
    for (int r = 0; r < comm.nranks; ++r) {
      const CommMember& member = comm.members[r];
      if (!member.known) continue;
      processes.push_back(member.process);
      if (incarnations.Replaced(member.process)) continue;
      current = true;
      memberships.push_back({{member.process, member.device}, comm.nranks, r});
    }
    std::sort(processes.begin(), processes.end());
    several |= std::adjacent_find(processes.begin(), processes.end()) != processes.end();
    const InitCall* const init = matcher.FindInit(comm.uid);
    const bool sized = init == nullptr || Contradiction(*init) == 0;
    if (current && sized) expected = std::max(expected, comm.nranks);
    // A member is through: so are all the others, seen or not.
    if (current && sized && init != nullptr && init->done > 0)
      unseen = std::max(unseen, comm.nranks - static_cast<int>(processes.size()));
  }
  // A process has on a device its rank of the largest communicator there, of equals the oldest.
  std::stable_sort(memberships.begin(), memberships.end(), [](const auto& a, const auto& b) {
    return a.key != b.key ? a.key < b.key : a.nranks > b.nranks;
  });
  for (const Membership& one : memberships)
    by_device.try_emplace(by_device.end(), one.key, one.rank);
  // Callers that pass the rank of another one are members of nothing, but have a name all the same.
  for (const auto& [uid, init] : matcher.inits()) {
    if (Contradiction(init) == 0) continue;
    for (const InitClaim& claim : init.claims)
      by_device.try_emplace({claim.process, claim.device}, claim.rank);
  }
  // Its groups on the host, which have no device, make a process with a GPU no rank more.
  for (auto it = by_device.begin(); it != by_device.end();) {
    const auto next = std::next(it);
    const bool twice =
        it->first.second < 0 && next != by_device.end() && next->first.first == it->first.first;
    it = twice ? by_device.erase(it) : next;
  }
  std::map<int, std::vector<ProcessId>> claimed;  // by rank
  bool unique = true;
  by_environment = !several;
  for (const auto& [id, process] : execution.processes()) {
    if (incarnations.Replaced(id) || incarnations.Beside(id)) continue;
    expected = std::max(expected, process.info.env_world_size);
    if (!process.CalledNccl() && process.info.env_rank < 0) continue;  // perhaps a launcher
    by_environment &= process.info.env_rank >= 0;
    std::vector<ProcessId>& claims = claimed[process.info.env_rank];
    claims.push_back(id);
    unique &= claims.size() == 1;
  }
  if (by_environment && !unique) {
    const std::map<ProcessId, ProcessId> job = JobsOf(matcher);
    several_jobs = std::all_of(claimed.begin(), claimed.end(), [&](const auto& entry) {
      std::set<ProcessId> of;
      return entry.second.size() == 1 ||
             std::all_of(entry.second.begin(), entry.second.end(), [&](ProcessId id) {
               const auto found = job.find(id);
               return found != job.end() && of.insert(found->second).second;
             });
    });
    by_environment = several_jobs;
  }
  // If no communicator spans the job, members of different ones may have the same rank; the order
  // of the processes then distinguishes them.
  std::set<int> distinct;
  if (!by_environment) {
    for (const auto& [key, rank] : by_device) distinct.insert(rank);
  }
  if (!by_environment && distinct.size() < by_device.size()) {
    std::vector<std::tuple<uint32_t, ProcessId, int>> in_order;
    for (const auto& [key, rank] : by_device) {
      const Process* process = execution.Find(key.first);
      in_order.emplace_back(process == nullptr ? 0 : process->info.pid, key.first, key.second);
    }
    std::sort(in_order.begin(), in_order.end());
    for (size_t i = 0; i < in_order.size(); ++i) {
      by_device[{std::get<1>(in_order[i]), std::get<2>(in_order[i])}] = static_cast<int>(i);
    }
  }
  // Before there are communicators, every process that made a call counts as a member.
  seen = static_cast<int>(by_device.size());
  const auto is_member = [this](ProcessId id) {
    const auto found = by_device.lower_bound({id, std::numeric_limits<int>::min()});
    return found != by_device.end() && found->first.first == id;
  };
  for (const auto& [id, process] : execution.processes()) {
    if (!is_member(id) && !incarnations.Replaced(id) && !incarnations.Beside(id) &&
        (process.CalledNccl() || process.info.env_rank >= 0))
      ++seen;
  }
  expected = std::max(expected, seen);
  seen = std::min(seen, std::max(expected - unseen, static_cast<int>(by_device.size())));
}

int Names::Rank(ProcessId process, int device) const {
  if (Known().by_environment) {
    const Process* p = execution_.Find(process);
    if (p != nullptr) return p->info.env_rank;
  }
  auto it = Known().by_device.find({process, device});
  if (it != Known().by_device.end()) return it->second;
  it = Known().by_device.lower_bound({process, -1});
  if (it != Known().by_device.end() && it->first.first == process) return it->second;
  const Process* p = execution_.Find(process);
  return p == nullptr ? -1 : p->info.env_rank;
}

int Names::MemberRank(int comm, int rank) const {
  const Communicator& c = matcher_.comms()[comm];
  if (rank < 0 || rank >= c.nranks || !c.members[rank].known) return rank;
  const int named = Rank(c.members[rank].process, c.members[rank].device);
  return named >= 0 ? named : rank;
}

int Names::LaunchRank(const Launch& launch) const {
  if (launch.comm_index >= 0 && !launch.parts.empty()) {
    return MemberRank(launch.comm_index, launch.parts.front().ref.rank);
  }
  if (launch.comm_index >= 0 && launch.signal != nullptr)
    return MemberRank(launch.comm_index, launch.signal->rank);
  return Rank(launch.process);
}

std::vector<int> Names::AllRanks(ProcessId process) const {
  std::vector<int> ranks;
  if (!Known().by_environment) {
    for (auto it = Known().by_device.lower_bound({process, -1});
         it != Known().by_device.end() && it->first.first == process; ++it) {
      ranks.push_back(it->second);
    }
  }
  if (ranks.empty() && Rank(process) >= 0) ranks.push_back(Rank(process));
  return ranks;
}

MemberRanks Names::Members(int comm) const {
  const Communicator& c = matcher_.comms()[comm];
  MemberRanks members;
  for (int r = 0; r < c.nranks; ++r) {
    if (c.members[r].known) {
      members.ranks.push_back(MemberRank(comm, r));
    } else {
      ++members.unseen;
    }
  }
  std::sort(members.ranks.begin(), members.ranks.end());
  members.ranks.erase(std::unique(members.ranks.begin(), members.ranks.end()), members.ranks.end());
  return members;
}

const std::string& Names::CommName(int comm) const {
  if (!comm_names_) {
    std::vector<MemberRanks> members;
    for (size_t i = 0; i < matcher_.comms().size(); ++i)
      members.push_back(Members(static_cast<int>(i)));
    comm_names_ = CommNames(matcher_.comms(), members);
  }
  return (*comm_names_)[comm];
}

std::string Names::Comm(int comm) const {
  const std::string& name = CommName(comm);
  if (name.find("...}") == std::string::npos && name.find("?}") == std::string::npos) return name;
  return name + " (" + std::to_string(matcher_.comms()[comm].nranks) + " ranks)";
}

std::string Names::Operation(Call call, const PartRef& ref) const {
  const char* const name = OperationName(call, ref.comm);
  return OfPart(std::string(name) + " " + NumberText(ref.sequence), ref);
}

const char* Names::OperationName(Call call, int comm) const {
  const bool host = comm >= 0 && matcher_.comms()[static_cast<size_t>(comm)].host;
  return host ? TorchName(call) : Name(call);
}

// The number is known only when the graph is launched.
std::string Names::Captured(Call call, const PartRef& ref) const {
  return OfPart(std::string(Name(call)) + " (captured)", ref);
}

std::string Names::OfPart(std::string text, const PartRef& ref) const {
  if (ref.comm < 0) return text;
  if (ref.kind == PartKind::kSend) text += " to " + std::to_string(MemberRank(ref.comm, ref.peer));
  if (ref.kind == PartKind::kReceive) {
    text += " from " + (ref.peer < 0 ? "any rank" : std::to_string(MemberRank(ref.comm, ref.peer)));
  }
  return text + " on " + Comm(ref.comm);
}

std::string Names::NameOf(const Launch& launch) const {
  if (!launch.parts.empty())
    return Operation(launch.parts.front().signature.call, launch.parts.front().ref);
  if (launch.signal == nullptr) return "a launch";
  std::string text = Name(launch.signal->call);
  if (launch.comm_index < 0) return text;
  std::set<int> peers;
  for (const SignalUse& use : launch.signal->uses)
    peers.insert(MemberRank(launch.comm_index, use.peer));
  for (const int peer : peers) {
    text += (peer != *peers.begin()                     ? ", "
             : launch.signal->call == Call::kWaitSignal ? " from "
                                                        : " to ") +
            std::to_string(peer);
  }
  return text + " on " + Comm(launch.comm_index);
}

std::string Names::Signal(int comm, int destination, uint64_t number) const {
  return "signal #" + std::to_string(number) + " to " +
         std::to_string(MemberRank(comm, destination)) + " on " + Comm(comm);
}

std::string Names::Init(const InitCall& init) const {
  std::string text = Name(init);
  if (init.parent >= 0) return text + " of " + Comm(init.parent);
  if (init.comm >= 0) return text + " of " + Comm(init.comm);
  return text;
}

std::string Names::Lost(const Process& process) const {
  const ProcessState& state = process.state;
  if (process.merger.lost() > 0 || state.lost_records > 0 || process.records_missing)
    return "records of " + RankOf(process.info.process) + " were lost";
  const std::vector<std::string> all = AllLost(process);
  return all.empty() ? "" : all.front();
}

std::vector<std::string> Names::AllLost(const Process& process) const {
  const ProcessState& state = process.state;
  const std::string of = " of " + RankOf(process.info.process);
  const auto counted = [&](uint64_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s") + of;
  };
  const char* const no_room = " found no room in gordian's table of those in use";
  std::vector<std::string> all;
  if (const uint64_t lost = std::max(process.merger.lost(), state.lost_records); lost > 0)
    all.push_back(counted(lost, "record"));
  if (process.records_missing) all.push_back("records" + of);
  if (state.lost_comms > 0) all.push_back(counted(state.lost_comms, "communicator") + no_room);
  if (state.lost_streams > 0) all.push_back(counted(state.lost_streams, "stream") + no_room);
  return all;
}

std::string Names::RankOf(ProcessId process) const {
  const std::vector<int> ranks = AllRanks(process);
  if (!ranks.empty()) return RankList(ranks);
  const Process* p = execution_.Find(process);
  return "process " + std::to_string(p != nullptr ? p->info.pid : 0);
}

bool Names::OfEarlierStart(int comm) const {
  std::set<ProcessId> members;
  for (const CommMember& member : matcher_.comms()[comm].members) {
    if (member.known) members.insert(member.process);
  }
  return incarnations().Past(members);
}

std::set<ProcessId> Names::JobOf(ProcessId process) const {
  std::set<ProcessId> all = {process};
  const std::map<ProcessId, ProcessId> job = JobsOf(matcher_);
  const auto own = job.find(process);
  if (own == job.end()) return all;
  for (const auto& [id, of] : job) {
    if (of == own->second && !incarnations().Replaced(id)) all.insert(id);
  }
  return all;
}

std::string RankList(const std::vector<int>& ranks, bool upper) {
  std::string text = upper ? "Rank" : "rank";
  if (ranks.size() != 1) text += "s";
  constexpr size_t kMost = 12;
  const size_t shown = std::min(ranks.size(), kMost);
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += (i == 0 ? " " : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

}  // namespace gordian::model
