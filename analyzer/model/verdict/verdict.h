// The model's verdict on a job. Plain data; other files render it. Has the fields of verdict.json
// (schema gordian.verdict.v1), with call sites still as addresses.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_VERDICT_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_VERDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/facts/event.h"
#include "analyzer/model/verdict/recovery.h"
#include "analyzer/model/waits/reason.h"

namespace gordian::model {

enum class VerdictKind : uint8_t {
  kInconclusive = 0,  // important evidence is missing; worse than healthy
  kHealthy,
  kFinished,
  kDeadlock,
  kMismatch,
  kRankNotJoined,
  kRankExited,
  kRankStopped,
  kRankAborted,
  kStuckKernel,
  kHostBlocked,
  kInitHang,
};
enum class Confidence : uint8_t { kPossible, kSuspected, kConfirmed };

const char* Name(VerdictKind);  // "deadlock", as in verdict.json
const char* Name(Confidence);   // "confirmed"

// One arrow of the witness: a rank, the operation it is in, and the rank it waits for.
struct WaitEdge {
  int rank = -1;
  int waits_for_rank = -1;
  Reason reason = Reason::kStartedCollective;
  std::string op;  // "AllReduce"; for host waits the call's symbol
  CommUid comm = 0;
  std::string comm_name;
  int64_t sequence = -1;
  uint64_t stream = 0;  // id at that process
  uint64_t bytes = 0;
  Site site;           // of the call in which the rank waits
  std::string detail;  // one line, e.g. "rank 1 has not called Recv #0 ..."
  // What holds the other rank, alike for all numbers and names: "not called", "in a call", "its
  // stream's order", ... Not printed.
  std::string held_by;

  friend bool operator==(const WaitEdge&, const WaitEdge&) = default;
};

enum class PartState : uint8_t { kNotCalled, kCalled, kInOpenGroup, kEnqueued, kAtHead, kDone };

struct OperationMember {
  int rank = -1;
  PartState state = PartState::kNotCalled;
  std::string instead;  // what a member that has not joined does; "": unknown
  Site site;            // of its own call, or of what it does instead

  friend bool operator==(const OperationMember&, const OperationMember&) = default;
};

struct StuckOperation {
  std::string op;
  CommUid comm = 0;
  std::string comm_name;
  int64_t sequence = -1;
  uint64_t bytes = 0;
  std::vector<OperationMember> members;

  friend bool operator==(const StuckOperation&, const StuckOperation&) = default;
};

// A communicator that a finding speaks of.
struct FoundCommunicator {
  CommUid comm = 0;
  std::string name;
  std::vector<int> ranks;  // of the job, ascending; without members that were not seen
  int size = 0;            // of all members
  int made_by = -1;        // the rank that `made_at` is of; -1: that call was not seen
  Site made_at;

  friend bool operator==(const FoundCommunicator&, const FoundCommunicator&) = default;
};

// The process of a culprit.
struct CulpritProcess {
  int rank = -1;
  ProcessId process = 0;
  uint32_t pid = 0;
  std::string node;  // the model does not fill it

  friend bool operator==(const CulpritProcess&, const CulpritProcess&) = default;
};

struct Evidence {
  int ranks_seen = 0;
  int ranks_expected = 0;
  uint64_t records = 0;
  uint64_t records_lost = 0;
  uint64_t nccl_calls = 0;
  std::vector<std::string> not_visible;
  std::vector<std::string> assumes;

  friend bool operator==(const Evidence&, const Evidence&) = default;
};

struct Finding {
  VerdictKind verdict = VerdictKind::kInconclusive;
  std::string check;  // catalogue id, e.g. "communicator-order-cycle"
  Confidence confidence = Confidence::kSuspected;
  std::string summary;  // one line
  std::string advice;
  std::vector<int> culprit_ranks;
  std::vector<CulpritProcess> culprit_processes;  // of those ranks whose process is known
  std::vector<int> victim_ranks;
  std::vector<WaitEdge> cycle;  // empty unless a cycle was found
  std::vector<StuckOperation> operations;
  std::vector<FoundCommunicator> communicators;  // those of `cycle` and `operations`
  uint64_t stalled_at_ns = 0;
  double detected_after_s = 0;
  Recovery recovery;  // of confirmed cycles
  Evidence evidence;

  friend bool operator==(const Finding&, const Finding&) = default;
};

// What a text of Evidence::not_visible says beside its count: "records of rank 0" for "12 records of
// rank 0" and for "1 record of rank 0".
std::string WithoutCount(const std::string& text);

// True for what blames none: the job waits there, and may just be slow.
bool OnlySlow(const Finding&);

// True if nothing that gordian sees moves, and no rank is known to wait for another.
bool StandsStill(const Finding&);
// True for a mismatch that all members have completed: something is wrong, but no rank waits for
// it.
bool IsOver(const Finding& finding);

// Ranks that ended and were restarted.
struct Restarts {
  int times = 0;           // restarts of the most often restarted rank; 0: none
  std::vector<int> ranks;  // that run, or ended, in a later incarnation
  std::string because;     // what preceded the last restart: "rank 1 was killed by signal 9"

  friend bool operator==(const Restarts&, const Restarts&) = default;
};

// A function on the stack of a thread of the job.
struct StackFrame {
  std::string function;  // readable name; empty: unknown
  std::string file;      // of the source; empty: not known
  int line = 0;          // 0: not known
  std::string module;    // of native frames: path of the mapped file
  bool python = false;

  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

// Threads with equal stacks.
struct FoldedStack {
  struct Thread {
    int rank = -1;
    uint32_t pid = 0;
    uint32_t tid = 0;
    std::string name;

    friend bool operator==(const Thread&, const Thread&) = default;
  };
  std::vector<int> ranks;  // ascending, distinct; empty: the processes have no rank
  std::vector<Thread> threads;
  std::vector<StackFrame> frames;  // innermost first

  friend bool operator==(const FoldedStack&, const FoldedStack&) = default;
};

// A fact beside a finding that may explain it. It changes no verdict and blames no rank.
struct Sign {
  std::string check;  // catalogue id, e.g. "waits-in-mpi"
  std::vector<int> ranks;
  std::string text;  // one line

  friend bool operator==(const Sign&, const Sign&) = default;
};

struct Verdict {
  Finding main;                   // the worst
  std::vector<Finding> findings;  // every further one, worst first
  std::vector<Sign> signs;
  Restarts restarts;
  // Confirmed deadlocks after which what could not end has ended: gordian was wrong.
  std::vector<Finding> disproved;
  // Stacks of the stuck threads, culprits first; empty until collectors have read them. The model
  // does not fill it.
  std::vector<FoldedStack> stacks;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_VERDICT_H_
