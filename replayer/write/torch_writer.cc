#include "replayer/write/torch_writer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "common/utf8.h"
#include "common/version.h"
#include "replayer/record/buffers.h"
#include "replayer/write/torch_writer_scaffold.h"

namespace gordian::replayer {
namespace {

constexpr size_t kWidth = 110;
constexpr uint64_t kLeastBuffer = 1 << 16;
constexpr uint64_t kFreedBytes = 32 << 20;  // a segment of the caching allocator's own

// By ncclDataType_t; nullptr: torch.distributed does not send it.
constexpr const char* kTypes[] = {"int8",    "uint8",    "int32",         nullptr,
                                  "int64",   nullptr,    "float16",       "float32",
                                  "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"};
constexpr const char* kOperators[] = {"SUM", "PRODUCT", "MAX", "MIN", "AVG"};  // by ncclRedOp_t

const char* TypeOf(const Op& op) {
  return op.datatype < std::size(kTypes) ? kTypes[op.datatype] : nullptr;
}
std::string Number(uint64_t number) { return std::to_string(number); }

// Makes text safe for a comment or docstring: one line that cannot end it.
std::string Plain(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) out += c == '\\' ? '/' : c == '"' ? '\'' : c;
  return out;
}
std::string Quoted(const std::string& text) { return "\"" + Plain(text) + "\""; }

// Lines of at most kWidth characters; the first begins with `first`, the rest with as many spaces.
std::string Wrapped(const std::string& first, const std::string& text) {
  std::string out, line = first;
  std::istringstream words(Plain(text));
  bool empty = true;
  for (std::string word; words >> word; empty = false) {
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = std::string(first.size(), ' ');
      empty = true;
    }
    line += (empty ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string List(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

class Refusals {
 public:
  void Add(const std::string& what) {
    if (seen_.insert(what).second) all_.push_back(what);
  }
  std::vector<std::string> Take() { return std::move(all_); }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> all_;
};

void CheckOp(const Schedule& schedule, size_t rank, const Op& op, Refusals* refusals) {
  switch (op.kind) {
    case OpKind::kCommInit:
    case OpKind::kCommSplit:
      return refusals->Add("communicators that are created during the run (" +
                           std::string(Name(op.kind)) + "): all ranks must call new_group alike");
    case OpKind::kCommFinalize:
    case OpKind::kCommDestroy:
    case OpKind::kCommAbort:
    case OpKind::kWindowRegister:
    case OpKind::kHostFunction:
      return refusals->Add(Name(op.kind));
    case OpKind::kExit:
    case OpKind::kKill:
      if (op.kind == OpKind::kExit && op.exit_code == 0) return;
      return refusals->Add(std::string(Name(op.kind)) +
                           ": torchrun ends all ranks when one of them fails");
    default:
      break;
  }
  if (op.stream >= 0) {
    const StreamKind kind = schedule.ranks[rank].streams[static_cast<size_t>(op.stream)].kind;
    if (kind == StreamKind::kBlocking)
      refusals->Add("streams that wait for the legacy default stream: those of torch.cuda do not");
    if (kind == StreamKind::kPerThread) refusals->Add("the per-thread default stream");
    if (kind == StreamKind::kLegacy && op.captured)
      refusals->Add("a capture on the legacy default stream");
  }
  if (!IsOperation(op.kind)) return;
  if (TypeOf(op) == nullptr) refusals->Add("operations on ncclDataType_t " + Number(op.datatype));
  if (Reduces(op.kind) && op.reduce_op >= std::size(kOperators))
    refusals->Add("reductions with ncclRedOp_t " + Number(op.reduce_op));
  const std::vector<int>& members = schedule.comms[static_cast<size_t>(op.comm)].members;
  if (HasRoot(op.kind) &&
      (op.root_or_peer < 0 || op.root_or_peer >= static_cast<int>(members.size())))
    refusals->Add("a root that is no member");
  if (IsTransfer(op.kind) &&
      members[static_cast<size_t>(op.root_or_peer)] == static_cast<int>(rank))
    refusals->Add("transfers of a rank with itself");
  if (op.in_group && IsCollective(op.kind))
    refusals->Add("groups that hold a collective (" + std::string(Name(op.kind)) + ")");
}

std::vector<std::string> Refused(const Schedule& schedule) {
  Refusals refusals;
  for (const Communicator& comm : schedule.comms) {
    if (!comm.ready)
      refusals.Add("communicators that are created during the run (" + comm.name +
                   "): all ranks must call new_group alike");
    if (!std::is_sorted(comm.members.begin(), comm.members.end())) {
      refusals.Add("the order of ranks in " + comm.name + ": new_group sorts them");
    }
  }
  std::map<OpId, size_t> rank_of;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const ThreadProgram& thread : schedule.ranks[rank].threads) {
      for (const Op& op : thread.ops) rank_of[op.id] = rank;
    }
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const ThreadProgram& thread : schedule.ranks[rank].threads) {
      const Op* first = nullptr;  // of the open group
      bool open = false;
      for (const Op& op : thread.ops) {
        CheckOp(schedule, rank, op, &refusals);
        if (op.kind == OpKind::kGroupStart || op.kind == OpKind::kGroupEnd) {
          open = op.kind == OpKind::kGroupStart;
          first = nullptr;
        } else if (op.in_group && !IsOperation(op.kind)) {
          refusals.Add("calls inside a group that are no operations (" +
                       std::string(Name(op.kind)) + ")");
        } else if (op.in_group && first == nullptr) {
          first = &op;
        } else if (op.in_group && (op.comm != first->comm || op.stream != first->stream)) {
          refusals.Add("groups over several communicators or streams");
        }
        for (const Gate& gate : op.gates) {
          if (rank_of.at(gate.after) != rank)
            refusals.Add("an order between calls of different ranks that is forced");
          if (op.in_group || (op.captured && IsTransfer(op.kind)))
            refusals.Add("an order between threads that is forced inside a group");
        }
      }
      if (open) refusals.Add("a group that is left open");
    }
  }
  return refusals.Take();
}

// Writes one rank's function, and those of its further threads.
class RankWriter {
 public:
  RankWriter(const Schedule& schedule, size_t rank,
             const std::map<std::pair<OpId, Gate::Moment>, int>& marks)
      : schedule_(schedule),
        rank_(static_cast<int>(rank)),
        program_(schedule.ranks[rank]),
        marks_(marks) {}

  // Writes the function's body.
  std::string Write() {
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      const bool legacy = program_.streams[i].kind == StreamKind::kLegacy;
      Line(StreamOf(static_cast<int>(i)) + " = " +
           (legacy ? "torch.cuda.default_stream()" : "torch.cuda.Stream()"));
    }
    for (int i = 0; i < program_.events; ++i) Line(Event(i) + " = torch.cuda.Event()");
    for (int i = 0; i < program_.graphs; ++i) Line(Graph(i) + " = torch.cuda.CUDAGraph()");
    std::ptrdiff_t frees = 0;
    for (const ThreadProgram& thread : program_.threads) {
      frees += std::count_if(thread.ops.begin(), thread.ops.end(),
                             [](const Op& op) { return op.kind == OpKind::kFree; });
    }
    if (frees > 0) {
      Line("freed = [torch.empty(" + Number(kFreedBytes) +
           ", dtype=torch.uint8, device=\"cuda\") for _ in range(" + std::to_string(frees) + ")]");
    }
    for (size_t thread = 1; thread < program_.threads.size(); ++thread) {
      const std::string name =
          "rank_" + std::to_string(rank_) + "_thread_" + std::to_string(thread);
      Line("");
      Line("def " + name + "():");
      indent_ += 4;
      Line("torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))");
      WriteThread(program_.threads[thread]);
      indent_ -= 4;
      Line("");
      Line("thread_" + std::to_string(thread) + " = threading.Thread(target=" + name +
           ", daemon=True)");
      Line("thread_" + std::to_string(thread) + ".start()");
      site_.clear();
    }
    if (!program_.threads.empty()) WriteThread(program_.threads[0]);
    for (size_t thread = 1; thread < program_.threads.size(); ++thread)
      Line("thread_" + std::to_string(thread) + ".join()");
    if (text_.empty()) Line("pass");
    return text_;
  }

 private:
  void Line(const std::string& text) {
    text_ += text.empty() ? "\n" : std::string(indent_, ' ') + text + "\n";
  }

  std::string StreamOf(int stream) const {
    return program_.streams[static_cast<size_t>(stream)].name;
  }
  static std::string Event(int event) { return "e" + std::to_string(event + 1); }
  static std::string Graph(int graph) { return "g" + std::to_string(graph + 1); }
  const std::string& Comm(const Op& op) const {
    return schedule_.comms[static_cast<size_t>(op.comm)].name;
  }
  const std::vector<int>& Members(const Op& op) const {
    return schedule_.comms[static_cast<size_t>(op.comm)].members;
  }
  // Ranks of the job, as torch.distributed needs them.
  std::string Global(const Op& op) const {
    return std::to_string(Members(op)[static_cast<size_t>(op.root_or_peer)]);
  }
  std::string On(const Op& op) const { return "with on(" + StreamOf(op.stream) + "): "; }

  void Site(const Op& op) {
    if (op.site.empty() || op.site == site_) return;
    Line("# " + Plain(op.site));
    site_ = op.site;
  }

  void WriteThread(const ThreadProgram& thread) {
    const std::string before = text_;
    for (size_t i = 0; i < thread.ops.size(); ++i) {
      const Op& op = thread.ops[i];
      for (const Gate& gate : op.gates)
        Line("await_mark(" + std::to_string(marks_.at({gate.after, gate.moment})) + ")");
      Site(op);
      if (op.kind == OpKind::kGroupStart) {
        size_t end = i + 1;
        while (end < thread.ops.size() && thread.ops[end].kind != OpKind::kGroupEnd) ++end;
        for (size_t inner = i; inner <= end && inner < thread.ops.size(); ++inner)
          Reach(thread.ops[inner], Gate::Moment::kCalled);
        WriteTransfers({thread.ops.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        thread.ops.begin() + static_cast<std::ptrdiff_t>(end)});
        for (size_t inner = i; inner <= end && inner < thread.ops.size(); ++inner)
          Reach(thread.ops[inner], Gate::Moment::kReturned);
        i = end;
        continue;
      }
      Reach(op, Gate::Moment::kCalled);
      if (IsTransfer(op.kind)) {
        WriteTransfers({op});
      } else {
        WriteOp(op);
      }
      Reach(op, Gate::Moment::kReturned);
    }
    if (text_ == before) Line("pass");
  }

  void Reach(const Op& op, Gate::Moment moment) {
    if (const auto mark = marks_.find({op.id, moment}); mark != marks_.end())
      Line("reach(" + std::to_string(mark->second) + ")");
  }

  void WriteTransfers(const std::vector<Op>& ops) {
    if (ops.empty()) return;
    std::string line = "transfer(" + Comm(ops[0]) + ", " + StreamOf(ops[0].stream);
    for (const Op& op : ops) {
      const bool sends = op.kind == OpKind::kSend;
      line += ", (" + std::string(sends ? "dist.isend, data(" : "dist.irecv, result(") +
              Number(op.count) + ", torch." + TypeOf(op) + "), " + Global(op) + ")";
    }
    Line(line + ")");
  }

  void WriteOp(const Op& op) {
    switch (op.kind) {
      case OpKind::kEventRecord:
        return Line(Event(op.event) + ".record(" + StreamOf(op.stream) + ")");
      case OpKind::kStreamWaitEvent:
        return Line(StreamOf(op.stream) + ".wait_event(" + Event(op.event) + ")");
      case OpKind::kKernel:
        return Line(On(op) + "RECEIVED[:64].zero_()  # in place of a kernel");
      case OpKind::kCaptureBegin:
        return Line(On(op) + Graph(op.graph) +
                    ".capture_begin(capture_error_mode=\"thread_local\")");
      case OpKind::kCaptureEnd:
        return Line(On(op) + Graph(op.graph) + ".capture_end()");
      case OpKind::kGraphLaunch:
        return Line(On(op) + Graph(op.graph) + ".replay()");
      case OpKind::kStreamSync:
        return Line(StreamOf(op.stream) + ".synchronize()");
      case OpKind::kEventSync:
        return Line(Event(op.event) + ".synchronize()");
      case OpKind::kDeviceSync:
        return Line("torch.cuda.synchronize()");
      case OpKind::kFree:
        Line("freed.pop()");
        return Line("torch.cuda.empty_cache()  # calls cudaFree, which waits for the device");
      case OpKind::kCopy:
        return Line(On(op) + "RECEIVED[:4096].cpu()");
      case OpKind::kPoll:
        return Line("poll(" + (op.event >= 0 ? Event(op.event) : StreamOf(op.stream)) + ".query)");
      case OpKind::kSleep:
        return Line("sleep_for_ever()");
      case OpKind::kSpin:
        return Line("compute_for_ever()");
      case OpKind::kExit:
        return Line("os._exit(0)");
      case OpKind::kStop:
        return Line("os.kill(os.getpid(), signal.SIGSTOP)");
      default:
        return Line(On(op) + Collective(op));
    }
  }

  std::string Collective(const Op& op) const {
    const size_t members = Members(op).size();
    const model::Role role =
        RoleOf(op, MemberOf(schedule_.comms[static_cast<size_t>(op.comm)], rank_));
    const std::string type = ", torch." + std::string(TypeOf(op)) + ")";
    const std::string data = "data(" + Number(model::ElementsSent(role, members)) + type;
    const std::string result = "result(" + Number(model::ElementsReceived(role, members)) + type;
    const std::string group = ", group=" + Comm(op) + ")";
    const std::string reduce =
        Reduces(op.kind) ? ", op=dist.ReduceOp." + std::string(kOperators[op.reduce_op]) : "";
    const std::string chunks = model::IsRoot(role)
                                   ? "list(" + (op.kind == OpKind::kGather ? result : data) +
                                         ".chunk(" + Number(members) + "))"
                                   : "None";
    switch (op.kind) {
      case OpKind::kAllReduce:
        return "dist.all_reduce(" + data + reduce + group;
      case OpKind::kAllGather:
        return "dist.all_gather_into_tensor(" + result + ", " + data + group;
      case OpKind::kReduceScatter:
        return "dist.reduce_scatter_tensor(" + result + ", " + data + reduce + group;
      case OpKind::kBroadcast:
        return "dist.broadcast(data(" + Number(op.count) + type + ", src=" + Global(op) + group;
      case OpKind::kReduce:
        return "dist.reduce(" + data + ", dst=" + Global(op) + reduce + group;
      case OpKind::kAllToAll:
        return "dist.all_to_all_single(" + result + ", " + data + group;
      case OpKind::kGather:
        return "dist.gather(" + data + ", " + chunks + ", dst=" + Global(op) + group;
      default:
        return "dist.scatter(" + result + ", " + chunks + ", src=" + Global(op) + group;
    }
  }

  const Schedule& schedule_;
  const int rank_;
  const RankProgram& program_;
  const std::map<std::pair<OpId, Gate::Moment>, int>& marks_;
  std::string text_, site_;
  size_t indent_ = 4;
};

class Writer {
 public:
  Writer(const Schedule& schedule, const TorchOptions& options)
      : schedule_(schedule), options_(options) {}

  std::string Write() {
    for (const RankProgram& rank : schedule_.ranks) {
      for (const ThreadProgram& thread : rank.threads) {
        for (const Op& op : thread.ops) {
          for (const Gate& gate : op.gates)
            marks_.try_emplace({gate.after, gate.moment}, static_cast<int>(marks_.size()));
        }
      }
    }
    const std::string body = Groups() + Ranks();
    std::string helpers;
    for (int i = 0; i < kTorchHelperCount; ++i) {
      if (body.find(kTorchHelpers[i].call) != std::string::npos) helpers += kTorchHelpers[i].text;
    }
    return Header() + Imports(helpers + body) + std::string(kTorchBeforeRanks) + helpers + body +
           Tables() + std::string(kTorchAfterRanks);
  }

 private:
  std::string Header() const {
    const Origin& origin = schedule_.origin;
    const size_t ranks = schedule_.ranks.size();
    std::string text = "#!/usr/bin/env python3\n\"\"\"A replay written by gordian " +
                       std::string(kVersion) +
                       ": a small program that hangs as the recorded job did.\n\n";
    text += Wrapped("Verdict   ", Describe(origin.signature) +
                                      (origin.confidence.empty() ? "" : ", " + origin.confidence) +
                                      (origin.check.empty() ? "" : " [" + origin.check + "]"));
    if (!origin.summary.empty()) text += Wrapped("          ", origin.summary);
    text += Wrapped("Recorded  ", origin.command.empty() ? origin.source : origin.command);
    text += Wrapped("Here      ", Number(ranks) + " of " + Number(origin.ranks) + " ranks, " +
                                      Number(CountOperations(schedule_)) + " of " +
                                      Number(origin.operations) + " operations of NCCL");
    text += Wrapped("Verified  ", options_.verified.empty() ? "not yet" : options_.verified);
    for (const std::string& note : origin.notes) text += Wrapped("Note      ", note);
    text += "\nRun       torchrun --nproc-per-node=" + Number(ranks) + " " + options_.file +
            "   (PyTorch 2.3 or later)\n";
    text += "          --free               do not force the recorded order between threads\n";
    text +=
        "          --patience SECONDS   how long a rank may stay where it is before that counts as "
        "a hang (20)\n";
    text +=
        "Expect    each rank that hangs says where, and leaves with 42; torchrun itself then with "
        "1. All leave with 0:\n";
    text += "          they came to their ends. 3: something else.\n\"\"\"\n";
    return text;
  }

  std::string Imports(const std::string& body) const {
    std::string text = "import argparse\n";
    text += "import linecache\nimport os\n";
    if (body.find("signal.") != std::string::npos) text += "import signal\n";
    text += "import sys\nimport threading\nimport time\nimport traceback\n\n";
    for (const auto& [name, value] : schedule_.environment) {
      text +=
          "os.environ[" + Quoted(name) + "] = " + Quoted(value) + "  # read when NCCL is loaded\n";
    }
    text += "import torch\nimport torch.distributed as dist\n\nBUFFER_BYTES = " +
            Number(BufferBytes()) + "\n";
    if (!marks_.empty())
      text += "MARKS = [threading.Event() for _ in range(" + Number(marks_.size()) + ")]\n";
    return text;
  }

  uint64_t BufferBytes() const {
    uint64_t bytes = kLeastBuffer;
    for (const RankProgram& rank : schedule_.ranks) {
      for (const ThreadProgram& thread : rank.threads) {
        for (const Op& op : thread.ops) {
          if (!IsOperation(op.kind)) continue;
          bytes = std::max(
              bytes,
              model::LargestBuffer(CallOf(op.kind), Bytes(op),
                                   schedule_.comms[static_cast<size_t>(op.comm)].members.size()));
        }
      }
    }
    return (bytes + 63) / 64 * 64;
  }

  // All ranks make all groups in one order; members connect those that were connected.
  std::string Groups() const {
    std::string text = "\n\ndef make_groups():\n";
    std::string names;
    for (const Communicator& comm : schedule_.comms)
      names += (names.empty() ? "" : ", ") + comm.name;
    if (names.empty()) return text + "    pass\n";
    text += "    global " + names + "\n";
    for (const Communicator& comm : schedule_.comms) {
      text += "    " + comm.name + " = dist.new_group([" + List(comm.members) + "])";
      text +=
          comm.label.empty() || comm.label == comm.name ? "\n" : "  # " + Plain(comm.label) + "\n";
    }
    for (const Communicator& comm : schedule_.comms) {
      if (comm.connected)
        text += "    if dist.get_rank() in [" + List(comm.members) + "]:\n        connect(" +
                comm.name + ")\n";
      for (const auto& [from, to] : comm.connected_pairs) {
        text += "    connect_pair(" + comm.name + ", " +
                std::to_string(comm.members[static_cast<size_t>(from)]) + ", " +
                std::to_string(comm.members[static_cast<size_t>(to)]) + ")\n";
      }
    }
    return text;
  }

  std::string Ranks() const {
    std::string text;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      text += "\n\ndef rank_" + Number(rank) + "():\n";
      const int original = schedule_.ranks[rank].rank;
      if (original >= 0 && original != static_cast<int>(rank))
        text += "    # rank " + std::to_string(original) + " of the recorded job\n";
      text += RankWriter(schedule_, rank, marks_).Write();
    }
    return text;
  }

  std::string Tables() const {
    std::string text = "\n\nRANKS = [";
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank)
      text += (rank == 0 ? "rank_" : ", rank_") + Number(rank);
    return text + "]\n";
  }

  const Schedule& schedule_;
  const TorchOptions& options_;
  std::map<std::pair<OpId, Gate::Moment>, int> marks_;
};

}  // namespace

TorchProgram WriteTorch(const Schedule& schedule, const TorchOptions& options) {
  TorchProgram program;
  program.refused = Refused(schedule);
  if (program.refused.empty()) program.text = Writer(schedule, options).Write();
  return program;
}

}  // namespace gordian::replayer
