#include "analyzer/model/verdict/describe.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/model/verdict/comm_names.h"

namespace gordian::model {
namespace {

constexpr size_t kMaxOperations = 32;

const char* Why(Reason reason) {
  switch (reason) {
    case Reason::kEventWait:
      return "behind a wait for an event";
    case Reason::kLegacyStream:
      return "held by the legacy default stream";
    case Reason::kCommunicatorOrder:
      return "one communicator runs its operations in order";
    case Reason::kLaunchOrder:
      return "NCCL_LAUNCH_ORDER_IMPLICIT starts operations in the order of their calls";
    case Reason::kResources:
      return "they need the same hardware queue or multiprocessors";
    case Reason::kGraphOrder:
      return "in one launch of a CUDA graph";
    case Reason::kOpenGroup:
      return "in a group that has not ended";
    default:
      return "on the same stream";
  }
}

}  // namespace

int Describer::RankOf(const WaitNode& node) const {
  const Launch* launch = graph_.execution().FindLaunch(node.launch);
  return launch != nullptr ? names_.LaunchRank(*launch) : names_.Rank(node.process);
}

const InitCall* Describer::InitOf(const WaitNode& thread) const {
  for (const WaitNode::Edge& edge : thread.out) {
    const WaitNode& to = graph_.nodes()[edge.to];
    if (to.kind != NodeKind::kInit) continue;
    auto it = graph_.matcher().inits().find(to.init);
    if (it != graph_.matcher().inits().end()) return &it->second;
  }
  return nullptr;
}

std::string Describer::HostCall(const WaitNode& node, Site* site) const {
  const Process* process = graph_.execution().Find(node.process);
  if (process == nullptr) return "";
  for (const ThreadState& state : process->state.threads) {
    if (state.thread != node.thread) continue;
    if (state.call_id == 0 && state.poll_object != 0) return "a loop that polls";
  }
  auto it = process->threads.find(node.thread);
  if (it == process->threads.end() || !it->second.open) return "";
  const CallRecord& record = it->second.open->record;
  if (site != nullptr) *site = {node.process, record.call_site};
  return record.call == Call::kHostWait ? Name(record.As<ring::HostWaitPayload>().kind)
                                        : Name(record.call);
}

std::string Describer::KeyAwaited(const WaitNode& node) const {
  for (const WaitNode::Edge& edge : node.out) {
    if (edge.reason != Reason::kStoreKey) continue;
    const std::string& key = graph_.execution().KeyName(graph_.nodes()[edge.to].sequence);
    return key.empty() ? "a key" : "key \"" + key + "\"";
  }
  return "";
}

std::string Describer::Operation(const WaitNode& waiter) const {
  if (const Launch* launch = graph_.execution().FindLaunch(waiter.launch)) {
    return names_.NameOf(*launch);
  }
  if (const InitCall* init = InitOf(waiter)) return names_.Init(*init);
  const std::string key = KeyAwaited(waiter);
  return key.empty() ? HostCall(waiter, nullptr) : "a wait for " + key + " of the store";
}

std::vector<int> Describer::MissingIn(ProcessId process, const Arrow& arrow) const {
  const std::vector<Communicator>& comms = graph_.matcher().comms();
  std::vector<int> ranks;
  const auto add = [&](int comm, int rank) {
    const CommMember& member = comms[comm].members[rank];
    if (member.known && member.process == process) ranks.push_back(names_.MemberRank(comm, rank));
  };
  if (arrow.init != nullptr && arrow.init->parent >= 0) {
    const int members =
        std::min(comms[arrow.init->parent].nranks, static_cast<int>(arrow.init->members.size()));
    for (int r = 0; r < members; ++r) {
      if (!arrow.init->members[r].called) add(arrow.init->parent, r);
    }
  } else if (arrow.part != nullptr && arrow.part->ref.kind == PartKind::kCollective) {
    const PartRef& ref = arrow.part->ref;
    const Instance* const instance = graph_.matcher().FindInstance(ref.comm, ref.sequence);
    for (int r = 0; instance != nullptr && r < static_cast<int>(instance->members.size()); ++r) {
      if (instance->members[r].state == SlotState::kNone) add(ref.comm, r);
    }
  } else if (arrow.part != nullptr) {
    add(arrow.part->ref.comm, arrow.part->ref.peer);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool Describer::CallsAlone(ProcessId id, ThreadId caller) const {
  const Process* const process = graph_.execution().Find(id);
  if (process == nullptr) return false;
  return std::all_of(process->threads.begin(), process->threads.end(), [&](const auto& one) {
    const Call last = one.second.last_call;
    return one.first == caller || last == Call::kOther || last == Call::kHostWait ||
           last == Call::kPoll || last == Call::kStreamWork ||
           graph_.ThreadNode(id, one.first) == nullptr;
  });
}

std::vector<Arrow> Describer::Arrows(const std::vector<WitnessStep>& witness) const {
  const auto& nodes = graph_.nodes();
  std::vector<Arrow> arrows;
  const size_t n = witness.size();
  std::vector<size_t> origins;
  for (size_t i = 0; i < n; ++i) {
    if (IsOrigin(nodes[witness[i].node], witness[i].edge)) origins.push_back(i);
  }
  for (size_t i : origins) {
    const WaitNode& from = nodes[witness[i].node];
    Arrow arrow;
    WaitEdge& edge = arrow.edge;
    edge.rank = RankOf(from);
    edge.reason = witness[i].edge.reason;
    edge.site.process = from.process;
    arrow.part = graph_.PartOf(witness[i].edge);
    arrow.captured = graph_.CapturedPartOf(from, witness[i].edge);
    if (const Part* const waits = arrow.part != nullptr ? arrow.part : arrow.captured) {
      const Part& part = *waits;
      const auto name = [&](Call call, const PartRef& ref) {
        return arrow.part != nullptr ? names_.Operation(call, ref) : names_.Captured(call, ref);
      };
      edge.rank = names_.MemberRank(part.ref.comm, part.ref.rank);
      edge.op = names_.OperationName(part.signature.call, part.ref.comm);
      edge.comm = graph_.matcher().comms()[part.ref.comm].uid;
      edge.comm_name = names_.CommName(part.ref.comm);
      if (arrow.part != nullptr) edge.sequence = static_cast<int64_t>(part.ref.sequence);
      edge.stream = part.stream;
      edge.bytes = Bytes(part.signature);
      edge.site.address = part.site;
      arrow.operation = name(part.signature.call, part.ref);
      if (part.ref.kind != PartKind::kCollective) {  // the other rank must call the other end
        const bool sends = part.ref.kind == PartKind::kSend;
        PartRef end = part.ref;
        end.kind = sends ? PartKind::kReceive : PartKind::kSend;
        std::swap(end.rank, end.peer);
        arrow.awaited = name(sends ? Call::kRecv : Call::kSend, end);
      }
    } else if (witness[i].edge.reason == Reason::kSignal) {
      const WaitNode& needs = nodes[witness[i].edge.to];
      if (const Launch* launch = graph_.execution().FindLaunch(from.launch);
          launch != nullptr && launch->signal != nullptr) {
        edge.op = Name(launch->signal->call);
        edge.comm = graph_.matcher().comms()[launch->comm_index].uid;
        edge.comm_name = names_.CommName(launch->comm_index);
        edge.stream = launch->streams.front();
        edge.site.address = launch->signal->site;
        arrow.operation = names_.NameOf(*launch);
        arrow.awaited = names_.Signal(launch->comm_index, launch->signal->rank, needs.sequence);
      }
    } else if (witness[i].edge.reason == Reason::kMemoryWait) {
      edge.op = "cuStreamWaitValue";
      edge.stream = from.stream;
      if (const Process* process = graph_.execution().Find(from.process)) {
        const WorkItem* item = ExecutionGraph::ItemAt(*process, {from.stream, from.ordinal});
        if (item != nullptr) edge.site.address = item->site;
      }
      arrow.operation = "a stream's wait for a value in memory";
      arrow.awaited = "the write of the value that a stream waits for";
    } else if (witness[i].edge.reason == Reason::kStoreKey) {
      const std::string named = KeyAwaited(from);
      HostCall(from, &edge.site);
      edge.op = "store_wait";
      arrow.key = named + " of the store";
      arrow.operation = "a wait for " + arrow.key;
      arrow.awaited = "set() of " + named;
    } else {
      const WaitNode& init_node = nodes[witness[i].edge.to];
      auto it = graph_.matcher().inits().find(init_node.init);
      if (it != graph_.matcher().inits().end()) {
        arrow.init = &it->second;
        edge.op = Name(*arrow.init);
        edge.comm = arrow.init->uid;
        const int named = arrow.init->parent >= 0 ? arrow.init->parent : arrow.init->comm;
        if (named >= 0) edge.comm_name = names_.CommName(named);
        for (const InitMember& member : arrow.init->members) {
          if (member.called && member.process == from.process) edge.site.address = member.site;
        }
        arrow.operation = names_.Init(*arrow.init);
      }
    }
    // The rank it waits for, and what holds that rank.
    std::string host_call;
    bool reached = false;
    for (size_t k = 1; k <= n; ++k) {
      const WitnessStep& step = witness[(i + k) % n];
      const WaitNode& node = nodes[step.node];
      if (node.process != 0 && !reached) {
        edge.waits_for_rank = RankOf(node);
        reached = true;
      }
      if (node.kind == NodeKind::kNotCalled) arrow.not_called = true;
      if (node.kind == NodeKind::kThread && arrow.not_called && arrow.caller == 0) {
        arrow.caller = node.thread;
        arrow.missing = MissingIn(node.process, arrow);
        if (!arrow.missing.empty()) edge.waits_for_rank = arrow.missing.front();
        arrow.same_thread = origins.size() == 1 && node.process == from.process &&
                            !arrow.missing.empty() && CallsAlone(node.process, node.thread);
      }
      if (node.kind == NodeKind::kThread && host_call.empty()) host_call = HostCall(node, nullptr);
      if (IsOrigin(node, step.edge)) break;
      if (node.process != 0) arrow.local.insert(step.edge.reason);
    }
    edge.detail = host_call;  // completed below, when the next arrow is known
    arrows.push_back(std::move(arrow));
  }
  for (size_t i = 0; i < arrows.size(); ++i) {
    const Arrow& next = arrows[(i + 1) % arrows.size()];
    Arrow& arrow = arrows[i];
    const std::string host_call = std::move(arrow.edge.detail);
    const std::string who = "rank " + std::to_string(arrow.edge.waits_for_rank);
    std::string& detail = arrow.edge.detail;
    if (arrow.not_called) {  // and may never call it
      arrow.edge.held_by = "not called";
      detail = who + " has not called " + arrow.Awaited() + ": it waits for " + next.WaitsFor();
      if (arrow.same_thread) {
        detail = "the same thread calls it for " + RankList(arrow.missing) +
                 ", but only after it has waited for " + next.WaitsFor();
      }
      const bool in_other = next.init == nullptr && next.key.empty();
      if (!host_call.empty() && in_other) detail += " in " + host_call;
    } else if (!host_call.empty()) {
      arrow.edge.held_by =
          next.init == nullptr ? "in a call" : "in a call that makes a communicator";
      detail = who + " starts " + arrow.Awaited() + " only after " + next.operation;
      if (next.init == nullptr) detail += ": it is in " + host_call;
    } else {
      Reason why = Reason::kStreamOrder;
      for (Reason reason :
           {Reason::kOpenGroup, Reason::kGraphOrder, Reason::kCommunicatorOrder,
            Reason::kLaunchOrder, Reason::kResources, Reason::kLegacyStream, Reason::kEventWait}) {
        if (arrow.local.count(reason) > 0) why = reason;
      }
      detail =
          who + " starts " + arrow.Awaited() + " only after " + next.operation + ": " + Why(why);
      arrow.edge.held_by = Why(why);
    }
  }
  return arrows;
}

std::set<int> Describer::StuckRanks(const std::vector<bool>& can) const {
  std::set<int> ranks;
  for (uint32_t n : graph_.waiters()) {
    if (can[n]) continue;
    const int rank = RankOf(graph_.nodes()[n]);
    if (rank >= 0) ranks.insert(rank);
  }
  return ranks;
}

namespace {

// What a thread outside of NCCL and CUDA sleeps in, as far as the kernel says; by what tells more.
enum class Sleep : uint8_t { kNone, kOutside, kThread, kDisk };

Sleep SleepOf(const ThreadState& state) {
  if (state.os_state == OsState::kDisk) return Sleep::kDisk;
  if (state.os_state != OsState::kSleeping) return Sleep::kNone;
  return state.sleep == ThreadSleep::kThread ? Sleep::kThread : Sleep::kOutside;
}

const char* Text(Sleep sleep) {
  switch (sleep) {
    case Sleep::kNone:
      break;
    case Sleep::kOutside:
      return " and sleeps outside of NCCL and CUDA";
    case Sleep::kThread:
      return " and sleeps in a lock, a condition or a join";
    case Sleep::kDisk:
      return " and waits for a disk or a file system";
  }
  return "";
}

}  // namespace

std::string Describer::Instead(ProcessId id, Site* site) const {
  const Process* process = graph_.execution().Find(id);
  if (process == nullptr) return "is not visible to gordian";
  if (process->ended) {
    switch (process->exit_kind) {
      case ExitKind::kCode:
        return "has exited with code " + std::to_string(process->exit_value) +
               (process->exception.empty() ? "" : ", by " + process->exception);
      case ExitKind::kSignal:
        return "was killed by signal " + std::to_string(process->exit_value);
      case ExitKind::kGordian:
        return "was ended by gordian";
      case ExitKind::kUnknown:
        return "has ended";
    }
  }
  if (process->Dead()) return "has ended";
  if (!process->has_state) return "did not answer";
  if (process->state.stopped) return "is stopped";
  std::string text = "runs its own code";
  Sleep sleep = Sleep::kNone;
  for (const ThreadState& state : process->state.threads) {
    if (state.library_thread || (!state.gpu_thread && state.thread != 0)) continue;
    const WaitNode* node = state.thread == 0 ? nullptr : graph_.ThreadNode(id, state.thread);
    if (node != nullptr || state.tid == process->info.pid) sleep = std::max(sleep, SleepOf(state));
    if (node == nullptr) continue;
    const std::string call = HostCall(*node, site);
    if (const InitCall* const init = InitOf(*node); init != nullptr && !call.empty()) {
      return "is in " + names_.Init(*init) +
             (init->made_before ? ", whose id has made a communicator before" : "");
    }
    if (!call.empty()) return "is in " + call;
    auto thread = process->threads.find(state.thread);
    if (thread != process->threads.end() && thread->second.last_call != Call::kOther) {
      text = std::string("last called ") + Name(thread->second.last_call);
      if (site != nullptr) *site = {id, thread->second.last_site};
    }
  }
  return text + Text(sleep);
}

OperationMember Describer::Member(int comm, int rank, const MemberSlot& slot) const {
  OperationMember member;
  member.rank = names_.MemberRank(comm, rank);
  const CommMember& who = graph_.matcher().comms()[comm].members[rank];
  member.site = {who.process, slot.site};
  switch (slot.state) {
    case SlotState::kNone:
      member.state = PartState::kNotCalled;
      if (who.aborted) {
        member.instead = "has aborted the communicator";
      } else if (who.left) {
        member.instead = "has destroyed the communicator";
      } else {
        member.instead =
            who.known ? Instead(who.process, &member.site) : "is not visible to gordian";
      }
      return member;
    case SlotState::kDone:
      member.state = PartState::kDone;
      return member;
    case SlotState::kAborted:
      member.instead = "has aborted the communicator";
      break;
    case SlotState::kCalled:
      break;
  }
  const Launch* launch = graph_.execution().FindLaunch(slot.launch);
  if (launch == nullptr || !launch->enqueued) {
    member.state =
        launch != nullptr && launch->in_group ? PartState::kInOpenGroup : PartState::kCalled;
    return member;
  }
  const Process& process = *graph_.execution().Find(launch->process);
  member.state = PartState::kAtHead;
  for (const StreamPosition& position : launch->positions) {
    auto it = process.streams.find(position.stream);
    if (it != process.streams.end() && it->second.soft + 1 < position.ordinal) {
      member.state = PartState::kEnqueued;
    }
  }
  // A captured operation's place on the stream shows only that its graph has had its turn.
  for (const GraphMarkerPair& pair : launch->graph_markers) {
    if (!pair.reached) member.state = PartState::kEnqueued;
  }
  return member;
}

std::vector<StuckOperation> Describer::Operations(const std::vector<uint32_t>& nodes) const {
  std::vector<StuckOperation> operations;
  const Matcher& matcher = graph_.matcher();
  std::set<std::tuple<int, int, int, uint64_t>> seen;
  auto add = [&](const Part& part) {
    if (part.ref.comm < 0 || operations.size() >= kMaxOperations) return;
    const bool collective = part.ref.kind == PartKind::kCollective;
    const bool sends = part.ref.kind == PartKind::kSend;
    const int source = collective ? -1 : sends ? part.ref.rank : part.ref.peer;
    const int target = collective ? -1 : sends ? part.ref.peer : part.ref.rank;
    if (!seen.insert({part.ref.comm, source, target, part.ref.sequence}).second) return;
    const Communicator& comm = matcher.comms()[part.ref.comm];
    StuckOperation operation;
    operation.op = names_.OperationName(part.signature.call, part.ref.comm);
    operation.comm = comm.uid;
    operation.comm_name = names_.CommName(part.ref.comm);
    operation.sequence = static_cast<int64_t>(part.ref.sequence);
    operation.bytes = Bytes(part.signature);
    if (collective) {
      const Instance* instance = matcher.FindInstance(part.ref.comm, part.ref.sequence);
      if (instance == nullptr) return;
      for (int r = 0; r < comm.nranks; ++r) {
        operation.members.push_back(Member(part.ref.comm, r, instance->members[r]));
      }
    } else {
      const Transfer* transfer = matcher.FindTransfer(part.ref);
      if (transfer == nullptr) return;
      operation.members = {Member(part.ref.comm, source, transfer->send),
                           Member(part.ref.comm, target, transfer->receive)};
    }
    operations.push_back(std::move(operation));
  };
  std::set<uint32_t> signals;
  std::set<CommUid> inits;
  for (uint32_t n : nodes) {
    const WaitNode& node = graph_.nodes()[n];
    if (const Launch* launch = graph_.execution().FindLaunch(node.launch)) {
      for (const Part& part : launch->parts) add(part);
    }
    for (const WaitNode::Edge& edge : node.out) {
      if (const Part* part = graph_.PartOf(edge)) add(*part);
      if (edge.reason == Reason::kSignal && graph_.nodes()[edge.to].kind == NodeKind::kSignals)
        signals.insert(edge.to);
    }
    auto init = graph_.matcher().inits().find(node.init);
    if (node.init == 0 || init == graph_.matcher().inits().end() ||
        !inits.insert(node.init).second || operations.size() >= kMaxOperations) {
      continue;
    }
    StuckOperation operation;
    operation.op = Name(init->second);
    operation.comm = init->second.uid;
    const int named = init->second.parent >= 0 ? init->second.parent : init->second.comm;
    if (named >= 0) operation.comm_name = names_.CommName(named);
    // A smaller communicator's rank is not what people call a rank.
    const bool spans = static_cast<int>(init->second.members.size()) >= names_.expected();
    for (size_t r = 0; r < init->second.members.size(); ++r) {
      const InitMember& who = init->second.members[r];
      OperationMember member;
      member.rank = who.called ? names_.Rank(who.process, who.device)
                    : named >= 0 && (init->second.parent >= 0 || spans)
                        ? names_.MemberRank(named, static_cast<int>(r))
                        : -1;
      member.state = who.done     ? PartState::kDone
                     : who.called ? PartState::kCalled
                                  : PartState::kNotCalled;
      member.site = {who.process, who.site};
      if (!who.called && named >= 0 && matcher.comms()[named].members[r].known) {
        member.instead = Instead(matcher.comms()[named].members[r].process, &member.site);
      }
      operation.members.push_back(std::move(member));
    }
    operations.push_back(std::move(operation));
  }
  for (uint32_t n : signals) {
    if (operations.size() < kMaxOperations) operations.push_back(Signals(graph_.nodes()[n]));
  }
  return operations;
}

StuckOperation Describer::Signals(const WaitNode& needs) const {
  const Launch& wait = *graph_.execution().FindLaunch(needs.launch);
  const SignalUse& use = wait.signal->uses[needs.ordinal];
  const Communicator& comm = graph_.matcher().comms()[wait.comm_index];
  StuckOperation operation;
  operation.op = Name(Call::kWaitSignal);
  operation.comm = comm.uid;
  operation.comm_name = names_.CommName(wait.comm_index);
  operation.sequence = static_cast<int64_t>(needs.sequence);
  MemberSlot waits{.state = SlotState::kCalled, .launch = wait.id, .site = wait.signal->site},
      sends;
  const auto line = comm.signals.find({use.peer, wait.signal->rank, use.channel});
  uint64_t left = line == comm.signals.end() ? 0 : line->second.sent.done;
  for (size_t i = 0;
       line != comm.signals.end() && i < line->second.sent.calls.size() && left < needs.sequence;
       ++i) {
    left += line->second.sent.calls[i].count;
    if (left < needs.sequence) continue;
    const Launch* const sender = graph_.execution().FindLaunch(line->second.sent.calls[i].launch);
    sends = {.state = SlotState::kCalled,
             .launch = line->second.sent.calls[i].launch,
             .site = sender == nullptr ? 0 : sender->signal->site};
  }
  operation.members = {Member(wait.comm_index, wait.signal->rank, waits),
                       Member(wait.comm_index, use.peer, sends)};
  return operation;
}

std::vector<FoundCommunicator> CommunicatorsOf(const Finding& finding, const Matcher& matcher,
                                               const Names& names) {
  std::vector<FoundCommunicator> found;
  const auto add = [&](CommUid uid, const std::string& name) {
    if (uid == 0 || std::any_of(found.begin(), found.end(), [&](const FoundCommunicator& known) {
          return known.comm == uid && known.name == name;
        })) {
      return;
    }
    const std::vector<Communicator>& comms = matcher.comms();
    for (int i = 0; i < static_cast<int>(comms.size()); ++i) {
      // The parts of a split share its uid.
      if (comms[i].uid != uid || names.CommName(i) != name) continue;
      FoundCommunicator& one = found.emplace_back();
      one.comm = uid;
      one.name = name;
      one.ranks = names.Members(i).ranks;
      one.size = comms[i].nranks;
      if (const int maker = MakerOf(comms[i]); maker >= 0) {
        const CommMember& member = comms[i].members[static_cast<size_t>(maker)];
        one.made_by = names.MemberRank(i, maker);
        one.made_at = {member.process, member.made_at};
      }
    }
  };
  for (const WaitEdge& edge : finding.cycle) add(edge.comm, edge.comm_name);
  for (const StuckOperation& operation : finding.operations)
    add(operation.comm, operation.comm_name);
  return found;
}

}  // namespace gordian::model
