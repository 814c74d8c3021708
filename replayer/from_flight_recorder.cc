#include "replayer/from_flight_recorder.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "analyzer/graph/names.h"
#include "analyzer/graph/verdict.h"
#include "analyzer/importers/flight_calls.h"
#include "analyzer/importers/flight_verdict.h"
#include "common/version.h"
#include "replayer/identifier.h"
#include "replayer/signature.h"
#include "replayer/unfinished.h"

namespace gordian::replayer {
namespace {

using importers::FlightCalls;
using importers::FlightEntry;
using importers::FlightGroup;
using importers::FlightOperation;
using importers::FlightRank;
using importers::Made;

// More moves no other way: NCCL uses its Simple protocol, and no send is buffered whole.
constexpr uint64_t kMostBytes = uint64_t{16} << 20;
// The emulator has as many devices unless it is told.
constexpr size_t kUsualDevices = 8;
constexpr uint8_t kSum = 0;

// What a call's count is counted in.
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
constexpr std::string_view kEndOfBatch = "coalesced";

const Known* Find(const std::string& name) {
  const auto found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Known& known) { return known.name == name; });
  return found == std::end(kKnown) ? nullptr : found;
}

struct Type {
  std::string_view name;  // c10::toString of the tensor's
  uint8_t nccl;           // ncclDataType_t
  uint64_t bytes;
};
constexpr Type kTypes[] = {
    {"Char", 0, 1},     {"Byte", 1, 1},           {"Bool", 1, 1},        {"Int", 2, 4},
    {"Long", 4, 8},     {"Half", 6, 2},           {"Float", 7, 4},       {"Double", 8, 8},
    {"BFloat16", 9, 2}, {"Float8_e4m3fn", 10, 1}, {"Float8_e5m2", 11, 1}};

const Type* TypeOf(const std::string& name) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const Type& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

bool Scatters(OpKind kind) { return kind == OpKind::kBroadcast || kind == OpKind::kScatter; }

std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Calls of one rank that go to NCCL together: one, or those of a batch.
struct Unit {
  std::vector<std::pair<const FlightEntry*, FlightOperation>> calls;
  bool batch = false;
};

// Where operations are queued up behind each other: a communicator, and at each of its members a
// stream.
struct Queue {
  std::string group;
  int low = -1, high = -1;  // ranks of a pair; -1: the whole group's
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
      extracted.refused.push_back("the dumps show nothing that hangs: " + verdict_.main.summary);
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
      case graph::VerdictKind::kDeadlock:
      case graph::VerdictKind::kMismatch:
      case graph::VerdictKind::kRankNotJoined:
        return true;
      default:
        return false;
    }
  }
  bool Mismatch() const { return verdict_.main.verdict == graph::VerdictKind::kMismatch; }

  // An operation that a rank has open and whose other side is through with it is over, and its dump
  // does not know: of a collective nobody is done before all have begun, but for those with a root.
  // Where both ends of a pair count by themselves nothing is known, and what is open at both is the
  // same from the first on.
  bool IsOver(int number, const FlightOperation& operation, OpKind kind) const {
    bool done = false, owed = false;
    if (operation.p2p && !calls_.InLockstep(operation.group)) return false;
    for (const int member : calls_.Members(operation)) {
      if (member == number && calls_.At(member, operation) == Made::kOpen) continue;
      const Made made = calls_.At(member, operation);
      // A call that the ring buffer of the dump has dropped is not known to wait.
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
      if (entry.operation == kEndOfBatch) {
        if (together && !units.empty() && units.back().calls.back().first == before) {
          units.back().batch = true;
        } else if (!together) {
          notes_.insert("a batch whose operations a dump does not name is left out");
        }
        continue;
      }
      const Known* const known = Find(entry.operation);
      if (known == nullptr) {
        refused_.insert(entry.operation + " is open, which replays do not make");
        continue;
      }
      FlightOperation operation;
      if (!calls_.OperationOf(number, entry, &operation)) {
        refused_.insert("a dump does not say who the peer of " + entry.operation + " is");
        continue;
      }
      if (operation.low >= 0 && operation.low == operation.high) {
        notes_.insert("sends and receives of a rank with itself are left out");
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

  // What this rank is through with and others wait in all the same: roots are done early, and a
  // dump has room for so many. Its place among the rank's calls is not known: in front.
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
          "a call that a rank has made and its dump no longer holds is made in front of its "
          "others, with another member's arguments");
    }
    std::vector<Unit>& units = units_[number];
    units.insert(units.begin(), front.begin(), front.end());
  }

  // What is open although all its members have called it, and nothing before it in its group holds
  // it up, stands behind something else. Then all calls of a rank are taken to be synchronous.
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
        "each operation waits for those that its rank has called before, as PyTorch's synchronous "
        "calls do: " +
        Plural(unexplained, "operation") + " would not be open otherwise");
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
    std::map<Queue, int64_t> queues;  // and the lowest number there
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
        refused_.insert("the dumps do not say who the members of group " +
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
      // The first operation of a group has number 1; what came before this one has connected the
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
    // Who waits for nothing has gone on in the job, to where the dumps do not see; at its end
    // others would be told that it has ended.
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
          " are replayed as bytes");
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
      // Each member has splits of its own, and the same count is wanted of all.
      for (const int member : calls_.Members(operation)) {
        const auto rank = calls_.ranks().find(member);
        if (rank == calls_.ranks().end()) continue;
        const auto other = rank->second.entries.find(operation);
        if (other != rank->second.entries.end())
          elements = std::min(elements, other->second->elements_in);
      }
      elements = std::max<int64_t>(elements / static_cast<int64_t>(members), elements < 0 ? -1 : 1);
      notes_.insert(
          "all-to-alls are replayed with equal splits; those of the job are not in the dumps");
    }
    if (elements < 0) {
      notes_.insert("a size that a dump does not tell is replayed as one element");
      elements = 1;
    }
    const bool wide = known.kind == OpKind::kAllGather || known.kind == OpKind::kReduceScatter ||
                      known.kind == OpKind::kAllToAll || known.kind == OpKind::kGather ||
                      known.kind == OpKind::kScatter;
    const uint64_t most = kMostBytes / type.bytes / (wide ? members : 1);
    if (static_cast<uint64_t>(elements) > most) {
      notes_.insert("sizes above 16 MiB are cut to that: they move in the same way");
      return most;
    }
    return static_cast<uint64_t>(elements);
  }

  // Everybody who has it open waits, in the job, for one that has not called it: where data comes
  // from the root, that one is the root; where it goes there, one that waits is.
  int Root(const FlightOperation& operation, OpKind kind) {
    const std::vector<int> members = calls_.Members(operation);
    roots_guessed_ = true;
    for (size_t i = 0; i < members.size(); ++i) {
      const Made made = calls_.At(members[i], operation);
      const bool owes = made == Made::kNotCalled || made == Made::kUnknown;
      const bool done = made == Made::kDone;
      if (Scatters(kind) ? owes || done : made == Made::kOpen) return static_cast<int>(i);
    }
    return 0;
  }

  // What the main finding names: the edges of its circle, or the first operation that somebody has
  // not joined.
  void MarkWitness() {
    const graph::Finding& main = verdict_.main;
    std::set<std::tuple<int, graph::CommUid, int64_t>> named;  // rank -1: every member's
    for (const graph::WaitEdge& edge : main.cycle)
      named.emplace(edge.rank, edge.comm, edge.sequence);
    if (main.cycle.empty() && !main.operations.empty())
      named.emplace(-1, main.operations[0].comm, main.operations[0].sequence);
    for (RankProgram& program : schedule_.ranks) {
      std::vector<Op>& ops = program.threads[0].ops;
      size_t first = ops.size(), last = 0;
      for (size_t i = 0; i < ops.size(); ++i) {
        const auto of = operation_of_.find(ops[i].id);
        if (of == operation_of_.end()) continue;
        const graph::CommUid comm = std::hash<std::string>{}(of->second.group);
        ops[i].witness = named.contains({-1, comm, of->second.sequence}) ||
                         named.contains({program.rank, comm, of->second.sequence});
        if (!ops[i].witness) continue;
        first = std::min(first, i);
        last = i;
      }
      // What stands between two that wait for each other carries the order from one to the other.
      for (size_t i = first; chained_ && i < last; ++i) ops[i].witness = true;
    }
  }

  void Originate() {
    Origin& origin = schedule_.origin;
    const graph::Finding& main = verdict_.main;
    origin.signature = SignatureOf(verdict_);
    origin.signature.edges.clear();  // those of the dumps say who waits, not by what
    origin.check = main.check;
    origin.confidence = graph::Name(main.confidence);
    origin.summary = main.summary;
    origin.source = source_;
    origin.gordian_version = std::string(kVersion);
    origin.ranks = static_cast<size_t>(calls_.expected());
    origin.operations = calls_.entries();
    origin.records = calls_.entries();
    std::vector<std::string>& notes = origin.notes;
    notes.push_back(
        "made of Flight Recorder dumps, which hold no streams, events or host waits: no more than "
        "suspected");
    notes.push_back(
        "guessed: a stream for each process group, and for each pair of single sends and receives, "
        "as PyTorch has them; "
        "one thread a rank, which waits for the device behind its last call");
    for (const std::string& guess : guesses_) notes.push_back("guessed: " + guess);
    if (roots_guessed_)
      notes.push_back("guessed: roots, such that who waits in the dumps waits here");
    if (!sleeping_.empty()) {
      notes.push_back("guessed: " + graph::RankList(sleeping_) +
                      (sleeping_.size() == 1 ? " is" : " are") +
                      " in code of the program's own and " +
                      (sleeping_.size() == 1 ? "calls" : "call") + " nothing more");
    }
    if (!no_dump_.empty())
      notes.push_back("guessed: " + graph::RankList(no_dump_) +
                      " left no dump, and is taken to have called nothing");
    notes.push_back("every reduction is a sum; the dumps do not say");
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    if (over_ > 0) {
      notes.push_back(Plural(over_, "call") +
                      " that a dump holds as open, and that another member has done, " +
                      (over_ == 1 ? "is" : "are") + " over and left out");
    }
    if (schedule_.ranks.size() > kUsualDevices) {
      schedule_.environment.emplace_back("GORDIAN_EMU_DEVICES",
                                         std::to_string(schedule_.ranks.size()));
    }
  }

  const FlightCalls calls_;
  const graph::Verdict verdict_;
  const std::string source_;
  std::map<std::string, int> described_;  // how many groups would have a name
  std::map<int, std::vector<Unit>> units_;
  std::set<std::pair<int, FlightOperation>> stuck_;
  bool chained_ = false;
  bool roots_guessed_ = false;
  size_t over_ = 0;
  std::vector<int> numbers_;     // ranks of the job, by place in Schedule::ranks
  std::map<int, int> place_of_;  // and back
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
  return of_dumps.verdict == graph::Name(graph::VerdictKind::kRankNotJoined) &&
         told.verdict == graph::Name(graph::VerdictKind::kHostBlocked);
}

}  // namespace gordian::replayer
