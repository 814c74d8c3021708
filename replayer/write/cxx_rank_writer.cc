#include "replayer/write/cxx_rank_writer.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>

#include "common/utf8.h"

namespace gordian::replayer {
namespace {

// By ncclDataType_t, and by ncclRedOp_t.
constexpr const char* kTypes[] = {"ncclInt8",   "ncclUint8",    "ncclInt32",      "ncclUint32",
                                  "ncclInt64",  "ncclUint64",   "ncclFloat16",    "ncclFloat",
                                  "ncclDouble", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
constexpr const char* kOperators[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};

// Whether `word` stands in `code` as a name of its own, outside of lines that are comments.
bool HasWord(const std::string& code, const std::string& word) {
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
    const size_t line = code.rfind('\n', at) + 1;  // 0 in the first line
    const size_t first = code.find_first_not_of(' ', line);
    if (code.compare(first, 2, "//") == 0) continue;
    const size_t end = at + word.size();
    if ((at > 0 && in_name(code[at - 1])) || (end < code.size() && in_name(code[end]))) continue;
    return true;
  }
  return false;
}

// Writes one rank's function.
class RankWriter {
 public:
  RankWriter(const Schedule& schedule, size_t rank, const CxxMarks& marks)
      : schedule_(schedule),
        rank_(static_cast<int>(rank)),
        program_(schedule.ranks[rank]),
        marks_(marks) {}

  // Writes its body.
  std::string Write() {
    for (size_t thread = 1; thread < program_.threads.size(); ++thread) {
      Line("");
      Line("std::thread thread" + std::to_string(thread) + "([&] {");
      indent_ += 2;
      Line("Thread me{rank, " + std::to_string(thread) + "};");
      Line("CUDA(cudaSetDevice(rank));");
      WriteThread(program_.threads[thread]);
      indent_ -= 2;
      Line("});");
      site_.clear();
    }
    Line("");
    if (!program_.threads.empty()) WriteThread(program_.threads[0]);
    for (size_t thread = 1; thread < program_.threads.size(); ++thread)
      Line("thread" + std::to_string(thread) + ".join();");
    std::string start = program_.threads.size() > 1 ? "  const int rank = me.rank;\n" : "";
    start += SetUpFor(&text_);
    const std::string all = start + text_;
    const bool named =
        HasWord(all, "me") || HasWord(all, "CUDA") || HasWord(all, "NCCL");  // macros
    return (named ? "" : "  (void)me;\n") + all;
  }

  std::string WriteBench(std::vector<const Op*>* timed) {
    timed_ = timed;
    std::string comms;
    for (size_t i = 0; i < schedule_.comms.size(); ++i) {
      comms += (comms.empty() ? "" : ", ") +
               (PlaceIn(schedule_.comms[i]) < 0 ? std::string("nullptr") : schedule_.comms[i].name);
    }
    Line("CheckAll(me, {" + comms + "});");
    const std::span<const Op> ops =
        program_.threads.empty() ? std::span<const Op>() : program_.threads[0].ops;
    size_t once = ops.size();  // what makes graphs
    while (once > 0 && ops[once - 1].kind != OpKind::kCaptureEnd) --once;
    for (const Op& op : ops.first(once)) WriteCall(op);
    Line("");
    Line("while (Repeat(me)) {");
    indent_ += 2;
    site_.clear();
    for (const Op& op : ops.subspan(once)) WriteTimed(op);
    indent_ -= 2;
    Line("}");
    return SetUpFor(&text_) + text_;
  }

 private:
  void Line(const std::string& text) {
    text_ += text.empty() ? "\n" : std::string(indent_, ' ') + text + "\n";
  }

  const std::string& Comm(int place) const {
    return schedule_.comms[static_cast<size_t>(place)].name;
  }
  int PlaceIn(const Communicator& comm) const { return MemberOf(comm, rank_); }
  // The rank in the communicator, by the same expression at all ranks if possible, so that equal
  // functions become one.
  std::string RankIn(const Communicator& comm) const {
    for (size_t i = 0; i < comm.members.size(); ++i) {
      if (comm.members[i] >= 0 && comm.members[i] != static_cast<int>(i))
        return std::to_string(PlaceIn(comm));
    }
    return "me.rank";
  }
  std::string Make(int place) const {
    const Communicator& comm = schedule_.comms[static_cast<size_t>(place)];
    return "NCCL(MakeComm(&" + comm.name + ", " +
           CxxQuoted(comm.label.empty() ? comm.name : comm.label) + ", " + std::to_string(place) +
           ", " + std::to_string(comm.members.size()) + ", " + RankIn(comm) + "));";
  }

  template <typename Wanted>
  bool Uses(Wanted wanted) const {
    return std::any_of(program_.threads.begin(), program_.threads.end(),
                       [&](const ThreadProgram& thread) {
                         return std::any_of(thread.ops.begin(), thread.ops.end(), wanted);
                       });
  }

  // Declares and makes what `body` uses, which was written before.
  std::string SetUpFor(std::string* body) {
    std::string written = std::move(*body);
    body->clear();
    SetUp(written);
    std::string start = std::move(*body);
    *body = std::move(written);
    return start;
  }

  void SetUp(const std::string& body) {
    for (size_t i = 0; i < schedule_.comms.size(); ++i) {
      const Communicator& comm = schedule_.comms[i];
      const int place = static_cast<int>(i);
      const bool of_parent =
          comm.parent >= 0 && PlaceIn(schedule_.comms[static_cast<size_t>(comm.parent)]) >= 0;
      const bool called =
          Uses([&](const Op& op) { return op.comm == place || op.parent == place; });
      if (comm.ready ? PlaceIn(comm) < 0 && !of_parent : !called) continue;
      Line("ncclComm_t " + comm.name + " = nullptr;");
      if (!comm.ready) continue;
      if (comm.parent < 0) {
        Line(Make(place));
      } else {
        const bool joins = PlaceIn(comm) >= 0;
        Line("NCCL(SplitComm(" + Comm(comm.parent) + ", " +
             (joins ? "0, " + RankIn(comm) : "NCCL_SPLIT_NOCOLOR, 0") + ", &" + comm.name + ", " +
             CxxQuoted(comm.label.empty() ? comm.name : comm.label) + "));");
      }
      if (PlaceIn(comm) < 0) continue;
      if (comm.connected) Line("Connect(me, " + comm.name + ");");
      WritePairs(comm);
    }
    if (Uses([](const Op& op) { return op.kind == OpKind::kCommSplit && op.comm < 0; }))
      Line("ncclComm_t none = nullptr;");
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      const Stream& stream = program_.streams[i];
      if (!HasWord(body, stream.name)) continue;
      switch (stream.kind) {
        case StreamKind::kNonBlocking:
          Line("const cudaStream_t " + stream.name + " = NewStream(me, cudaStreamNonBlocking);");
          break;
        case StreamKind::kBlocking:
          Line("const cudaStream_t " + stream.name + " = NewStream(me, cudaStreamDefault);");
          break;
        case StreamKind::kLegacy:
          Line("const cudaStream_t " + stream.name + " = cudaStreamLegacy;");
          break;
        case StreamKind::kPerThread:
          Line("const cudaStream_t " + stream.name + " = cudaStreamPerThread;");
          break;
      }
    }
    for (int i = 0; i < program_.events; ++i) {
      const std::string event = "e" + std::to_string(i + 1);
      if (HasWord(body, event)) Line("const cudaEvent_t " + event + " = NewEvent(me);");
    }
    for (int i = 0; i < program_.graphs; ++i) {
      const std::string graph = "g" + std::to_string(i + 1);
      if (HasWord(body, graph)) Line("cudaGraphExec_t " + graph + " = nullptr;");
    }
    int frees = 0;
    const auto count = [&](const Op& op) {
      if (op.kind == OpKind::kFree)
        Line("void* const scratch" + std::to_string(++frees) + " = Scratch(me, 4096);");
      return false;
    };
    Uses(count);
    if (Uses([](const Op& op) { return op.kind == OpKind::kWindowRegister; }))
      Line("void* const window = WindowMemory(me);");
    if (Uses([](const Op& op) { return op.kind == OpKind::kCopy; }))
      Line("char host[4096];  // pageable");
  }

  void WritePairs(const Communicator& comm) {
    const int mine = PlaceIn(comm);
    std::string pairs;
    for (const auto& [from, to] : comm.connected_pairs) {
      if (from != mine && to != mine) continue;
      pairs +=
          (pairs.empty() ? "{" : ", {") + std::to_string(from) + ", " + std::to_string(to) + "}";
    }
    if (!pairs.empty())
      Line("ConnectPairs(me, " + comm.name + ", " + std::to_string(mine) + ", {" + pairs + "});");
  }

  void WriteThread(const ThreadProgram& thread) {
    for (const Op& op : thread.ops) {
      for (const Gate& gate : op.gates)
        Line("Await(me, " + std::to_string(marks_.at({gate.after, gate.moment})) + ");");
      WriteSite(op);
      if (const auto mark = marks_.find({op.id, Gate::Moment::kCalled}); mark != marks_.end()) {
        Line("Reach(" + std::to_string(mark->second) + ");");
      }
      WriteOp(op);
      if (const auto mark = marks_.find({op.id, Gate::Moment::kReturned}); mark != marks_.end()) {
        Line("Reach(" + std::to_string(mark->second) + ");");
      }
    }
  }

  void WriteSite(const Op& op) {
    if (op.site.empty() || op.site == site_) return;
    Line("// " + CxxCommented(op.site));
    site_ = op.site;
  }

  void WriteCall(const Op& op) {
    WriteSite(op);
    WriteOp(op);
  }

  // Times a group as one call, on the stream of its first operation after the start.
  void WriteTimed(const Op& op) {
    const bool starts = op.kind == OpKind::kGroupStart, ends = op.kind == OpKind::kGroupEnd;
    const bool alone = !op.in_group && (IsOperation(op.kind) || op.kind == OpKind::kGraphLaunch);
    WriteSite(op);
    if (starts || alone) {
      timed_stream_ = StreamOf(starts ? *(&op + 1) : op);
      Line("Start(me, " + std::to_string(timed_->size()) + ", " + timed_stream_ + ");");
      timed_->push_back(&op);
    }
    WriteOp(op);
    if (ends || alone)
      Line("Stop(me, " + std::to_string(timed_->size() - 1) + ", " + timed_stream_ + ");");
  }

  std::string StreamOf(const Op& op) const {
    return program_.streams[static_cast<size_t>(op.stream)].name;
  }
  static std::string EventOf(const Op& op) { return "e" + std::to_string(op.event + 1); }
  static std::string GraphOf(const Op& op) { return "g" + std::to_string(op.graph + 1); }

  void WriteOp(const Op& op) {
    const auto cuda = [&](const std::string& call) { Line("CUDA(" + call + ");"); };
    const auto nccl = [&](const std::string& call) { Line("NCCL(" + call + ");"); };
    switch (op.kind) {
      case OpKind::kGroupStart:
        return nccl("ncclGroupStart()");
      case OpKind::kGroupEnd:
        return nccl("ncclGroupEnd()");
      case OpKind::kCommInit:
        return Line(Make(op.comm));
      case OpKind::kCommSplit: {
        const std::string child = op.comm < 0 ? "none" : Comm(op.comm);
        return nccl("SplitComm(" + Comm(op.parent) + ", " +
                    (op.color < 0 ? "NCCL_SPLIT_NOCOLOR" : std::to_string(op.color)) + ", " +
                    std::to_string(op.key) + ", &" + child + ", " + CxxQuoted(child) + ")");
      }
      case OpKind::kCommFinalize:
        return nccl("ncclCommFinalize(" + Comm(op.comm) + ")");
      case OpKind::kCommDestroy:
        return nccl("ncclCommDestroy(" + Comm(op.comm) + ")");
      case OpKind::kCommAbort:
        return nccl("ncclCommAbort(" + Comm(op.comm) + ")");
      case OpKind::kWindowRegister:
        Line("ncclWindow_t window" + std::to_string(++windows_) + " = nullptr;");
        return nccl("ncclCommWindowRegister(" + Comm(op.comm) + ", window, kWindowBytes, &window" +
                    std::to_string(windows_) + ", NCCL_WIN_COLL_SYMMETRIC)");
      case OpKind::kEventRecord:
        return cuda("cudaEventRecord(" + EventOf(op) + ", " + StreamOf(op) + ")");
      case OpKind::kStreamWaitEvent:
        return cuda("cudaStreamWaitEvent(" + StreamOf(op) + ", " + EventOf(op) + ", 0)");
      case OpKind::kKernel:
        return Line("CUDA(cudaMemsetAsync(out, 0, 64, " + StreamOf(op) +
                    "));  // in place of a kernel");
      case OpKind::kHostFunction:
        return cuda("cudaLaunchHostFunc(" + StreamOf(op) + ", Nothing, nullptr)");
      case OpKind::kGraphLaunch:
        return cuda("cudaGraphLaunch(" + GraphOf(op) + ", " + StreamOf(op) + ")");
      case OpKind::kCaptureBegin:
        return Line("Capture(me, " + StreamOf(op) + ");");
      case OpKind::kCaptureEnd:
        return Line(GraphOf(op) + " = EndCapture(me, " + StreamOf(op) + ");");
      case OpKind::kStreamSync:
        return cuda("cudaStreamSynchronize(" + StreamOf(op) + ")");
      case OpKind::kEventSync:
        return cuda("cudaEventSynchronize(" + EventOf(op) + ")");
      case OpKind::kDeviceSync:
        return cuda("cudaDeviceSynchronize()");
      case OpKind::kFree:
        return cuda("cudaFree(scratch" + std::to_string(++frees_) + ")");
      case OpKind::kCopy:
        if (program_.streams[static_cast<size_t>(op.stream)].kind == StreamKind::kLegacy)
          return cuda("cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost)");
        return cuda("cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, " +
                    StreamOf(op) + ")");
      case OpKind::kPoll: {
        const std::string query = op.event >= 0 ? "cudaEventQuery(" + EventOf(op) + ")"
                                                : "cudaStreamQuery(" + StreamOf(op) + ")";
        return Line("Poll(me, " + CxxQuoted(query) + ", [&] { return " + query + "; });");
      }
      case OpKind::kSleep:
        return Line("SleepForEver(me);");
      case OpKind::kSpin:
        return Line("ComputeForEver(me);");
      case OpKind::kExit:
        return Line("Leave(me, " + std::to_string(op.exit_code) + ");");
      case OpKind::kKill:
        return Line("Signal(me, " + std::to_string(op.exit_code) + ");");
      case OpKind::kStop:
        return Line("Signal(me, SIGSTOP);");
      default:
        return nccl(Operation(op));
    }
  }

  std::string Operation(const Op& op) const {
    const std::string count = std::to_string(op.count) + ", " + CxxTypeOf(op);
    const std::string reduce = ", " + CxxOperatorOf(op);
    const std::string root = ", " + std::to_string(op.root_or_peer);
    const std::string end = ", " + Comm(op.comm) + ", " + StreamOf(op) + ")";
    switch (op.kind) {
      case OpKind::kAllReduce:
        return "ncclAllReduce(in, out, " + count + reduce + end;
      case OpKind::kAllGather:
        return "ncclAllGather(in, out, " + count + end;
      case OpKind::kReduceScatter:
        return "ncclReduceScatter(in, out, " + count + reduce + end;
      case OpKind::kBroadcast:
        return "ncclBroadcast(in, out, " + count + root + end;
      case OpKind::kReduce:
        return "ncclReduce(in, out, " + count + reduce + root + end;
      case OpKind::kAllToAll:
        return "ncclAlltoAll(in, out, " + count + end;
      case OpKind::kGather:
        return "ncclGather(in, out, " + count + root + end;
      case OpKind::kScatter:
        return "ncclScatter(in, out, " + count + root + end;
      case OpKind::kSend:
        return "ncclSend(in, " + count + root + end;
      default:
        return "ncclRecv(out, " + count + root + end;
    }
  }

  const Schedule& schedule_;
  const int rank_;
  const RankProgram& program_;
  const CxxMarks& marks_;
  std::string text_, site_;
  size_t indent_ = 2;
  int frees_ = 0, windows_ = 0;
  std::vector<const Op*>* timed_ = nullptr;  // of a benchmark
  std::string timed_stream_;                 // of the last of them
};

}  // namespace

std::string CxxTypeOf(const Op& op) {
  return op.datatype < std::size(kTypes) ? kTypes[op.datatype] : kTypes[1];
}

std::string CxxOperatorOf(const Op& op) {
  return kOperators[op.reduce_op < std::size(kOperators) ? op.reduce_op : 0];
}

std::string CxxQuoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\' || c == '?') out += '\\';  // no trigraphs
    out += c;
  }
  return out + "\"";
}

std::string CxxCommented(const std::string& text) {
  std::string out;
  for (const char c : Printable(text)) {
    if (c == '?' && out.ends_with('?')) out += ' ';  // no trigraphs
    out += c;
  }
  while (!out.empty() && (out.back() == '\\' || out.back() == ' ')) out.pop_back();
  return out;
}

std::string WriteCxxRank(const Schedule& schedule, size_t rank, const CxxMarks& marks) {
  return RankWriter(schedule, rank, marks).Write();
}

std::string WriteCxxBenchRank(const Schedule& schedule, size_t rank,
                              std::vector<const Op*>* timed) {
  return RankWriter(schedule, rank, {}).WriteBench(timed);
}

}  // namespace gordian::replayer
