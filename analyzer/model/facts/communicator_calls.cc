// Calls that make communicators, that all of their members make (W11), and that end them.
#include <algorithm>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

// Unlike any hash of an ncclUniqueId, as far as 64 bits go.
CommUid MeetingUid(const Communicator& comm, Call call, uint64_t ordinal) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const uint64_t word :
       {comm.uid, static_cast<uint64_t>(comm.color), static_cast<uint64_t>(call), ordinal}) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash == 0 ? 1 : hash;
}

namespace {

// -1 for a rank beyond the communicator's size, which NCCL refuses after the call has begun.
int RankIn(const Communicator& comm, int rank) { return rank < comm.nranks ? rank : -1; }

bool AllKnown(const Communicator& comm) {
  return std::all_of(comm.members.begin(), comm.members.end(),
                     [](const CommMember& member) { return member.known; });
}

}  // namespace

void ExecutionGraph::ApplyInitBegin(Process& process, Thread& thread, const CallRecord& record) {
  const auto& made = record.As<ring::CommInitPayload>();
  LocalComm& local = process.comms[made.comm];
  local.id = made.comm;
  const CommUid uid = matcher_.Resolve(made.uid);
  local.uid = uid;
  local.parent = made.parent;
  local.color = made.color;
  local.device = made.device;
  const bool child = made.parent != 0;
  bool made_before = false;
  local.launch_order = (record.flags & kLaunchOrder) != 0;
  local.host = (record.flags & kHost) != 0;
  if (const auto name = process.comm_names.find(made.comm); name != process.comm_names.end()) {
    local.name = name->second;
  }
  int parent_index = -1;
  if (child) {
    auto parent = process.comms.find(made.parent);
    if (parent == process.comms.end() || parent->second.index < 0) return;
    parent_index = parent->second.index;
    local.init_rank = parent->second.rank;
    if (local.device < 0) local.device = parent->second.device;
  } else {
    local.init_rank = made.rank;
    local.index = matcher_.Comm(uid, 0, made.nranks);
    matcher_.comms()[local.index].host |= local.host;
    if (!local.name.empty()) matcher_.comms()[local.index].name = local.name;
    made_before = matcher_.InitBeginsAgain(uid, made.rank, process.info.process) ||
                  (matcher_.FindInit(uid) == nullptr && AllKnown(matcher_.comms()[local.index]));
    local.rank = RankIn(matcher_.comms()[local.index], made.rank);
    matcher_.SetMember(local.index, local.rank, process.info.process, made.comm, made.device,
                       record.call_site);
  }
  const int expected = child ? matcher_.comms()[parent_index].nranks : made.nranks;
  InitCall& init = matcher_.Init(uid, record.call, parent_index, expected);
  init.comm = child ? -1 : local.index;
  init.host |= local.host;
  init.members_known = record.call != Call::kCommShrink;
  if (local.init_rank < 0 || local.init_rank >= static_cast<int>(init.members.size())) return;
  init.made_before |= made_before;
  if (record.call == Call::kCommInit && !child) {
    Matcher::InitClaimed(&init, {.process = process.info.process,
                                 .comm = made.comm,
                                 .device = made.device,
                                 .rank = local.init_rank,
                                 .nranks = made.nranks,
                                 .site = record.call_site,
                                 .time_ns = record.time_ns});
  }
  NoteCaller(&init, local.init_rank, process, thread, local, record);
  if ((record.flags & kInGroup) != 0) {
    thread.group_inits.push_back({uid, local.init_rank});
  } else if (thread.open) {
    thread.open->init = uid;
    thread.open->init_rank = local.init_rank;
  }
}

// W11 of ncclCommGrow: those who were in the parent know it and not the ncclUniqueId, those who are
// new know the id alone; the one who hands the id out knows both, and says so.
void ExecutionGraph::ApplyGrowth(Process& process, const CallRecord& record) {
  const auto& grown = record.As<ring::CommInitPayload>();
  const auto local = process.comms.find(grown.comm);
  if (local == process.comms.end() || local->second.uid == 0 || grown.uid == 0) return;
  Unite(grown.uid, local->second.uid);
}

void ExecutionGraph::Unite(CommUid other, CommUid uid) {
  other = matcher_.Resolve(other);
  uid = matcher_.Resolve(uid);
  if (other == uid) return;
  const auto [before, now] = matcher_.Unite(other, uid);
  for (auto& [id, process] : processes_) {
    for (auto& [comm, known] : process.comms) {
      if (known.uid != other) continue;
      known.uid = uid;
      if (known.index == before && before >= 0) known.index = now;
    }
    for (auto& [tid, thread] : process.threads) {
      if (thread.open) thread.open->init = matcher_.Resolve(thread.open->init);
      for (PendingInit& pending : thread.group_inits) {
        if (pending.uid == other) pending.uid = uid;
      }
    }
  }
  if (before < 0) return;
  const auto rename = [before = before, now = now](std::vector<Part>* parts) {
    for (Part& part : *parts) {
      if (part.ref.comm == before) part.ref.comm = now;
    }
  };
  for (auto& [id, launch] : launches_) {
    if (launch.comm_index == before) launch.comm_index = now;
    rename(&launch.parts);
  }
  for (auto& [id, process] : processes_) {
    for (auto* graphs : {&process.captures, &process.graphs, &process.graph_execs}) {
      for (auto& [handle, graph] : *graphs) {
        for (CapturedLaunch& launch : graph.launches) rename(&launch.parts);
      }
    }
  }
}

void ExecutionGraph::NoteCaller(InitCall* init, int rank, const Process& process,
                                const Thread& thread, const LocalComm& local,
                                const CallRecord& record) {
  InitMember& member = init->members[rank];
  if (!member.called) ++init->called;
  member = {true,         false,        process.info.process, thread.id,       local.id,
            local.device, record.order, record.time_ns,       record.call_site};
}

void ExecutionGraph::ApplyInitEnd(Process& process, Thread& thread, const CallRecord& record,
                                  CommUid uid, int init_rank) {
  const auto& end = record.As<ring::EndPayload>();
  auto it = process.comms.find(end.comm);
  auto grouped =
      std::find_if(thread.group_inits.begin(), thread.group_inits.end(),
                   [&](const PendingInit& i) { return i.uid == uid && i.rank == init_rank; });
  const bool in_group = grouped != thread.group_inits.end();
  if (!Took(end.result)) {
    if (in_group) thread.group_inits.erase(grouped);
    matcher_.InitFailed(uid, process.info.process, end.comm);
    matcher_.InitWithdraw(uid, init_rank);
    if (it != process.comms.end()) process.comms.erase(it);
    return;
  }
  if (it != process.comms.end()) {
    LocalComm& local = it->second;
    if (end.device >= 0) local.device = end.device;
    if (local.parent != 0 && end.rank >= 0 && end.nranks > 0) {
      const int color = local.color;
      local.index = matcher_.Comm(local.uid, color, end.nranks);
      matcher_.comms()[local.index].host |= local.host;
      local.rank = RankIn(matcher_.comms()[local.index], end.rank);
      matcher_.SetMember(local.index, local.rank, process.info.process, local.id, local.device,
                         record.call_site);
      if (!local.name.empty()) matcher_.comms()[local.index].name = local.name;
    }
    if (end.result == kInProgress) {
      local.unsettled = true;
      return;
    }
  }
  if (!in_group) matcher_.InitDone(uid, init_rank);
}

void ExecutionGraph::ApplyCommCall(Process& process, Thread& thread, const CallRecord& record) {
  // What ends a call does not name its communicator again.
  const CommId named = CommOf(record);
  const CommId id = named != 0 ? named : thread.open ? CommOf(thread.open->record) : 0;
  auto it = process.comms.find(id);
  if (it == process.comms.end()) return;
  LocalComm& local = it->second;
  const bool aborts = record.call == Call::kCommAbort || record.call == Call::kCommRevoke;
  const bool leaves = aborts || record.call == Call::kCommDestroy;
  if (!aborts && record.call != Call::kCommFinalize) ApplyMeeting(process, thread, local, record);
  if (local.index >= 0 && local.rank >= 0 && leaves) {
    CommMember& member = matcher_.comms()[local.index].members[local.rank];
    if (!member.left && !member.aborted) member.left_ns = record.time_ns;
    (aborts ? member.aborted : member.left) = true;
  }
  if (record.kind == RecordKind::kBegin) return;
  const int32_t result = record.As<ring::EndPayload>().result;
  if (record.call == Call::kCommFinalize && Took(result)) {
    local.finalizing = result == kInProgress;
    if (local.index >= 0 && local.rank >= 0)
      matcher_.comms()[local.index].members[local.rank].finalized = true;
  }
  if (result != 0) return;
  if (aborts) {
    for (auto& [launch_id, launch] : launches_) {
      if (launch.process != process.info.process || launch.comm != id) continue;
      launch.aborted = true;
      for (const Part& part : launch.parts) matcher_.Abort(part.ref);
    }
  } else if (record.call != Call::kCommWindowRegister) {
    CommDone(process, id, record.time_ns);
  }
}

// W11: every member makes the call, and each waits for all. It is held as the calls that make
// communicators are: one of the parent's members, with a name that follows from the communicator,
// the kind of call, and how many of it there were.
void ExecutionGraph::ApplyMeeting(Process& process, Thread& thread, LocalComm& local,
                                  const CallRecord& record) {
  if (local.index < 0 || local.rank < 0) return;
  if (record.kind == RecordKind::kEnd) {
    if (!thread.open || thread.open->init == 0) return;
    if (Took(record.As<ring::EndPayload>().result)) {
      matcher_.InitDone(thread.open->init, local.rank);
    } else {
      matcher_.InitWithdraw(thread.open->init, local.rank);
      if (record.call == Call::kCommWindowRegister) --local.windows;
    }
    return;
  }
  if (record.kind != RecordKind::kBegin || !thread.open) return;  // in a group: not followed
  const Communicator& comm = matcher_.comms()[local.index];
  const uint64_t ordinal = record.call == Call::kCommWindowRegister ? local.windows++ : 0;
  const CommUid uid = MeetingUid(comm, record.call, ordinal);
  InitCall& init = matcher_.Init(uid, record.call, local.index, comm.nranks);
  init.ordinal = ordinal;
  if (local.rank >= static_cast<int>(init.members.size())) return;
  NoteCaller(&init, local.rank, process, thread, local, record);
  thread.open->init = uid;
  thread.open->init_rank = local.rank;
}

}  // namespace gordian::model
