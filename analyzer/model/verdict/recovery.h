// Whether a cycle could be broken without a change that the program can observe, and what became of
// it. Plain data (docs/recovery.md).
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_RECOVERY_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/facts/event.h"

namespace gordian::model {

struct Site {  // an address; CallSites resolves it to function, file and line
  ProcessId process = 0;
  uint64_t address = 0;

  friend bool operator==(const Site&, const Site&) = default;
};

// The conditions of a recovery, by the numbers of docs/recovery.md.
enum class RecoveryCondition : uint8_t {
  kHold,      // all of them
  kHardEdge,  // something else than the order of operations holds one up
  kPosted,    // R1
  kAcyclic,   // R2
  kIntact,    // R3
  kAbort,     // R4
  kOneHost,   // R5
  kSeen,      // R6
  kAgree,     // R7
  kFailed,    // none: it was begun, and did not end well
};
const char* Name(RecoveryCondition);  // "", "hard", "R1", as in verdict.json
std::optional<RecoveryCondition> RecoveryConditionByName(std::string_view name);

// An operation of one rank that a recovery would execute again.
struct RecoveryUnit {
  ProcessId process = 0;
  uint32_t pid = 0;
  int rank = -1;
  int communicator = -1;  // equal for equal communicators
  CommId comm = 0;        // at the process
  uint64_t sequence = 0;
  StreamId stream = 0;
  uint64_t ordinal = 0;
  // Its input is there once those of the units `after` (places among this process's units) are,
  // since nothing but operations stands between. False: once the stream has come to it.
  bool early = false;
  std::vector<uint32_t> after;
  std::string operation;  // "AllReduce #1 on dp"
  Site site;

  friend bool operator==(const RecoveryUnit&, const RecoveryUnit&) = default;
};

// A member of a communicator that a recovery takes from NCCL.
struct RecoveryMember {
  uint32_t pid = 0;
  int rank = -1;
  int communicator = -1;  // as RecoveryUnit's
  CommId comm = 0;        // at the process

  friend bool operator==(const RecoveryMember&, const RecoveryMember&) = default;
};

// At most so many units that a unit's input may depend on; one with more is not `early`.
inline constexpr size_t kMostAfter = 4;

struct Recovery {
  bool checked = false;  // false: the finding is none that this is a question of
  RecoveryCondition refused = RecoveryCondition::kHold;
  std::string why;  // one sentence; empty: all conditions hold
  int rank = -1;    // that the sentence is about; -1: none
  Site site;
  std::vector<std::string> operations;  // "AllReduce #1 on dp", each once
  // By these names of communicators --collectives=preemptive:NAME,... takes the cycle out of the
  // way. Empty where refused, where a communicator has no name that can be said there, and of a
  // cycle through events.
  std::vector<std::string> lend;
  std::vector<RecoveryUnit> units;      // empty where refused; by process, in the order of calls
  std::vector<RecoveryMember> members;  // empty where refused; also those that have called nothing
  // What became of it, where gordian was asked to recover.
  bool recovered = false;
  double ms = 0;  // from the first request to the last rank's answer

  friend bool operator==(const Recovery&, const Recovery&) = default;
};

// What a recovery has come to.
struct RecoveryNews {
  enum class Step : uint8_t { kBegun, kRefused, kFailed, kDone } step = Step::kBegun;
  std::vector<std::string> operations;  // as Recovery::operations: which cycle it is of
  RecoveryCondition refused = RecoveryCondition::kHold;
  std::string why;
  int rank = -1;
  Site site;
  double ms = 0;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_RECOVERY_H_
