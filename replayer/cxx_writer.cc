#include "replayer/cxx_writer.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "common/version.h"
#include "replayer/cxx_scaffold.h"

namespace gordian::replayer {
namespace {

constexpr size_t kWidth = 110;
constexpr uint64_t kWindowBytes = 1 << 20;
constexpr uint64_t kLeastBuffer = 1 << 16;

struct Type {
  const char* name;
  uint64_t bytes;
};
constexpr Type kTypes[] = {{"ncclInt8", 1},    {"ncclUint8", 1},   {"ncclInt32", 4},    {"ncclUint32", 4},
                           {"ncclInt64", 8},   {"ncclUint64", 8},  {"ncclFloat16", 2},  {"ncclFloat", 4},
                           {"ncclDouble", 8},  {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};
constexpr const char* kOperators[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};

Type TypeOf(const Op& op) { return op.datatype < std::size(kTypes) ? kTypes[op.datatype] : kTypes[1]; }
std::string OperatorOf(const Op& op) { return kOperators[op.reduce_op < std::size(kOperators) ? op.reduce_op : 0]; }

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

// For a comment: one line, and no way out of it.
std::string Commented(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  while (!out.empty() && (out.back() == '\\' || out.back() == ' ')) out.pop_back();
  return out;
}

// "// " lines of at most kWidth characters; `first` stands in front, and as many spaces before the rest.
std::string Wrapped(const std::string& first, const std::string& text) {
  std::string out, line = "// " + first;
  std::istringstream words(Commented(text));
  const std::string indent = "// " + std::string(first.size(), ' ');
  bool empty = true;
  for (std::string word; words >> word;) {
    if (!empty && line.size() + 1 + word.size() > kWidth) {
      out += line + "\n";
      line = indent;
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
  }
  return out + Commented(line) + "\n";
}

std::string Plural(size_t count, const std::string& what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); }

std::string Names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

// One rank's function.
class RankWriter {
 public:
  RankWriter(const Schedule& schedule, size_t rank, const std::map<std::pair<OpId, Gate::Moment>, int>& marks)
      : schedule_(schedule), rank_(static_cast<int>(rank)), program_(schedule.ranks[rank]), marks_(marks) {}

  // All of its body.
  std::string Write() {
    SetUp();
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
    for (size_t thread = 1; thread < program_.threads.size(); ++thread) Line("thread" + std::to_string(thread) + ".join();");
    if (program_.threads.size() > 1) text_ = "  const int rank = me.rank;\n" + text_;
    if (text_.find("me") == std::string::npos) text_ = "  (void)me;\n" + text_;
    return text_;
  }

 private:
  void Line(const std::string& text) { text_ += text.empty() ? "\n" : std::string(indent_, ' ') + text + "\n"; }

  const std::string& Comm(int place) const { return schedule_.comms[static_cast<size_t>(place)].name; }
  int PlaceIn(const Communicator& comm) const {
    const auto found = std::find(comm.members.begin(), comm.members.end(), rank_);
    return found == comm.members.end() ? -1 : static_cast<int>(found - comm.members.begin());
  }
  // The rank in it: the same expression at all ranks where possible, so that equal functions are one.
  std::string RankIn(const Communicator& comm) const {
    for (size_t i = 0; i < comm.members.size(); ++i) {
      if (comm.members[i] >= 0 && comm.members[i] != static_cast<int>(i)) return std::to_string(PlaceIn(comm));
    }
    return "me.rank";
  }
  std::string Make(int place) const {
    const Communicator& comm = schedule_.comms[static_cast<size_t>(place)];
    return "NCCL(MakeComm(&" + comm.name + ", " + Quoted(comm.label.empty() ? comm.name : comm.label) + ", " + std::to_string(place) +
           ", " + std::to_string(comm.members.size()) + ", " + RankIn(comm) + "));";
  }

  template <typename Wanted>
  bool Uses(Wanted wanted) const {
    return std::any_of(program_.threads.begin(), program_.threads.end(),
                       [&](const ThreadProgram& thread) { return std::any_of(thread.ops.begin(), thread.ops.end(), wanted); });
  }

  void SetUp() {
    for (size_t i = 0; i < schedule_.comms.size(); ++i) {
      const Communicator& comm = schedule_.comms[i];
      const int place = static_cast<int>(i);
      const bool of_parent = comm.parent >= 0 && PlaceIn(schedule_.comms[static_cast<size_t>(comm.parent)]) >= 0;
      const bool called = Uses([&](const Op& op) { return op.comm == place || op.parent == place; });
      if (comm.ready ? PlaceIn(comm) < 0 && !of_parent : !called) continue;
      Line("ncclComm_t " + comm.name + " = nullptr;");
      if (!comm.ready) continue;
      if (comm.parent < 0) {
        Line(Make(place));
      } else {
        const bool joins = PlaceIn(comm) >= 0;
        Line("NCCL(SplitComm(" + Comm(comm.parent) + ", " + (joins ? "0, " + RankIn(comm) : "NCCL_SPLIT_NOCOLOR, 0") + ", &" +
             comm.name + ", " + Quoted(comm.label.empty() ? comm.name : comm.label) + "));");
      }
      if (PlaceIn(comm) < 0) continue;
      if (comm.connected) Line("Connect(me, " + comm.name + ");");
      WritePairs(comm);
    }
    if (Uses([](const Op& op) { return op.kind == OpKind::kCommSplit && op.comm < 0; })) Line("ncclComm_t none = nullptr;");
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      const Stream& stream = program_.streams[i];
      if (!Uses([&](const Op& op) { return op.stream == static_cast<int>(i); })) continue;
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
      if (Uses([&](const Op& op) { return op.event == i; })) Line("const cudaEvent_t e" + std::to_string(i + 1) + " = NewEvent(me);");
    }
    for (int i = 0; i < program_.graphs; ++i) {
      if (Uses([&](const Op& op) { return op.graph == i; })) Line("cudaGraphExec_t g" + std::to_string(i + 1) + " = nullptr;");
    }
    int frees = 0;
    const auto count = [&](const Op& op) {
      if (op.kind == OpKind::kFree) Line("void* const scratch" + std::to_string(++frees) + " = Scratch(me, 4096);");
      return false;
    };
    Uses(count);
    if (Uses([](const Op& op) { return op.kind == OpKind::kWindowRegister; })) Line("void* const window = WindowMemory(me);");
    if (Uses([](const Op& op) { return op.kind == OpKind::kCopy; })) Line("char host[4096];  // pageable");
  }

  void WritePairs(const Communicator& comm) {
    const int mine = PlaceIn(comm);
    std::string pairs;
    for (const auto& [from, to] : comm.connected_pairs) {
      if (from != mine && to != mine) continue;
      pairs += (pairs.empty() ? "{" : ", {") + std::to_string(from) + ", " + std::to_string(to) + "}";
    }
    if (!pairs.empty()) Line("ConnectPairs(me, " + comm.name + ", " + std::to_string(mine) + ", {" + pairs + "});");
  }

  void WriteThread(const ThreadProgram& thread) {
    for (const Op& op : thread.ops) {
      for (const Gate& gate : op.gates) Line("Await(me, " + std::to_string(marks_.at({gate.after, gate.moment})) + ");");
      if (!op.site.empty() && op.site != site_) {
        Line("// " + Commented(op.site));
        site_ = op.site;
      }
      if (const auto mark = marks_.find({op.id, Gate::Moment::kCalled}); mark != marks_.end()) {
        Line("Reach(" + std::to_string(mark->second) + ");");
      }
      WriteOp(op);
      if (const auto mark = marks_.find({op.id, Gate::Moment::kReturned}); mark != marks_.end()) {
        Line("Reach(" + std::to_string(mark->second) + ");");
      }
    }
  }

  std::string StreamOf(const Op& op) const { return program_.streams[static_cast<size_t>(op.stream)].name; }
  static std::string EventOf(const Op& op) { return "e" + std::to_string(op.event + 1); }
  static std::string GraphOf(const Op& op) { return "g" + std::to_string(op.graph + 1); }

  void WriteOp(const Op& op) {
    const auto cuda = [&](const std::string& call) { Line("CUDA(" + call + ");"); };
    const auto nccl = [&](const std::string& call) { Line("NCCL(" + call + ");"); };
    switch (op.kind) {
      case OpKind::kGroupStart: return nccl("ncclGroupStart()");
      case OpKind::kGroupEnd: return nccl("ncclGroupEnd()");
      case OpKind::kCommInit: return Line(Make(op.comm));
      case OpKind::kCommSplit: {
        const std::string child = op.comm < 0 ? "none" : Comm(op.comm);
        return nccl("SplitComm(" + Comm(op.parent) + ", " + (op.color < 0 ? "NCCL_SPLIT_NOCOLOR" : std::to_string(op.color)) + ", " +
                    std::to_string(op.key) + ", &" + child + ", " + Quoted(child) + ")");
      }
      case OpKind::kCommFinalize: return nccl("ncclCommFinalize(" + Comm(op.comm) + ")");
      case OpKind::kCommDestroy: return nccl("ncclCommDestroy(" + Comm(op.comm) + ")");
      case OpKind::kCommAbort: return nccl("ncclCommAbort(" + Comm(op.comm) + ")");
      case OpKind::kWindowRegister:
        Line("ncclWindow_t window" + std::to_string(++windows_) + " = nullptr;");
        return nccl("ncclCommWindowRegister(" + Comm(op.comm) + ", window, kWindowBytes, &window" + std::to_string(windows_) +
                    ", NCCL_WIN_COLL_SYMMETRIC)");
      case OpKind::kEventRecord: return cuda("cudaEventRecord(" + EventOf(op) + ", " + StreamOf(op) + ")");
      case OpKind::kStreamWaitEvent: return cuda("cudaStreamWaitEvent(" + StreamOf(op) + ", " + EventOf(op) + ", 0)");
      case OpKind::kKernel: return Line("CUDA(cudaMemsetAsync(out, 0, 64, " + StreamOf(op) + "));  // in place of a kernel");
      case OpKind::kHostFunction: return cuda("cudaLaunchHostFunc(" + StreamOf(op) + ", Nothing, nullptr)");
      case OpKind::kGraphLaunch: return cuda("cudaGraphLaunch(" + GraphOf(op) + ", " + StreamOf(op) + ")");
      case OpKind::kCaptureBegin: return Line("Capture(me, " + StreamOf(op) + ");");
      case OpKind::kCaptureEnd: return Line(GraphOf(op) + " = EndCapture(me, " + StreamOf(op) + ");");
      case OpKind::kStreamSync: return cuda("cudaStreamSynchronize(" + StreamOf(op) + ")");
      case OpKind::kEventSync: return cuda("cudaEventSynchronize(" + EventOf(op) + ")");
      case OpKind::kDeviceSync: return cuda("cudaDeviceSynchronize()");
      case OpKind::kFree: return cuda("cudaFree(scratch" + std::to_string(++frees_) + ")");
      case OpKind::kCopy:
        if (op.symbol.find("Async") == std::string::npos) return cuda("cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost)");
        return cuda("cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, " + StreamOf(op) + ")");
      case OpKind::kPoll: {
        const std::string query = op.event >= 0 ? "cudaEventQuery(" + EventOf(op) + ")" : "cudaStreamQuery(" + StreamOf(op) + ")";
        return Line("Poll(me, " + Quoted(query) + ", [&] { return " + query + "; });");
      }
      case OpKind::kSleep: return Line("SleepForEver(me);");
      case OpKind::kSpin: return Line("ComputeForEver(me);");
      case OpKind::kExit: return Line("Leave(me, " + std::to_string(op.exit_code) + ");");
      case OpKind::kKill: return Line("Signal(me, " + std::to_string(op.exit_code) + ");");
      case OpKind::kStop: return Line("Signal(me, SIGSTOP);");
      default: return nccl(Operation(op));
    }
  }

  std::string Operation(const Op& op) const {
    const std::string count = std::to_string(op.count) + ", " + TypeOf(op).name;
    const std::string reduce = ", " + OperatorOf(op);
    const std::string root = ", " + std::to_string(op.root_or_peer);
    const std::string end = ", " + Comm(op.comm) + ", " + StreamOf(op) + ")";
    switch (op.kind) {
      case OpKind::kAllReduce: return "ncclAllReduce(in, out, " + count + reduce + end;
      case OpKind::kAllGather: return "ncclAllGather(in, out, " + count + end;
      case OpKind::kReduceScatter: return "ncclReduceScatter(in, out, " + count + reduce + end;
      case OpKind::kBroadcast: return "ncclBroadcast(in, out, " + count + root + end;
      case OpKind::kReduce: return "ncclReduce(in, out, " + count + reduce + root + end;
      case OpKind::kAllToAll: return "ncclAlltoAll(in, out, " + count + end;
      case OpKind::kGather: return "ncclGather(in, out, " + count + root + end;
      case OpKind::kScatter: return "ncclScatter(in, out, " + count + root + end;
      case OpKind::kSend: return "ncclSend(in, " + count + root + end;
      default: return "ncclRecv(out, " + count + root + end;
    }
  }

  const Schedule& schedule_;
  const int rank_;
  const RankProgram& program_;
  const std::map<std::pair<OpId, Gate::Moment>, int>& marks_;
  std::string text_, site_;
  size_t indent_ = 2;
  int frees_ = 0, windows_ = 0;
};

class Writer {
 public:
  Writer(const Schedule& schedule, const CxxOptions& options) : schedule_(schedule), options_(options) {}

  std::string Write() {
    for (const RankProgram& rank : schedule_.ranks) {
      for (const ThreadProgram& thread : rank.threads) {
        for (const Op& op : thread.ops) {
          for (const Gate& gate : op.gates) marks_.try_emplace({gate.after, gate.moment}, static_cast<int>(marks_.size()));
        }
      }
    }
    const std::string ranks = Ranks();
    std::string helpers;
    for (int i = 0; i < kCxxHelperCount; ++i) {
      if (ranks.find(kCxxHelpers[i].call) != std::string::npos) helpers += kCxxHelpers[i].text;
    }
    return Header() + Includes() + Constants() + std::string(kCxxBeforeRanks) + helpers + ranks + Tables() + std::string(kCxxAfterRanks);
  }

 private:
  std::string Header() const {
    const Origin& origin = schedule_.origin;
    const std::string binary = options_.file.substr(0, options_.file.rfind('.'));
    const bool fixed = !options_.fix.empty();
    std::string text = "// A replay written by gordian " + std::string(kVersion) + (fixed ? ": the small program that hung, with one change, so that it ends.\n//\n" : ": a small program that hangs as the recorded job did.\n//\n");
    if (fixed) text += Wrapped("Change    ", options_.fix);
    text += Wrapped(fixed ? "Was       " : "Verdict   ", Describe(origin.signature) + (origin.confidence.empty() ? "" : ", " + origin.confidence) +
                                      (origin.check.empty() ? "" : " [" + origin.check + "]"));
    if (!origin.summary.empty()) text += Wrapped("          ", origin.summary);
    text += Wrapped("Recorded  ", origin.command.empty() ? origin.source : origin.command);
    text += Wrapped("          ", Plural(origin.ranks, "rank") + ", " + Plural(origin.operations, "operation") + " of NCCL, " +
                                      Plural(origin.records, "record") + "; gordian " + origin.gordian_version);
    text += Wrapped("Here      ", Plural(schedule_.ranks.size(), "rank") + ", " + Plural(CountOperations(schedule_), "operation") +
                                      (marks_.empty() ? "" : ", " + Plural(marks_.size(), "mark") + " that keep the recorded order"));
    text += Wrapped("Verified  ", options_.verified.empty() ? "not yet" : options_.verified);
    for (const std::string& note : origin.notes) text += Wrapped("Note      ", note);
    text += "//\n";
    text += "// Build     g++ -std=c++17 -O1 -g -pthread " + options_.file + " -o " + binary + " -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lnccl -lcudart\n";
    text += "// Run       ./" + binary + "         on as many GPUs as ranks; or on none: gordian run --emulator -- ./" + binary + "\n";
    text += "//           --free               do not force the recorded order between threads\n";
    text += "//           --patience SECONDS   how long nobody may move before it counts as a hang (20)\n";
    text += fixed ? "// Expect    exit code 0: all ranks ended. 42: it hangs, and the position of each rank. 3: something else\n"
                  : "// Expect    exit code 42: reproduced, and the position of each rank. 0: all ranks ended. 3: something else\n";
    return text;
  }

  static std::string Includes() {
    std::string text;
    for (const char* const header : {"cuda_runtime.h", "nccl.h", "signal.h", "sys/mman.h", "sys/prctl.h", "sys/wait.h", "time.h", "unistd.h",
                                     "", "atomic", "cstdio", "cstdlib", "cstring", "initializer_list", "thread", "utility", "vector"}) {
      text += *header == 0 ? "\n" : "#include <" + std::string(header) + ">\n";
    }
    return text + "\nnamespace {\n\n";
  }

  std::string Constants() const {
    size_t threads = 1;
    uint64_t bytes = kLeastBuffer;
    bool windows = false;
    for (const RankProgram& rank : schedule_.ranks) {
      threads = std::max(threads, rank.threads.size());
      for (const ThreadProgram& thread : rank.threads) {
        for (const Op& op : thread.ops) {
          windows |= op.kind == OpKind::kWindowRegister;
          if (!IsOperation(op.kind)) continue;
          const uint64_t members = schedule_.comms[static_cast<size_t>(op.comm)].members.size();
          const bool wide = op.kind == OpKind::kAllGather || op.kind == OpKind::kReduceScatter || op.kind == OpKind::kAllToAll ||
                            op.kind == OpKind::kGather || op.kind == OpKind::kScatter;
          bytes = std::max(bytes, op.count * TypeOf(op).bytes * (wide ? members : 1));
        }
      }
    }
    std::string text = "constexpr int kRanks = " + std::to_string(schedule_.ranks.size()) + ";\n";
    text += "constexpr int kThreads = " + std::to_string(threads) + ";  // of a rank, at most\n";
    text += "constexpr int kComms = " + std::to_string(schedule_.comms.size()) + ";\n";
    text += "constexpr int kMarks = " + std::to_string(marks_.size()) + ";\n";
    text += "constexpr size_t kBufferBytes = " + std::to_string(bytes) + ";\n";
    if (windows) text += "constexpr size_t kWindowBytes = " + std::to_string(kWindowBytes) + ";\n";
    return text;
  }

  // Ranks whose functions are the same share one.
  std::string Ranks() {
    std::vector<std::pair<std::string, std::vector<int>>> bodies;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const std::string body = RankWriter(schedule_, rank, marks_).Write();
      auto same = std::find_if(bodies.begin(), bodies.end(), [&](const auto& other) { return other.first == body; });
      if (same == bodies.end()) same = bodies.insert(bodies.end(), {body, {}});
      same->second.push_back(static_cast<int>(rank));
    }
    functions_.resize(schedule_.ranks.size());
    std::string text;
    for (const auto& [body, ranks] : bodies) {
      const std::string name = "Rank" + std::to_string(ranks[0]);
      std::vector<int> originals;
      for (const int rank : ranks) {
        functions_[static_cast<size_t>(rank)] = name;
        originals.push_back(schedule_.ranks[static_cast<size_t>(rank)].rank);
      }
      const bool renumbered = originals != ranks;
      text += "\n" + Wrapped("", Names(ranks) + (renumbered ? "; " + Names(originals) + " of the recorded job." : "."));
      text += "void " + name + "(Thread& me) {\n" + body + "}\n";
    }
    return text;
  }

  std::string Tables() const {
    std::string text = "\nconstexpr void (*kRankFunctions[kRanks])(Thread&) = {";
    for (size_t i = 0; i < functions_.size(); ++i) text += (i == 0 ? "" : ", ") + functions_[i];
    text += "};\nconstexpr int kCreator[kComms + 1] = {";  // one more: no array is empty
    for (const Communicator& comm : schedule_.comms) text += std::to_string(Creator(comm)) + ", ";
    text += "-1};  // of unique ids\nconstexpr int kExpectedEnds[kRanks] = {";
    for (size_t i = 0; i < schedule_.ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ExpectedEnd(schedule_.ranks[i]));
    text += "};  // exit codes\n\nvoid SetEnvironment() {";
    for (const auto& [name, value] : schedule_.environment) text += "\n  setenv(" + Quoted(name) + ", " + Quoted(value) + ", 1);";
    return text + (schedule_.environment.empty() ? "}\n" : "\n}\n");
  }

  // Whoever calls what makes it; -1: split off another one.
  int Creator(const Communicator& comm) const {
    const int place = static_cast<int>(&comm - schedule_.comms.data());
    if (comm.ready) return comm.parent >= 0 ? -1 : comm.members.front();
    for (const int member : comm.members) {
      if (member < 0) continue;
      for (const ThreadProgram& thread : schedule_.ranks[static_cast<size_t>(member)].threads) {
        for (const Op& op : thread.ops) {
          if (op.kind == OpKind::kCommInit && op.comm == place) return member;
        }
      }
    }
    return -1;
  }

  static int ExpectedEnd(const RankProgram& rank) {
    for (const ThreadProgram& thread : rank.threads) {
      for (const Op& op : thread.ops) {
        if (op.kind == OpKind::kExit) return op.exit_code;
        if (op.kind == OpKind::kKill) return 128 + op.exit_code;
      }
    }
    return 0;
  }

  const Schedule& schedule_;
  const CxxOptions& options_;
  std::map<std::pair<OpId, Gate::Moment>, int> marks_;
  std::vector<std::string> functions_;
};

}  // namespace

std::string WriteCxx(const Schedule& schedule, const CxxOptions& options) { return Writer(schedule, options).Write(); }

}  // namespace gordian::replayer
