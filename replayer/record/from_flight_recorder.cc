#include "replayer/record/from_flight_recorder.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "analyzer/importers/flight_calls.h"
#include "analyzer/importers/flight_verdict.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/verdict.h"
#include "common/version.h"
#include "replayer/record/signature.h"
#include "replayer/record/unfinished.h"
#include "replayer/write/identifier.h"

namespace gordian::replayer {
namespace {

using importers::FlightCalls;
using importers::FlightEntry;
using importers::FlightGroup;
using importers::FlightOperation;
using importers::FlightRank;
using importers::Made;

// Larger sizes change nothing: NCCL uses its Simple protocol, and buffers no send as a whole.
constexpr uint64_t kMostBytes = uint64_t{16} << 20;
// The emulator's default number of devices.
constexpr size_t kUsualDevices = 8;
constexpr uint8_t kSum = 0;

// Which buffer a call's count refers to.
enum class Counted : uint8_t { kInput, kOutput, kInputOfEach };

struct Known {
  std::string_view name;  // as the dump has it, without "nccl:"
  OpKind kind;
  Counted counted;
};
constexpr Known kKnown[] = {
    {"all_reduce", OpKind::kAllReduce, Counted::kInput},
    {"all_reduce_barrier", OpKind::kAllReduce, Counted::kInput},
    {"allreduce_coalesced", OpKind::kAllReduce, Counted::kInput},
    {"broadcast", OpKind::kBroadcast, Counted::kInput},
    {"_broadcast_oop", OpKind::kBroadcast, Counted::kInput},
    {"reduce", OpKind::kReduce, Counted::kInput},
    {"_reduce_oop", OpKind::kReduce, Counted::kInput},
    {"all_gather", OpKind::kAllGather, Counted::kInput},
    {"_all_gather_base", OpKind::kAllGather, Counted::kInput},
    {"all_gather_into_tensor_coalesced", OpKind::kAllGather, Counted::kInput},
    {"reduce_scatter", OpKind::kReduceScatter, Counted::kOutput},
    {"_reduce_scatter_base", OpKind::kReduceScatter, Counted::kOutput},
    {"reduce_scatter_tensor_coalesced", OpKind::kReduceScatter, Counted::kOutput},
    {"all_to_all", OpKind::kAllToAll, Counted::kInputOfEach},
    {"gather", OpKind::kGather, Counted::kInput},
    {"scatter", OpKind::kScatter, Counted::kOutput},
    {"send", OpKind::kSend, Counted::kInput},
    {"recv", OpKind::kRecv, Counted::kOutput},
};

const Known* Find(const std::string& name) {
  const auto found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Known& known) { return known.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
}

struct Type {
  std::string_view name;  // c10::toString of the tensor's
  uint8_t nccl;           // ncclDataType_t
};
constexpr Type kTypes[] = {
    {"Char", 0},     {"Byte", 1},           {"Bool", 1},        {"Int", 2},
    {"Long", 4},     {"Half", 6},           {"Float", 7},       {"Double", 8},
    {"BFloat16", 9}, {"Float8_e4m3fn", 10}, {"Float8_e5m2", 11}};

const Type* TypeOf(const std::string& name) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const Type& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

// Whether data comes from the root: every other member needs it.
bool GivesFromRoot(OpKind kind) {
  return model::ContractOf(CallOf(kind)).other.needs == model::Needs::kOne;
}

std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Calls of one rank that reach NCCL together: one call, or a batch.
struct Unit {
  std::vector<std::pair<const FlightEntry*, FlightOperation>> calls;
  bool batch = false;
};

// Where operations queue up: a communicator, with one stream at each member.
struct Queue {
  std::string group;
  int low = -1, high = -1;  // ranks of a pair; -1: the whole group
  friend auto operator<=>(const Queue&, const Queue&) = default;
};

class FlightSchedule {
 public:
  FlightSchedule(const std::vector<importers::FlightDump>& dumps, const std::string& source)
      : calls_(dumps), verdict_(importers::DecideFlightDumps(dumps)), source_(source) {
    for (const auto& [key, group] : calls_.groups()) ++described_[Described(group)];
  }

  Extracted Run() {
    Extracted extracted;
    if (!Hangs()) {
      extracted.refused.push_back("the dumps show no hang: " + verdict_.main.summary);
      return extracted;
    }
    for (const auto& [number, rank] : calls_.ranks()) ChooseCalls(number, rank);
    ChooseOrder();
    MakeRanksAndComms();
    for (size_t place = 0; place < numbers_.size(); ++place) WriteRank(place);
    MarkWitness();
    Originate();
    extracted.schedule = std::move(schedule_);
    extracted.refused.assign(refused_.begin(), refused_.end());
    return extracted;
  }

 private:
  bool Hangs() const {
    switch (verdict_.main.verdict) {
      case model::VerdictKind::kDeadlock:
      case model::VerdictKind::kMismatch:
      case model::VerdictKind::kRankNotJoined:
        return true;
      default:
        return false;
    }
  }
  bool Mismatch() const { return verdict_.main.verdict == model::VerdictKind::kMismatch; }

  // An operation that a rank has open but whose other side has completed is over, though its dump
  // does not say so: no member completes a collective before all have begun, except one with a
  // root. If the ends of a pair number their operations separately, nothing is known, and
  // operations open at both ends match from the first on.
  bool IsOver(int number, const FlightOperation& operation, OpKind kind) const {
    bool done = false, owed = false;
    if (operation.p2p && !calls_.InLockstep(operation.group)) return false;
    for (const int member : calls_.Members(operation)) {
      if (member == number && calls_.At(member, operation) == Made::kOpen) continue;
      const Made made = calls_.At(member, operation);
      // The dump's ring buffer has dropped the call, so nothing shows that it waits.
      done = done || made == Made::kDone || (operation.p2p && made == Made::kCalled);
      owed = owed || made == Made::kNotCalled || made == Made::kUnknown;
    }
    return done && !(HasRoot(kind) && owed);
  }

  void ChooseCalls(int number, const FlightRank& rank) {
    std::vector<Unit>& units = units_[number];
    const FlightEntry* last = nullptr;
    for (const FlightEntry& entry : rank.dump->entries) {
      const FlightEntry* const before = std::exchange(last, &entry);
      if (entry.completed) continue;
      const bool together = before != nullptr && before->group == entry.group &&
                            before->p2p == entry.p2p && before->sequence == entry.sequence;
      if (entry.operation == importers::kFlightEndOfBatch) {
        if (together && !units.empty() && units.back().calls.back().first == before) {
          units.back().batch = true;
        } else if (!together) {
          notes_.insert("left out: a batch whose operations its dump does not name");
        }
        continue;
      }
      const Known* const known = Find(entry.operation);
      if (known == nullptr) {
        refused_.insert(entry.operation + " is open, and replays do not support it");
        continue;
      }
      FlightOperation operation;
      if (!calls_.OperationOf(number, entry, &operation)) {
        refused_.insert("a dump does not name the peer of " + entry.operation);
        continue;
      }
      if (operation.low >= 0 && operation.low == operation.high) {
        notes_.insert("left out: sends and receives of a rank with itself");
        continue;
      }
      if (IsOver(number, operation, known->kind)) {
        ++over_;
        continue;
      }
      if (together && !units.empty() && units.back().calls.back().first == before) {
        units.back().batch = true;
      } else {
        units.emplace_back();
      }
      units.back().calls.emplace_back(&entry, operation);
    }
    AddDone(number);
  }

  // Operations that this rank has completed while others wait in them: roots complete early, and a
  // dump's buffer is finite. Their position among the rank's calls is unknown; puts them first.
  void AddDone(int number) {
    std::vector<Unit> front;
    for (const FlightOperation& operation : calls_.operations()) {
      if (operation.p2p) continue;
      const Made made = calls_.At(number, operation);
      if (made != Made::kDone && made != Made::kCalled) continue;
      const std::vector<int> members = calls_.Members(operation);
      const FlightEntry* const entry = calls_.AnyEntry(operation);
      const Known* const known = entry == nullptr ? nullptr : Find(entry->operation);
      const bool member = std::find(members.begin(), members.end(), number) != members.end();
      const bool open = std::any_of(members.begin(), members.end(),
                                    [&](int m) { return calls_.At(m, operation) == Made::kOpen; });
      if (!member || !open || known == nullptr || IsOver(-1, operation, known->kind)) continue;
      front.push_back({{{entry, operation}}, false});
      notes_.insert(
          "guessed: a rank makes calls that its dump no longer holds before its "
          "others, with another member's arguments");
    }
    std::vector<Unit>& units = units_[number];
    units.insert(units.begin(), front.begin(), front.end());
  }

  // If an operation is open although all its members have called it, and no earlier one of its
  // group holds it up, something else does. Then assumes that all calls of a rank are synchronous.
  void ChooseOrder() {
    stuck_ = calls_.Stuck(FlightCalls::Order::kGroup);
    size_t unexplained = 0;
    for (const auto& [number, units] : units_) {
      for (const Unit& unit : units) {
        for (const auto& [entry, operation] : unit.calls) {
          unexplained +=
              calls_.At(number, operation) == Made::kOpen && !stuck_.contains({number, operation});
        }
      }
    }
    chained_ = unexplained > 0;
    if (!chained_) return;
    stuck_ = calls_.Stuck(FlightCalls::Order::kCalls);
    guesses_.push_back(
        "guessed: each operation waits for the earlier calls of its rank, as PyTorch's synchronous "
        "calls do; otherwise " +
        Plural(unexplained, "operation") + " would not be open");
  }

  Queue QueueOf(const Unit& unit) const {
    const FlightOperation& operation = unit.calls.front().second;
    if (operation.p2p && !unit.batch) return {operation.group, operation.low, operation.high};
    return {operation.group, -1, -1};
  }
  std::vector<int> MembersOf(const Queue& queue) const {
    if (queue.low >= 0) return {queue.low, queue.high};
    const auto group = calls_.groups().find(queue.group);
    return group == calls_.groups().end() ? std::vector<int>() : group->second.ranks;
  }
  static std::string Described(const FlightGroup& group) {
    return Identifier(group.description.empty() ? "group_" + group.name : group.description);
  }

  void MakeRanksAndComms() {
    std::map<Queue, int64_t> queues;  // and the lowest number in each
    for (const auto& [number, units] : units_) {
      for (const Unit& unit : units) {
        const int64_t sequence = unit.calls.front().second.sequence;
        for (const auto& [entry, operation] : unit.calls) {
          if (const OpKind kind = Find(entry->operation)->kind;
              IsTransfer(kind) || IsPairwise(kind))
            pairwise_.insert(QueueOf(unit));
        }
        const auto [found, added] = queues.try_emplace(QueueOf(unit), sequence);
        found->second = std::min(found->second, sequence);
      }
    }
    std::set<int> numbers;
    for (const auto& [queue, sequence] : queues) {
      const std::vector<int> members = MembersOf(queue);
      if (members.empty())
        refused_.insert("the dumps do not name the members of group " +
                        queue.group.substr(0, queue.group.find('/')) + " are");
      numbers.insert(members.begin(), members.end());
    }
    for (const int number : numbers) {
      place_of_[number] = static_cast<int>(numbers_.size());
      numbers_.push_back(number);
      RankProgram& program = schedule_.ranks.emplace_back();
      program.rank = number;
      program.device = place_of_[number];
    }
    for (const auto& [queue, sequence] : queues) {
      Communicator comm;
      const auto group = calls_.groups().find(queue.group);
      if (group == calls_.groups().end()) continue;  // refused above
      std::string name = Described(group->second);
      if (described_.at(name) > 1) name += "_" + Identifier("pg" + group->second.name);
      if (queue.low >= 0)
        name += "_" + std::to_string(queue.low) + "_" + std::to_string(queue.high);
      comm.name = names_of_comms_.Take(name);
      comm.label = group->second.description;
      for (const int member : MembersOf(queue)) comm.members.push_back(place_of_.at(member));
      comm.ready = true;
      // A group's first operation has number 1; operations before this one have connected the
      // members.
      comm.connected = sequence > 1 && queue.low < 0;
      if (sequence > 1 && (queue.low >= 0 || pairwise_.contains(queue))) {
        const int size = static_cast<int>(comm.members.size());
        for (int from = 0; from < size; ++from) {
          for (int to = 0; to < size; ++to) {
            if (from != to) comm.connected_pairs.emplace_back(from, to);
          }
        }
      }
      comm_of_[queue] = static_cast<int>(schedule_.comms.size());
      schedule_.comms.push_back(std::move(comm));
    }
  }

  Op NewOp(OpKind kind) {
    Op op;
    op.id = next_id_++;
    op.kind = kind;
    return op;
  }

  void WriteRank(size_t place) {
    const int number = numbers_[place];
    RankProgram& program = schedule_.ranks[place];
    std::vector<Op>& ops = program.threads.emplace_back().ops;
    std::map<int, int> streams;  // by communicator
    int last_stream = -1;
    bool waits = false;
    for (const Unit& unit : units_[number]) {
      const auto comm = comm_of_.find(QueueOf(unit));
      if (comm == comm_of_.end()) continue;
      const auto [queue, added] =
          streams.try_emplace(comm->second, static_cast<int>(streams.size()));
      const int stream = queue->second;
      if (added)
        program.streams.push_back({.name = "s" + std::to_string(streams.size()),
                                   .kind = StreamKind::kNonBlocking,
                                   .device = 0});
      if (chained_ && last_stream >= 0 && last_stream != stream) {
        Op record = NewOp(OpKind::kEventRecord), wait = NewOp(OpKind::kStreamWaitEvent);
        record.stream = last_stream;
        wait.stream = stream;
        record.event = wait.event = program.events++;
        ops.push_back(std::move(record));
        ops.push_back(std::move(wait));
      }
      last_stream = stream;
      if (unit.batch) ops.push_back(NewOp(OpKind::kGroupStart));
      for (const auto& [entry, operation] : unit.calls) {
        waits = waits || stuck_.contains({number, operation});
        Op op = Translate(number, *entry, operation, comm->second);
        op.stream = stream;
        op.in_group = unit.batch;
        operation_of_.emplace(op.id, operation);
        ops.push_back(std::move(op));
      }
      if (unit.batch) ops.push_back(NewOp(OpKind::kGroupEnd));
    }
    // A rank that waits for nothing has gone on in the job, to where the dumps do not show; at the
    // end of its replay, other ranks would seem to wait for an ended rank.
    if (waits || (Mismatch() && !ops.empty())) return;
    ops.push_back(NewOp(OpKind::kSleep));
    ops.back().witness = true;
    sleeping_.push_back(number);
    if (!calls_.ranks().contains(number)) no_dump_.push_back(number);
  }

  Op Translate(int number, const FlightEntry& entry, const FlightOperation& operation, int comm) {
    const Known& known = *Find(entry.operation);
    Op op = NewOp(known.kind);
    op.comm = comm;
    op.site = entry.site;
    op.symbol = entry.operation;
    const Type* type = TypeOf(entry.type);
    if (type == nullptr) {
      notes_.insert(
          (entry.type.empty() ? "elements without a type" : "elements of type " + entry.type) +
          ": the replay uses bytes");
      type = TypeOf("Byte");
    }
    op.datatype = type->nccl;
    const size_t members = schedule_.comms[static_cast<size_t>(comm)].members.size();
    op.count = Count(known, entry, operation, *type, members);
    if (Reduces(known.kind)) op.reduce_op = kSum;
    if (HasRoot(known.kind)) op.root_or_peer = Root(operation, known.kind);
    if (IsTransfer(known.kind)) {
      const std::vector<int>& places = schedule_.comms[static_cast<size_t>(comm)].members;
      const int peer = operation.low == number ? operation.high : operation.low;
      op.root_or_peer = static_cast<int>(
          std::find(places.begin(), places.end(), place_of_.at(peer)) - places.begin());
    }
    return op;
  }

  uint64_t Count(const Known& known, const FlightEntry& entry, const FlightOperation& operation,
                 const Type& type, size_t members) {
    int64_t elements = known.counted == Counted::kOutput ? entry.elements_out : entry.elements_in;
    if (known.counted == Counted::kInputOfEach) {
      // Each member has its own splits, but a replay needs one count for all.
      for (const int member : calls_.Members(operation)) {
        const auto rank = calls_.ranks().find(member);
        if (rank == calls_.ranks().end()) continue;
        const auto other = rank->second.entries.find(operation);
        if (other != rank->second.entries.end())
          elements = std::min(elements, other->second->elements_in);
      }
      elements = std::max<int64_t>(elements / static_cast<int64_t>(members), elements < 0 ? -1 : 1);
      notes_.insert("guessed: all-to-alls have equal splits; the dumps do not hold the job's");
    }
    if (elements < 0) {
      notes_.insert("guessed: one element for sizes that the dumps do not give");
      elements = 1;
    }
    const uint64_t most = kMostBytes / model::DatatypeBytes(type.nccl) /
                          model::LargestBuffer(CallOf(known.kind), /*count=*/1, members);
    if (static_cast<uint64_t>(elements) > most) {
      notes_.insert("sizes above 16 MiB are reduced to that: NCCL moves them in the same way");
      return most;
    }
    return static_cast<uint64_t>(elements);
  }

  // Every rank that has it open waits for one that has not called it: if the root sends the data,
  // that one is the root; if the root receives it, a waiting rank is.
  int Root(const FlightOperation& operation, OpKind kind) {
    const std::vector<int> members = calls_.Members(operation);
    roots_guessed_ = true;
    for (size_t i = 0; i < members.size(); ++i) {
      const Made made = calls_.At(members[i], operation);
      const bool owes = made == Made::kNotCalled || made == Made::kUnknown;
      const bool done = made == Made::kDone;
      if (GivesFromRoot(kind) ? owes || done : made == Made::kOpen) return static_cast<int>(i);
    }
    return 0;
  }

  // Marks what the main finding names: the edges of its cycle, or the first operation that some
  // rank has not joined.
  void MarkWitness() {
    const model::Finding& main = verdict_.main;
    std::set<std::tuple<int, model::CommUid, int64_t>> named;  // rank -1: all members
    for (const model::WaitEdge& edge : main.cycle)
      named.emplace(edge.rank, edge.comm, edge.sequence);
    if (main.cycle.empty() && !main.operations.empty())
      named.emplace(-1, main.operations[0].comm, main.operations[0].sequence);
    for (RankProgram& program : schedule_.ranks) {
      std::vector<Op>& ops = program.threads[0].ops;
      size_t first = ops.size(), last = 0;
      for (size_t i = 0; i < ops.size(); ++i) {
        const auto of = operation_of_.find(ops[i].id);
        if (of == operation_of_.end()) continue;
        const model::CommUid comm = std::hash<std::string>{}(of->second.group);
        ops[i].witness = named.contains({-1, comm, of->second.sequence}) ||
                         named.contains({program.rank, comm, of->second.sequence});
        if (!ops[i].witness) continue;
        first = std::min(first, i);
        last = i;
      }
      // Operations between two that wait for each other pass the order on from one to the other.
      for (size_t i = first; chained_ && i < last; ++i) ops[i].witness = true;
    }
  }

  void Originate() {
    Origin& origin = schedule_.origin;
    const model::Finding& main = verdict_.main;
    origin.signature = SignatureOf(verdict_);
    origin.signature.edges.clear();  // the dumps show which ranks wait, but not the kinds of edges
    origin.check = main.check;
    origin.confidence = model::Name(main.confidence);
    origin.summary = main.summary;
    origin.source = source_;
    origin.gordian_version = std::string(kVersion);
    origin.ranks = static_cast<size_t>(calls_.expected());
    origin.operations = calls_.entries();
    origin.records = calls_.entries();
    std::vector<std::string>& notes = origin.notes;
    notes.push_back(
        "made from Flight Recorder dumps, which hold no streams, events or host waits: no more "
        "than "
        "suspected");
    notes.push_back(
        "guessed: one stream for each process group, and for each pair of single sends and "
        "receives, "
        "as in PyTorch; "
        "one thread a rank, which waits for the device after its last call");
    for (const std::string& guess : guesses_) notes.push_back("guessed: " + guess);
    if (roots_guessed_)
      notes.push_back("guessed: roots, so that the ranks that wait in the dumps wait here");
    if (!sleeping_.empty()) {
      notes.push_back("guessed: " + model::RankList(sleeping_) +
                      (sleeping_.size() == 1 ? " is" : " are") + " in the program's own code and " +
                      (sleeping_.size() == 1 ? "calls" : "call") + " nothing more");
    }
    if (!no_dump_.empty())
      notes.push_back("guessed: " + model::RankList(no_dump_) +
                      " left no dump and has called nothing");
    notes.push_back("guessed: every reduction is a sum; the dumps do not give the operator");
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    if (over_ > 0) {
      notes.push_back(Plural(over_, "call") + " open in a dump, but completed by another member, " +
                      (over_ == 1 ? "is" : "are") + " left out");
    }
    if (schedule_.ranks.size() > kUsualDevices) {
      schedule_.environment.emplace_back("GORDIAN_EMU_DEVICES",
                                         std::to_string(schedule_.ranks.size()));
    }
  }

  const FlightCalls calls_;
  const model::Verdict verdict_;
  const std::string source_;
  std::map<std::string, int> described_;  // how many groups would get a name
  std::map<int, std::vector<Unit>> units_;
  std::set<std::pair<int, FlightOperation>> stuck_;
  bool chained_ = false;
  bool roots_guessed_ = false;
  size_t over_ = 0;
  std::vector<int> numbers_;     // ranks of the job, by index in Schedule::ranks
  std::map<int, int> place_of_;  // the inverse
  std::map<Queue, int> comm_of_;
  std::set<Queue> pairwise_;  // that have operations between pairs
  std::map<OpId, FlightOperation> operation_of_;
  std::vector<int> sleeping_, no_dump_;
  std::vector<std::string> guesses_;
  std::set<std::string> notes_, refused_;
  UniqueNames names_of_comms_;
  Schedule schedule_;
  OpId next_id_ = 1;
};

}  // namespace

Extracted ScheduleFlightDumps(const std::vector<importers::FlightDump>& dumps,
                              const std::string& source) {
  return FlightSchedule(dumps, source).Run();
}

bool IsHangOfDumps(const Signature& told, const Signature& of_dumps) {
  if (told.verdict == of_dumps.verdict) return true;
  return of_dumps.verdict == model::Name(model::VerdictKind::kRankNotJoined) &&
         told.verdict == model::Name(model::VerdictKind::kHostBlocked);
}

}  // namespace gordian::replayer
