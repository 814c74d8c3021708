#include "replayer/record/schedule.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace gordian::replayer {
namespace {

// Makes the lines of Check().
class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule) {}

  std::vector<std::string> Run() {
    CheckComms();
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      for (size_t thread = 0; thread < schedule_.ranks[rank].threads.size(); ++thread) {
        at_ = "rank " + std::to_string(rank) + ", thread " + std::to_string(thread) + ", ";
        CheckThread(static_cast<int>(rank), schedule_.ranks[rank].threads[thread]);
      }
    }
    for (const auto& [what, after] : gates_) {
      if (!ids_.contains(after)) {
        problems_.push_back(what + ": waits for operation " + std::to_string(after) +
                            ", which does not exist");
      }
    }
    return std::move(problems_);
  }

 private:
  void CheckComms() {
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < schedule_.comms.size(); ++i) {
      const Communicator& comm = schedule_.comms[i];
      at_ = "communicator " + std::to_string(i) + ": ";
      if (!names.insert(comm.name).second) Add("another communicator has its name, " + comm.name);
      if (comm.parent >= static_cast<int>(i)) Add("its parent comes after it");
      for (const int member : comm.members) {
        if (member >= static_cast<int>(schedule_.ranks.size()))
          Add("has a member that is no rank of the schedule");
        if (member < 0 && comm.ready) Add("is ready, but has an unknown member");
      }
      for (const auto& [from, to] : comm.connected_pairs) {
        if (!IsMember(comm, from) || !IsMember(comm, to))
          Add("connects members that it does not have");
      }
      if (comm.ready && comm.parent >= 0 &&
          !schedule_.comms[static_cast<size_t>(comm.parent)].ready) {
        Add("is ready before its parent");
      }
    }
  }

  void CheckThread(int rank, const ThreadProgram& thread) {
    bool in_group = false;
    bool ended = false;
    std::unordered_set<int> capturing;
    for (const Op& op : thread.ops) {
      what_ = std::string(Name(op.kind)) + " (" + std::to_string(op.id) + "): ";
      if (op.id == 0 || !ids_.insert(op.id).second) Add("its id is 0, or another operation has it");
      if (ended) Add("comes after the end of its thread");
      ended = ended || EndsThread(op.kind);
      if (op.kind == OpKind::kGroupStart || op.kind == OpKind::kGroupEnd) {
        if (in_group == (op.kind == OpKind::kGroupStart)) Add("groups are not nested here");
        in_group = op.kind == OpKind::kGroupStart;
      } else if (op.in_group != in_group) {
        Add(in_group ? "is inside an open group without belonging to it"
                     : "belongs to a group that is not open");
      }
      CheckComm(rank, op);
      CheckPlaces(schedule_.ranks[static_cast<size_t>(rank)], op);
      if (op.kind == OpKind::kCaptureBegin && !capturing.insert(op.graph).second)
        Add("captures twice");
      if (op.kind == OpKind::kCaptureEnd && capturing.erase(op.graph) == 0) Add("ends no capture");
      for (const Gate& gate : op.gates) gates_.emplace_back(at_ + what_, gate.after);
    }
    what_.clear();
    if (in_group && !ended && (thread.ops.empty() || !thread.ops.back().unfinished))
      Add("leaves a group open");
    if (!capturing.empty()) Add("leaves a capture open");
  }

  void CheckComm(int rank, const Op& op) {
    const bool needs = IsOperation(op.kind) ||
                       (op.kind >= OpKind::kCommInit && op.kind <= OpKind::kWindowRegister &&
                        op.kind != OpKind::kCommSplit);
    if (op.kind == OpKind::kCommSplit) CheckMember(rank, op.parent);
    if (op.comm < 0) {
      if (needs) Add("names no communicator");
      return;
    }
    const Communicator* const comm = CheckMember(rank, op.comm);
    if (comm == nullptr) return;
    if ((op.kind == OpKind::kCommInit || op.kind == OpKind::kCommSplit) && comm->ready)
      Add("makes a communicator that is ready already");
    if (IsTransfer(op.kind) && !IsMember(*comm, op.root_or_peer)) Add("its peer is no member");
  }

  const Communicator* CheckMember(int rank, int place) {
    if (place < 0 || place >= static_cast<int>(schedule_.comms.size())) {
      Add("its communicator does not exist");
      return nullptr;
    }
    const Communicator& comm = schedule_.comms[static_cast<size_t>(place)];
    if (MemberOf(comm, rank) < 0) Add("the rank is no member of " + comm.name);
    return &comm;
  }

  void CheckPlaces(const RankProgram& rank, const Op& op) {
    const bool on_stream =
        IsOperation(op.kind) || (op.kind >= OpKind::kEventRecord && op.kind <= OpKind::kStreamSync);
    if (on_stream ? op.stream < 0 || op.stream >= static_cast<int>(rank.streams.size())
                  : op.stream >= static_cast<int>(rank.streams.size())) {
      Add("its stream does not exist");
    }
    const bool of_event = op.kind == OpKind::kEventRecord || op.kind == OpKind::kStreamWaitEvent ||
                          op.kind == OpKind::kEventSync;
    if (op.kind == OpKind::kPoll && (op.event < 0) == (op.stream < 0))
      Add("polls an event or a stream");
    if (op.event >= rank.events || (of_event && op.event < 0)) Add("its event does not exist");
    const bool of_graph = op.kind >= OpKind::kGraphLaunch && op.kind <= OpKind::kCaptureEnd;
    if (of_graph && (op.graph < 0 || op.graph >= rank.graphs)) Add("its graph does not exist");
  }

  static bool IsMember(const Communicator& comm, int place) {
    return place >= 0 && place < static_cast<int>(comm.members.size());
  }
  void Add(const std::string& problem) { problems_.push_back(at_ + what_ + problem); }

  const Schedule& schedule_;
  std::string at_, what_;
  std::unordered_set<OpId> ids_;
  std::vector<std::pair<std::string, OpId>> gates_;
  std::vector<std::string> problems_;
};

}  // namespace

const char* Name(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return "AllReduce";
    case OpKind::kAllGather:
      return "AllGather";
    case OpKind::kReduceScatter:
      return "ReduceScatter";
    case OpKind::kBroadcast:
      return "Broadcast";
    case OpKind::kReduce:
      return "Reduce";
    case OpKind::kAllToAll:
      return "AllToAll";
    case OpKind::kGather:
      return "Gather";
    case OpKind::kScatter:
      return "Scatter";
    case OpKind::kSend:
      return "Send";
    case OpKind::kRecv:
      return "Recv";
    case OpKind::kGroupStart:
      return "GroupStart";
    case OpKind::kGroupEnd:
      return "GroupEnd";
    case OpKind::kCommInit:
      return "CommInit";
    case OpKind::kCommSplit:
      return "CommSplit";
    case OpKind::kCommFinalize:
      return "CommFinalize";
    case OpKind::kCommDestroy:
      return "CommDestroy";
    case OpKind::kCommAbort:
      return "CommAbort";
    case OpKind::kWindowRegister:
      return "WindowRegister";
    case OpKind::kEventRecord:
      return "EventRecord";
    case OpKind::kStreamWaitEvent:
      return "StreamWaitEvent";
    case OpKind::kKernel:
      return "Kernel";
    case OpKind::kHostFunction:
      return "HostFunction";
    case OpKind::kGraphLaunch:
      return "GraphLaunch";
    case OpKind::kCaptureBegin:
      return "CaptureBegin";
    case OpKind::kCaptureEnd:
      return "CaptureEnd";
    case OpKind::kStreamSync:
      return "StreamSync";
    case OpKind::kEventSync:
      return "EventSync";
    case OpKind::kDeviceSync:
      return "DeviceSync";
    case OpKind::kFree:
      return "Free";
    case OpKind::kCopy:
      return "Copy";
    case OpKind::kPoll:
      return "Poll";
    case OpKind::kSleep:
      return "Sleep";
    case OpKind::kSpin:
      return "Spin";
    case OpKind::kExit:
      return "Exit";
    case OpKind::kKill:
      return "Kill";
    case OpKind::kStop:
      return "Stop";
  }
  return "?";
}

std::string Describe(const Signature& signature) {
  std::string text;
  for (const std::string& edge : signature.edges) text += (text.empty() ? " (" : ", ") + edge;
  return signature.verdict + text + (text.empty() ? "" : ")");
}

int MemberOf(const Communicator& comm, int rank) {
  const auto found = std::find(comm.members.begin(), comm.members.end(), rank);
  return found == comm.members.end() ? -1 : static_cast<int>(found - comm.members.begin());
}

OpId NextId(const Schedule& schedule) {
  OpId next = 1;
  ForEachOp(schedule, [&](size_t, size_t, const Op& op) { next = std::max(next, op.id + 1); });
  return next;
}

size_t CountOperations(const Schedule& schedule) {
  size_t count = 0;
  ForEachOp(schedule, [&](size_t, size_t, const Op& op) {
    count += IsOperation(op.kind) && !op.not_reached;
  });
  return count;
}

size_t CountCalls(const Schedule& schedule) {
  size_t count = 0;
  ForEachOp(schedule, [&](size_t, size_t, const Op& op) { count += !op.not_reached; });
  return count;
}

void DropDanglingGates(const Schedule& before, Schedule* after) {
  std::unordered_set<OpId> left;
  for (const RankProgram& rank : after->ranks) {
    for (const ThreadProgram& thread : rank.threads) {
      for (const Op& op : thread.ops) left.insert(op.id);
    }
  }
  std::unordered_map<OpId, OpId>
      instead;  // for each removed one: the last remaining one before it; 0: none
  for (const RankProgram& rank : before.ranks) {
    for (const ThreadProgram& thread : rank.threads) {
      OpId last = 0;
      for (const Op& op : thread.ops) {
        if (left.contains(op.id)) {
          last = op.id;
        } else {
          instead[op.id] = last;
        }
      }
    }
  }
  for (RankProgram& rank : after->ranks) {
    for (ThreadProgram& thread : rank.threads) {
      std::unordered_map<OpId, size_t> place;
      for (size_t i = 0; i < thread.ops.size(); ++i) place[thread.ops[i].id] = i;
      for (size_t i = 0; i < thread.ops.size(); ++i) {
        std::vector<Gate> gates;
        for (Gate gate : thread.ops[i].gates) {
          if (!left.contains(gate.after)) {
            const auto found = instead.find(gate.after);
            // Earlier calls of its thread had returned when it was called.
            gate = {.after = found == instead.end() ? 0 : found->second,
                    .moment = Gate::Moment::kReturned};
          }
          const auto own = place.find(gate.after);
          const bool said = std::any_of(gates.begin(), gates.end(), [&](const Gate& other) {
            return other.after == gate.after && other.moment >= gate.moment;
          });
          if (gate.after != 0 && !said && (own == place.end() || own->second > i))
            gates.push_back(gate);
        }
        thread.ops[i].gates = std::move(gates);
      }
    }
  }
}

std::vector<std::string> Check(const Schedule& schedule) { return Checker(schedule).Run(); }

}  // namespace gordian::replayer
