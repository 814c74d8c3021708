#include "replayer/write/cxx_writer.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "common/version.h"
#include "replayer/write/cxx_bench_tables.h"
#include "replayer/write/cxx_rank_writer.h"
#include "replayer/write/cxx_scaffold.h"

namespace gordian::replayer {
namespace {

constexpr size_t kWidth = 110;
constexpr uint64_t kWindowBytes = 1 << 20;
constexpr uint64_t kLeastBuffer = 1 << 16;

// "// " lines of at most kWidth characters; the first begins with `first`, the rest with as many
// spaces.
std::string Wrapped(const std::string& first, const std::string& text) {
  std::string out, line = "// " + first;
  std::istringstream words(CxxCommented(text));
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
  return out + CxxCommented(line) + "\n";
}

std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string Names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

class Writer {
 public:
  Writer(const Schedule& schedule, const CxxOptions& options)
      : schedule_(schedule), options_(options) {}

  std::string Write() {
    ForEachOp(schedule_, [&](size_t, size_t, const Op& op) {
      for (const Gate& gate : op.gates)
        marks_.try_emplace({gate.after, gate.moment}, static_cast<int>(marks_.size()));
    });
    const std::string ranks = Ranks();
    std::string helpers;
    for (int i = 0; i < kCxxHelperCount; ++i) {
      if (ranks.find(kCxxHelpers[i].call) != std::string::npos) helpers += kCxxHelpers[i].text;
    }
    std::string text = Header() + Includes() + Constants() + std::string(kCxxBeforeRanks);
    if (options_.benchmark)
      text += CxxBenchTables(schedule_, timed_) + std::string(kCxxBenchBeforeRanks);
    text += helpers + ranks + Tables() + std::string(kCxxRunRank) + std::string(kCxxWatch);
    return text + std::string(options_.benchmark ? kCxxBenchMain : kCxxMain);
  }

 private:
  std::string Header() const {
    const Origin& origin = schedule_.origin;
    const std::string binary = options_.file.substr(0, options_.file.rfind('.'));
    const bool fixed = !options_.fix.empty();
    if (options_.benchmark) return BenchHeader(binary);
    std::string text =
        "// A replay written by gordian " + std::string(kVersion) +
        (fixed ? ": the small program that hung, with one change, so that it ends.\n//\n"
               : ": a small program that hangs as the recorded job did.\n//\n");
    if (fixed) text += Wrapped("Change    ", options_.fix);
    text += Wrapped(fixed ? "Was       " : "Verdict   ",
                    Describe(origin.signature) +
                        (origin.confidence.empty() ? "" : ", " + origin.confidence) +
                        (origin.check.empty() ? "" : " [" + origin.check + "]"));
    if (!origin.summary.empty()) text += Wrapped("          ", origin.summary);
    text += Provenance() + Usage(binary);
    text += "//           --free               do not force the recorded order between threads\n";
    text +=
        "//           --patience SECONDS   how long no rank may move before it counts as a hang "
        "(20)\n";
    text += fixed ? "// Expect    exit code 0: all ranks ended. 42: it hangs, and the position of "
                    "each rank. 3: something else\n"
                  : "// Expect    exit code 42: reproduced, and the position of each rank. 0: all "
                    "ranks ended. 3: something else\n";
    return text;
  }

  std::string BenchHeader(const std::string& binary) const {
    std::string text = "// A replay written by gordian " + std::string(kVersion) +
                       ": the communication of a recorded job, as a benchmark.\n//\n";
    text += Provenance() + Usage(binary);
    text +=
        "//           --repeat COUNT       how often, after one repetition that is not counted "
        "(20)\n";
    text +=
        "//           --patience SECONDS   how long no rank may move before it counts as a hang "
        "(60)\n";
    return text +
           "// Expect    exit code 0: all results were right; the times are printed. 42: it hangs. "
           "3: a wrong result, or something else\n";
  }

  std::string Provenance() const {
    const Origin& origin = schedule_.origin;
    std::string text =
        Wrapped("Recorded  ", origin.command.empty() ? origin.source : origin.command);
    text += Wrapped("          ", Plural(origin.ranks, "rank") + ", " +
                                      Plural(origin.operations, "operation") + " of NCCL, " +
                                      Plural(origin.records, "record") + "; gordian " +
                                      origin.gordian_version);
    text += Wrapped("Here      ", Plural(schedule_.ranks.size(), "rank") + ", " +
                                      Plural(CountOperations(schedule_), "operation") +
                                      (marks_.empty() ? ""
                                                      : ", " + Plural(marks_.size(), "mark") +
                                                            " that keep the recorded order"));
    text += Wrapped("Verified  ", options_.verified.empty() ? "not yet" : options_.verified);
    for (const std::string& note : origin.notes) text += Wrapped("Note      ", note);
    return text + "//\n";
  }

  std::string Usage(const std::string& binary) const {
    return "// Build     g++ -std=c++17 -O1 -g -pthread " + options_.file + " -o " + binary +
           " -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lnccl -lcudart\n" + "// Run       ./" +
           binary + "         on as many GPUs as ranks; or on none: gordian run --emulator -- ./" +
           binary + "\n";
  }

  std::string Includes() const {
    std::string text;
    for (const char* const header :
         {"cuda_runtime.h", "nccl.h", "signal.h", "sys/mman.h", "sys/prctl.h", "sys/wait.h",
          "time.h", "unistd.h", "", options_.benchmark ? "algorithm" : nullptr, "atomic", "cstdio",
          "cstdlib", "cstring", "initializer_list", "thread", "utility", "vector"}) {
      if (header == nullptr) continue;
      text += *header == 0 ? "\n" : "#include <" + std::string(header) + ">\n";
    }
    return text + "\nnamespace {\n\n";
  }

  std::string Constants() const {
    size_t threads = 1;
    uint64_t bytes = kLeastBuffer;
    bool windows = false;
    for (const RankProgram& rank : schedule_.ranks)
      threads = std::max(threads, rank.threads.size());
    ForEachOp(schedule_, [&](size_t, size_t, const Op& op) {
      windows |= op.kind == OpKind::kWindowRegister;
      if (!IsOperation(op.kind)) return;
      const uint64_t members = schedule_.comms[static_cast<size_t>(op.comm)].members.size();
      // What is no type of NCCL's is written as one of a byte.
      const uint64_t element = std::max<uint64_t>(model::DatatypeBytes(op.datatype), 1);
      bytes = std::max(bytes, model::LargestBuffer(CallOf(op.kind), op.count, members) * element);
    });
    std::string text = "constexpr int kRanks = " + std::to_string(schedule_.ranks.size()) + ";\n";
    text += "constexpr int kThreads = " + std::to_string(threads) + ";  // of a rank, at most\n";
    text += "constexpr int kComms = " + std::to_string(schedule_.comms.size()) + ";\n";
    text += "constexpr int kMarks = " + std::to_string(marks_.size()) + ";\n";
    text += "constexpr size_t kBufferBytes = " + std::to_string(bytes) + ";\n";
    if (windows) text += "constexpr size_t kWindowBytes = " + std::to_string(kWindowBytes) + ";\n";
    return text;
  }

  // Ranks with equal functions share one.
  std::string Ranks() {
    std::vector<std::pair<std::string, std::vector<int>>> bodies;
    timed_.resize(schedule_.ranks.size());
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const std::string body = options_.benchmark
                                   ? WriteCxxBenchRank(schedule_, rank, &timed_[rank])
                                   : WriteCxxRank(schedule_, rank, marks_);
      auto same = std::find_if(bodies.begin(), bodies.end(),
                               [&](const auto& other) { return other.first == body; });
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
      text += "\n" + Wrapped("", Names(ranks) +
                                     (renumbered ? "; " + Names(originals) + " of the recorded job."
                                                 : "."));
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
    for (size_t i = 0; i < schedule_.ranks.size(); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(ExpectedEnd(schedule_.ranks[i]));
    text += "};  // exit codes\n\nvoid SetEnvironment() {";
    for (const auto& [name, value] : schedule_.environment)
      text += "\n  setenv(" + CxxQuoted(name) + ", " + CxxQuoted(value) + ", 1);";
    return text + (schedule_.environment.empty() ? "}\n" : "\n}\n");
  }

  // The rank that makes its unique id; -1: split from another.
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
  CxxMarks marks_;
  std::vector<std::string> functions_;
  std::vector<std::vector<const Op*>> timed_;  // by rank, of a benchmark
};

}  // namespace

std::string WriteCxx(const Schedule& schedule, const CxxOptions& options) {
  return Writer(schedule, options).Write();
}

}  // namespace gordian::replayer
