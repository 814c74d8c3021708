#include "replayer/record/unfinished.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "analyzer/model/verdict/names.h"
#include "replayer/record/needed_calls.h"
#include "replayer/record/signature.h"
#include "replayer/write/identifier.h"

namespace gordian::replayer {
namespace {

using model::Call;
using model::ProcessId;
using model::WaitKind;
using model::WorkKind;

// One process's part of the schedule under construction.
struct RankBuild {
  ProcessId process = 0;
  std::map<model::ThreadId, size_t> threads;  // index into RankProgram::threads
  std::map<model::StreamId, int> streams;
  std::map<uint64_t, int> events;  // by handle
  std::map<int, int> graphs;       // by index into RecordedProcess::graphs
  // What each thread has begun and not ended at the current call.
  std::set<size_t> in_group;
};

class Builder {
 public:
  Builder(const JobFacts& facts, const NeededCalls& needed, bool unfinished)
      : facts_(facts),
        names_(facts.execution, facts.matcher),
        needed_(needed),
        unfinished_(unfinished) {}

  UnfinishedJob Run() {
    refused_ = needed_.refused;
    ChooseRanks();
    MakeComms();
    for (size_t rank = 0; rank < built_.size(); ++rank) {
      WriteCalls(rank);
      if (unfinished_) WriteEnds(rank);
      if (!needed_.alone) NoteStreams(rank);
      AddGates(rank);
    }
    UnfinishedJob job;
    Originate();
    job.schedule = std::move(schedule_);
    job.refused.assign(refused_.begin(), refused_.end());
    for (const RankBuild& build : built_) {
      job.processes.push_back(build.process);
      std::vector<model::ThreadId>& threads = job.threads.emplace_back(build.threads.size());
      for (const auto& [id, place] : build.threads) threads[place] = id;
    }
    job.orders = std::move(orders_);
    return job;
  }

 private:
  void ChooseRanks() {
    std::set<ProcessId> processes;
    for (const auto& [id, calls] : needed_.by_process) processes.insert(id);
    for (const int index : needed_.comms) {
      for (const model::CommMember& member : Comm(index).members) {
        if (member.known) processes.insert(member.process);
      }
    }
    std::vector<std::pair<int, ProcessId>> sorted;
    for (const ProcessId id : processes) {
      if (names_.incarnations().Replaced(id)) continue;
      const int rank = names_.Rank(id);
      if (names_.AllRanks(id).size() > 1)
        refused_.insert("a process holds several ranks of one communicator");
      sorted.emplace_back(rank < 0 ? INT32_MAX : rank, id);
    }
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [rank, id] : sorted) AddRank(id);
  }

  const model::Communicator& Comm(int index) const {
    return facts_.matcher.comms()[static_cast<size_t>(index)];
  }

  // True if the call that makes it has not ended everywhere.
  bool IsBeingMade(int index) const {
    const model::InitCall* const init = facts_.matcher.FindInit(Comm(index).uid);
    return init != nullptr && init->done < static_cast<int>(init->members.size());
  }

  void MakeComms() {
    std::map<model::CommUid, int> by_uid;
    for (const int index : needed_.comms) {
      const model::Communicator& from = Comm(index);
      Communicator comm;
      comm.label = from.name;
      comm.name =
          names_of_comms_.Take(Identifier(from.name.empty() ? names_.CommName(index) : from.name));
      comm.ready = !IsBeingMade(index);
      RefuseContradiction(from.uid, comm.name);
      size_t unseen = 0;
      for (const model::CommMember& member : from.members) {
        const auto rank = member.known ? rank_of_.find(member.process) : rank_of_.end();
        comm.members.push_back(rank == rank_of_.end() ? -1 : rank->second);
        unseen += rank == rank_of_.end();
      }
      if (unseen > 0 && comm.ready) {
        refused_.insert(std::to_string(unseen) + " members of " + comm.name +
                        " are not in the record");
      } else if (unseen > 0) {
        GuessMembers(&comm);
        if (std::find(comm.members.begin(), comm.members.end(), -1) != comm.members.end()) {
          schedule_.origin.notes.push_back("members of " + comm.name +
                                           " that have not called to make it are left out");
        }
      }
      if (!needed_.alone) NoteUse(index, &comm);
      comm_of_[index] = static_cast<int>(schedule_.comms.size());
      by_uid.emplace(from.uid, comm_of_[index]);
      schedule_.comms.push_back(std::move(comm));
    }
    for (const int index : needed_.comms) {
      const int parent = ParentOf(index);
      if (const auto found = comm_of_.find(parent);
          found != comm_of_.end() && found->second < comm_of_[index]) {
        schedule_.comms[static_cast<size_t>(comm_of_[index])].parent = found->second;
      }
    }
  }

  // A schedule has one member for each rank of a communicator.
  void RefuseContradiction(model::CommUid uid, const std::string& name) {
    const model::InitCall* const init = facts_.matcher.FindInit(uid);
    if (init == nullptr || model::Contradiction(*init) == 0) return;
    std::set<int> ranks, sizes;
    for (const model::InitClaim& claim : init->claims) {
      sizes.insert(claim.nranks);
      if (!ranks.insert(claim.rank).second) {
        refused_.insert("several callers of ncclCommInitRank pass rank " +
                        std::to_string(claim.rank) + " of " + name +
                        ": replays make communicators of different ranks only");
      }
    }
    if (sizes.size() < 2) return;
    refused_.insert("callers of ncclCommInitRank pass different numbers of ranks for " + name +
                    ", from " + std::to_string(*sizes.begin()) + " to " +
                    std::to_string(*sizes.rbegin()) +
                    ": replays make communicators of one size only");
  }

  // Its parent; -1: none, or the parent does not matter here.
  int ParentOf(int index) const {
    for (const model::CommMember& member : Comm(index).members) {
      const model::Process* const process =
          member.known ? facts_.execution.Find(member.process) : nullptr;
      if (process == nullptr) continue;
      const auto local = process->comms.find(member.comm);
      if (local != process->comms.end() && local->second.parent != 0)
        return CommOf(facts_, member.process, local->second.parent);
    }
    return -1;
  }

  // Guesses the rank of a member that has not made its call: if all others have their job's rank,
  // it has too.
  void GuessMembers(Communicator* comm) {
    for (size_t i = 0; i < comm->members.size(); ++i) {
      const int rank = comm->members[i];
      if (rank >= 0 && schedule_.ranks[static_cast<size_t>(rank)].rank != static_cast<int>(i))
        return;
    }
    for (size_t i = 0; i < comm->members.size(); ++i) {
      if (comm->members[i] >= 0) continue;
      for (const auto& [id, process] : facts_.execution.processes()) {
        if (names_.Rank(id) != static_cast<int>(i) || names_.incarnations().Replaced(id)) continue;
        comm->members[i] = AddRank(id);
        schedule_.origin.notes.push_back("rank " + std::to_string(i) +
                                         " is, as a guess, the member " + std::to_string(i) +
                                         " of " + comm->name + " that has not called");
        break;
      }
    }
  }
  int AddRank(ProcessId id) {
    const auto found = rank_of_.find(id);
    if (found != rank_of_.end()) return found->second;
    const int place = static_cast<int>(built_.size());
    rank_of_[id] = place;
    built_.emplace_back().process = id;
    RankProgram& program = schedule_.ranks.emplace_back();
    program.rank = names_.Rank(id);
    program.device = place;
    program.pid = facts_.execution.Find(id)->info.pid;
    return place;
  }

  // Notes which members the left-out calls on it have connected.
  void NoteUse(int index, Communicator* comm) const {
    std::set<std::pair<int, int>> pairs;
    for (const model::CommMember& member : Comm(index).members) {
      const auto recorded = facts_.recording.processes().find(member.process);
      if (!member.known || recorded == facts_.recording.processes().end()) continue;
      const auto local = facts_.execution.Find(member.process)->comms.find(member.comm);
      if (local == facts_.execution.Find(member.process)->comms.end()) continue;
      for (const RecordedCall& call : recorded->second.calls) {
        if (call.comm != member.comm || !call.IsOperation()) continue;
        if (!call.Returned() || !model::Took(call.result) ||
            (unfinished_ && needed_.Has(member.process, call.order)))
          continue;
        const model::Role role = {call.call, local->second.rank, call.root_or_peer, call.count};
        const model::FirstUses uses = model::FirstUsesOf(role, Comm(index).nranks);
        for (const auto& [peer, sends] : uses.peers)
          pairs.insert(sends ? std::pair(role.member, peer) : std::pair(peer, role.member));
        comm->connected |= uses.collectives;
      }
    }
    comm->connected_pairs.assign(pairs.begin(), pairs.end());
  }

  ThreadProgram& Thread(size_t rank, model::ThreadId id) {
    std::vector<ThreadProgram>& threads = schedule_.ranks[rank].threads;
    const auto [found, added] = built_[rank].threads.try_emplace(id, threads.size());
    if (added) threads.emplace_back();
    return threads[found->second];
  }

  int StreamPlace(size_t rank, model::StreamId id) {
    if (id == 0) return -1;
    RankProgram& program = schedule_.ranks[rank];
    const auto [found, added] =
        built_[rank].streams.try_emplace(id, static_cast<int>(program.streams.size()));
    if (!added) return found->second;
    const model::Process& process = *facts_.execution.Find(built_[rank].process);
    const auto queue = process.streams.find(id);
    const uint32_t flags = queue == process.streams.end() ? 0 : queue->second.flags;
    Stream stream;
    stream.device = queue == process.streams.end() ? 0 : std::max(0, queue->second.device);
    stream.kind = (flags & model::kStreamLegacy) != 0      ? StreamKind::kLegacy
                  : (flags & model::kStreamPerThread) != 0 ? StreamKind::kPerThread
                  : (flags & model::kStreamBlocking) != 0  ? StreamKind::kBlocking
                                                           : StreamKind::kNonBlocking;
    if ((flags & model::kStreamFlagsUnknown) != 0) {
      schedule_.origin.notes.push_back(
          "a stream of rank " + std::to_string(program.rank) +
          " was made before recording; guessed: it does not wait for the legacy default stream");
    }
    stream.name = stream.kind == StreamKind::kLegacy ? "legacy"
                  : stream.kind == StreamKind::kPerThread
                      ? "per_thread"
                      : "s" + std::to_string(program.streams.size() + 1);
    program.streams.push_back(std::move(stream));
    return found->second;
  }
  int EventPlace(size_t rank, uint64_t handle) {
    const auto [found, added] =
        built_[rank].events.try_emplace(handle, schedule_.ranks[rank].events);
    if (added) ++schedule_.ranks[rank].events;
    return found->second;
  }

  Op Made(OpKind kind) {
    Op op;
    op.id = next_id_++;
    op.kind = kind;
    return op;
  }

  void WriteCalls(size_t rank) {
    RankBuild& build = built_[rank];
    const auto found = needed_.by_process.find(build.process);
    if (found == needed_.by_process.end()) return;
    std::map<int, uint64_t> last_captured;  // by graph: order of its last operation
    for (const auto& [order, needed] : found->second) {
      if (needed.graph >= 0) last_captured[needed.graph] = order;
    }
    for (const auto& [order, needed] : found->second) {
      const RecordedCall& call = *needed.call;
      if (call.Returned() && !model::Took(call.result)) continue;
      ThreadProgram& thread = Thread(rank, call.thread);
      const size_t place = build.threads[call.thread];
      if (call.InGroup() && build.in_group.insert(place).second) {
        Op start = Made(OpKind::kGroupStart);
        start.captured = needed.graph >= 0;
        start.witness = needed.witness;
        Append(&thread, std::move(start), order, order);
      }
      Op op;
      if (!Translate(rank, needed, &op)) continue;
      op.id = next_id_++;
      if (needed.graph >= 0) BeginCapture(rank, &thread, needed, op);
      if (op.kind == OpKind::kGroupEnd) {
        build.in_group.erase(place);
      } else {
        op.in_group = build.in_group.contains(place);
      }
      Append(&thread, std::move(op), order, call.end_order);
      const auto last = needed.graph >= 0 ? last_captured.find(needed.graph) : last_captured.end();
      if (last != last_captured.end() && last->second == order)
        ending_captures_.push_back({rank, call.thread, needed.graph});
      EndCaptures(rank);
    }
  }

  // A capture ends after the group of its last operation.
  void EndCaptures(size_t rank) {
    for (auto ending = ending_captures_.begin(); ending != ending_captures_.end();) {
      ThreadProgram& thread = Thread(rank, ending->thread);
      if (built_[rank].in_group.contains(built_[rank].threads[ending->thread])) {
        ++ending;
        continue;
      }
      const uint64_t order = orders_[thread.ops.back().id].first;
      const Capture& capture = captures_[{rank, ending->graph}];
      for (size_t i = 1; i < capture.streams.size(); ++i) {  // the forked streams join again
        Op record = Made(OpKind::kEventRecord);
        record.stream = capture.streams[i];
        record.event = capture.event;
        record.captured = true;
        Append(&thread, record, order, order);
        Op wait = Made(OpKind::kStreamWaitEvent);
        wait.stream = capture.streams[0];
        wait.event = capture.event;
        wait.captured = true;
        Append(&thread, wait, order, order);
      }
      Op end = Made(OpKind::kCaptureEnd);
      end.stream = capture.streams[0];
      end.graph = built_[rank].graphs[ending->graph];
      end.witness = capture.witness;
      Append(&thread, end, order, order);
      ending = ending_captures_.erase(ending);
    }
  }

  // Begins a graph's capture before its first operation; its other streams fork off the first one.
  void BeginCapture(size_t rank, ThreadProgram* thread, const NeededCall& needed, const Op& op) {
    const uint64_t order = needed.call->order;
    Capture& capture = captures_[{rank, needed.graph}];
    capture.witness |= needed.witness;
    if (op.stream < 0) return;
    const bool first = capture.streams.empty();
    if (!first && std::find(capture.streams.begin(), capture.streams.end(), op.stream) !=
                      capture.streams.end())
      return;
    capture.streams.push_back(op.stream);
    // A capture cannot begin inside an open group, so begin it before the group.
    Op group;
    const bool in_group = !thread->ops.empty() && thread->ops.back().kind == OpKind::kGroupStart;
    if (in_group) {
      group = std::move(thread->ops.back());
      thread->ops.pop_back();
    }
    if (first) {
      Op begin = Made(OpKind::kCaptureBegin);
      begin.stream = op.stream;
      begin.graph = GraphPlace(rank, needed.graph);
      begin.witness = needed.witness;
      Append(thread, begin, order, order);
    } else {
      if (capture.event < 0) capture.event = schedule_.ranks[rank].events++;
      Op record = Made(OpKind::kEventRecord);
      record.stream = capture.streams[0];
      record.event = capture.event;
      record.captured = true;
      record.in_group =
          !in_group && built_[rank].in_group.contains(built_[rank].threads[needed.call->thread]);
      Op wait = record;
      wait.id = next_id_++;
      wait.kind = OpKind::kStreamWaitEvent;
      wait.stream = op.stream;
      Append(thread, record, order, order);
      Append(thread, wait, order, order);
    }
    if (in_group) thread->ops.push_back(std::move(group));
  }
  int GraphPlace(size_t rank, int content) {
    const auto [found, added] =
        built_[rank].graphs.try_emplace(content, schedule_.ranks[rank].graphs);
    if (added) ++schedule_.ranks[rank].graphs;
    return found->second;
  }

  void Append(ThreadProgram* thread, Op op, uint64_t order, uint64_t end_order) {
    orders_[op.id] = {order, end_order};
    thread->ops.push_back(std::move(op));
  }

  // Returns false for a call that does not belong into a replay. Refuses one that would, and cannot
  // be.
  bool Translate(size_t rank, const NeededCall& needed, Op* op) {
    const RecordedCall& call = *needed.call;
    op->unfinished = !call.Returned();
    op->witness = needed.witness;
    op->captured = call.Captured();
    if (facts_.symbol) op->symbol = facts_.symbol(call.call_id);
    if (facts_.site) {
      SiteText site = facts_.site(built_[rank].process, call.site);
      op->site = std::move(site.text);
      op->site_file = std::move(site.file);
      op->site_line = site.line;
    }
    const int index = CommOf(facts_, built_[rank].process, call.comm);
    if (const auto comm = comm_of_.find(index); comm != comm_of_.end()) op->comm = comm->second;
    op->stream = StreamPlace(rank, call.stream);
    switch (call.call) {
      case Call::kGroupEnd:
        op->kind = OpKind::kGroupEnd;
        return true;
      case Call::kCommInit:
        op->kind = OpKind::kCommInit;
        return op->comm >= 0 && !schedule_.comms[static_cast<size_t>(op->comm)].ready;
      case Call::kCommSplit:
        return TranslateSplit(rank, call, op);
      case Call::kCommFinalize:
        op->kind = OpKind::kCommFinalize;
        return op->comm >= 0;
      case Call::kCommDestroy:
        op->kind = OpKind::kCommDestroy;
        return op->comm >= 0;
      case Call::kCommAbort:
        op->kind = OpKind::kCommAbort;
        return op->comm >= 0;
      case Call::kCommWindowRegister:
        op->kind = OpKind::kWindowRegister;
        return op->comm >= 0;
      case Call::kStreamWork:
        return TranslateWork(rank, needed, op);
      case Call::kHostWait:
        return TranslateHostWait(rank, call, op);
      default:
        break;
    }
    if (call.IsOperation()) {
      op->kind = KindOf(call.call);
      op->count = call.count;
      op->datatype = call.datatype;
      op->reduce_op = call.reduce_op;
      op->root_or_peer = call.root_or_peer;
      if (op->comm >= 0) return true;
      refused_.insert("the creation of an operation's communicator is not in the record");
      return false;
    }
    refused_.insert(std::string("a thread is in ") +
                    (op->symbol.empty() ? model::Name(call.call) : op->symbol.c_str()) +
                    ", which replays do not make");
    return false;
  }

  bool TranslateWork(size_t rank, const NeededCall& needed, Op* op) {
    const RecordedCall& call = *needed.call;
    switch (call.work) {
      case WorkKind::kEventRecord:
        op->kind = OpKind::kEventRecord;
        op->event = EventPlace(rank, call.event);
        return true;
      case WorkKind::kEventWait:
        op->kind = OpKind::kStreamWaitEvent;
        if (!built_[rank].events.contains(call.event))
          return false;  // the event was never recorded: waits for nothing
        op->event = EventPlace(rank, call.event);
        return true;
      case WorkKind::kGraphLaunch:
        op->kind = OpKind::kGraphLaunch;
        op->graph = GraphPlace(rank, call.content);
        return call.content >= 0;
      case WorkKind::kKernels:
        op->kind = OpKind::kKernel;
        return true;
      case WorkKind::kHostFunction:
        op->kind = OpKind::kHostFunction;
        return true;
      default:
        return false;
    }
  }

  bool TranslateHostWait(size_t rank, const RecordedCall& call, Op* op) {
    switch (call.wait) {
      case WaitKind::kStream:
        op->kind = OpKind::kStreamSync;
        return op->stream >= 0;
      case WaitKind::kEvent:
        op->kind = OpKind::kEventSync;
        if (!built_[rank].events.contains(call.event)) return false;
        op->event = EventPlace(rank, call.event);
        return true;
      case WaitKind::kDevice:
        op->kind = OpKind::kDeviceSync;
        return true;
      case WaitKind::kFree:
        op->kind = OpKind::kFree;
        return true;
      case WaitKind::kCopy:
      case WaitKind::kAsyncCopy:
        op->kind = OpKind::kCopy;
        return op->stream >= 0;
      case WaitKind::kOperation:
      case WaitKind::kStore:
      case WaitKind::kNoWait:
        break;
    }
    refused_.insert("a thread waits in " +
                    (op->symbol.empty() ? std::string("a call") : op->symbol) +
                    ", which replays do not make");
    return false;
  }

  // A communicator that is ready already needs no split. One in the making is known by its parent
  // and colour only.
  bool TranslateSplit(size_t rank, const RecordedCall& call, Op* op) {
    op->kind = OpKind::kCommSplit;
    op->color = call.color;
    const model::Process& process = *facts_.execution.Find(built_[rank].process);
    const auto parent = comm_of_.find(CommOf(facts_, built_[rank].process, call.parent));
    if (parent == comm_of_.end()) {
      refused_.insert("the creation of a split's parent communicator is not in the record");
      return false;
    }
    op->parent = parent->second;
    op->key = 0;
    if (op->comm >= 0) return !schedule_.comms[static_cast<size_t>(op->comm)].ready;
    if (call.color < 0) return true;
    const auto local = process.comms.find(call.comm);
    const model::CommUid uid = local == process.comms.end() ? 0 : local->second.uid;
    const auto [child, added] =
        children_.try_emplace({uid, call.color}, static_cast<int>(schedule_.comms.size()));
    if (added) {
      Communicator comm;
      comm.name =
          names_of_comms_.Take(schedule_.comms[static_cast<size_t>(op->parent)].name + "_part");
      comm.parent = op->parent;
      schedule_.comms.push_back(std::move(comm));
    }
    op->comm = child->second;
    schedule_.comms[static_cast<size_t>(op->comm)].members.push_back(static_cast<int>(rank));
    return true;
  }

  // Writes what each thread does after its last call, and how the process ended.
  void WriteEnds(size_t rank) {
    RankBuild& build = built_[rank];
    const model::Process& process = *facts_.execution.Find(build.process);
    RankProgram& program = schedule_.ranks[rank];
    if (!process.ended) {
      bool runs = false;
      for (const model::ThreadState& state : process.state.threads) {
        if (state.library_thread || state.call_id != 0) continue;
        const bool running = state.os_state == model::OsState::kRunning;
        runs |= running && (state.gpu_thread || state.tid == process.info.pid);
        const auto thread = build.threads.find(state.thread);
        if (thread == build.threads.end() || state.thread == 0) continue;
        std::vector<Op>& ops = program.threads[thread->second].ops;
        if (!ops.empty() && ops.back().unfinished) continue;
        const auto poll = needed_.polls.find({build.process, state.thread});
        Op op = Made(poll != needed_.polls.end() ? OpKind::kPoll
                     : running                   ? OpKind::kSpin
                                                 : OpKind::kSleep);
        if (poll != needed_.polls.end()) {
          op.event = poll->second.event == 0 ? -1 : EventPlace(rank, poll->second.event);
          op.stream = StreamPlace(rank, poll->second.stream);
          op.unfinished = true;
        }
        op.witness = true;
        Append(&program.threads[thread->second], std::move(op), UINT64_MAX, 0);
      }
      if (program.threads.empty()) {
        Op op = Made(runs ? OpKind::kSpin : OpKind::kSleep);
        op.witness = true;
        Append(&program.threads.emplace_back(), std::move(op), UINT64_MAX, 0);
      }
    }
    if (!process.ended && !process.state.stopped) return;
    const bool killed = process.exit_kind == model::ExitKind::kSignal ||
                        process.exit_kind == model::ExitKind::kGordian;
    Op op = Made(!process.ended ? OpKind::kStop : killed ? OpKind::kKill : OpKind::kExit);
    op.exit_code = process.ended ? process.exit_value : 0;
    op.witness = true;
    const bool blocked = program.threads.empty() || (!program.threads[0].ops.empty() &&
                                                     program.threads[0].ops.back().unfinished);
    std::vector<Op>* ops = blocked ? &program.threads.emplace_back().ops : &program.threads[0].ops;
    if (!ops->empty() && EndsThread(ops->back().kind)) ops->pop_back();
    orders_[op.id] = {UINT64_MAX, 0};
    ops->push_back(std::move(op));
  }

  void NoteStreams(size_t rank) {
    const RankBuild& build = built_[rank];
    const auto recorded = facts_.recording.processes().find(build.process);
    if (recorded == facts_.recording.processes().end()) return;
    RankProgram& program = schedule_.ranks[rank];
    for (const RecordedCall& call : recorded->second.calls) {
      if (!call.IsOperation() || call.Captured() || call.stream == 0) continue;
      const auto comm = comm_of_.find(CommOf(facts_, build.process, call.comm));
      if (comm == comm_of_.end()) continue;
      const auto place = build.streams.find(call.stream);
      program.usual_streams[schedule_.comms[static_cast<size_t>(comm->second)].name] =
          place != build.streams.end() ? program.streams[static_cast<size_t>(place->second)].name
                                       : "stream " + std::to_string(call.stream);
    }
  }

  // Keeps the recorded order between calls of different threads of a process.
  void AddGates(size_t rank) {
    RankProgram& program = schedule_.ranks[rank];
    if (program.threads.size() < 2) return;
    struct Place {
      uint64_t order;
      size_t thread, index;
    };
    std::vector<Place> merged;
    for (size_t thread = 0; thread < program.threads.size(); ++thread) {
      for (size_t i = 0; i < program.threads[thread].ops.size(); ++i) {
        merged.push_back({orders_[program.threads[thread].ops[i].id].first, thread, i});
      }
    }
    std::stable_sort(merged.begin(), merged.end(),
                     [](const Place& a, const Place& b) { return a.order < b.order; });
    for (size_t i = 1; i < merged.size(); ++i) {
      if (merged[i].thread == merged[i - 1].thread) continue;
      const Op& before = program.threads[merged[i - 1].thread].ops[merged[i - 1].index];
      Op& op = program.threads[merged[i].thread].ops[merged[i].index];
      if (op.kind == OpKind::kSleep || op.kind == OpKind::kSpin) continue;
      const uint64_t end = orders_[before.id].second;
      const bool returned = end != 0 && end < merged[i].order;
      op.gates.push_back({before.id, returned ? Gate::Moment::kReturned : Gate::Moment::kCalled});
    }
  }

  void Originate() {
    Origin& origin = schedule_.origin;
    const model::Finding& main = facts_.verdict.main;
    origin.signature = SignatureOf(facts_.verdict);
    origin.check = main.check;
    origin.confidence = model::Name(main.confidence);
    origin.summary = main.summary;
    origin.ranks = static_cast<size_t>(std::max(names_.seen(), 0));
    origin.operations = facts_.operations;
    origin.records = main.evidence.records;
  }

  struct Capture {
    std::vector<int> streams;  // the capture begins on the first
    int event = -1;
    bool witness = false;
  };
  struct EndingCapture {
    size_t rank;
    model::ThreadId thread;
    int graph;
  };

  const JobFacts& facts_;
  const model::Names names_;
  const NeededCalls& needed_;
  const bool unfinished_;  // else the schedule does not hang
  Schedule schedule_;
  std::vector<RankBuild> built_;
  std::map<ProcessId, int> rank_of_;
  std::map<int, int> comm_of_;  // index into Schedule::comms, by index of the matcher
  std::map<std::pair<model::CommUid, int>, int> children_;
  std::map<std::pair<size_t, int>, Capture> captures_;
  std::vector<EndingCapture> ending_captures_;
  std::unordered_map<OpId, std::pair<uint64_t, uint64_t>> orders_;  // of begin and end
  std::set<std::string> refused_;
  UniqueNames names_of_comms_;
  OpId next_id_ = 1;
};

}  // namespace

UnfinishedJob ScheduleUnfinished(const JobFacts& facts) {
  return Builder(facts, FindNeededCalls(facts), /*unfinished=*/true).Run();
}

UnfinishedJob ScheduleCalls(const JobFacts& facts, const NeededCalls& calls) {
  return Builder(facts, calls, /*unfinished=*/false).Run();
}

}  // namespace gordian::replayer
