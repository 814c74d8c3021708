// Carries out a recovery over the processes of this machine (docs/recovery.md): has every rank close
// its gates and say whether it can, and only when all can, has all of them go on.
//
// Source of the two phases: two-phase commit; a rank that has said yes changes nothing of the job
// until the second.
#ifndef GORDIAN_COLLECTOR_RECOVERY_RECOVERY_H_
#define GORDIAN_COLLECTOR_RECOVERY_RECOVERY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace gordian::collector {

// An operation of one rank; the fields as ring::RecoveryUnit's.
struct RecoveryUnitOrder {
  uint32_t pid = 0;
  int rank = -1;
  int communicator = -1;  // equal for equal communicators, at all ranks
  uint32_t comm = 0;
  uint32_t stream = 0;
  uint64_t sequence = 0;
  uint64_t ordinal = 0;
  bool early = false;
  std::vector<uint32_t> after;
  std::string operation;  // for people: "AllReduce #1 on dp"
};

// A member of one of the communicators that are recovered, with unfinished operations or without.
struct RecoveryMemberOrder {
  uint32_t pid = 0;
  int rank = -1;
  int communicator = -1;
  uint32_t comm = 0;
};

struct RecoveryOutcome {
  enum class How { kRecovered, kRefused, kFailed } how = How::kRefused;
  std::string condition;  // of a refusal: "R3", "hard"; "failed" of a failure
  std::string why;        // one sentence
  int rank = -1;
  double ms = 0;           // until every rank had answered
  size_t unit = SIZE_MAX;  // place in Options::units of the one that `why` is about; SIZE_MAX: none
};

// Runs in a thread of its own, which the destructor joins.
class RecoveryRun {
 public:
  struct Options {
    std::string session_dir;  // where the shims' files are
    std::vector<RecoveryUnitOrder> units;
    std::vector<RecoveryMemberOrder> members;
    uint64_t prepare_ns = 5'000'000'000;    // for all ranks to close their gates
    uint64_t progress_ns = 10'000'000'000;  // without an operation done, before it has failed
    uint64_t cause_ns = 1'000'000'000;      // after one rank has failed, for another to say why
    // On this object's thread. Before the first rank goes on; and at the end.
    std::function<void()> on_begin;
    std::function<void(const RecoveryOutcome&)> on_end;
  };
  explicit RecoveryRun(Options options);
  ~RecoveryRun();
  RecoveryRun(const RecoveryRun&) = delete;
  RecoveryRun& operator=(const RecoveryRun&) = delete;

  bool over() const { return over_; }

 private:
  const Options options_;
  std::atomic<bool> over_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RECOVERY_RECOVERY_H_
