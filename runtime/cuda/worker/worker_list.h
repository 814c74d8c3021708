// The host's half of the resident worker, without CUDA: publishes operations, sees which are done,
// and says when to start an instance. The submitter's and the watcher's side of core/life.h.
//
// Times in nanoseconds. Thread rule: one thread at a time (the owner's lock). Ownership: the maker
// owns WorkerHost, which must outlive the list. Errors: Added; nothing else fails.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_LIST_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_LIST_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/cuda/worker/worker_device.h"

namespace gordian::runtime::cuda {

// Pauses between two instances while an operation is unfinished; nanoseconds. In a pause, work
// behind the worker in a hardware queue of the device continues, and calls that wait for the whole
// device return.
struct WorkerGaps {
  int64_t first = 50'000;  // after an instance that made a step; doubles after each that made none
  int64_t most = 2'000'000;
};

// A detached operation that the caller hands over. All operations with this `port` have the same
// `work` up to `in`. The worker carries those with one `key`, which counts within the port, in
// their order; of others it serves those of a lower `priority` first.
struct WorkerOperation {
  Work work;
  uint64_t port = 0;
  uint64_t key = 0;
  uint32_t priority = 0;
};

class WorkerList {
 public:
  // `ports`: the first pattern's number (for tests).
  WorkerList(WorkerHost* host, const WorkerGaps& gaps, uint32_t ports = 0)
      : gaps_(gaps), host_(host), ports_(ports), places_(kWorkerPorts) {}

  enum class Added { kTold, kMustRing, kFull, kTooManyPorts };
  // Publishes operations in the order of the calls. `ticket`: the value that the operation's end
  // stores in WorkerHost::ended. kTold: the running instance sees it. kMustRing: the caller must
  // wake the watcher. kFull, kTooManyPorts: nothing has changed. Calls `point` where tests let
  // other threads run.
  template <typename Point>
  Added Add(const WorkerOperation& operation, uint32_t ticket, Point&& point) {
    const Added added = Write(operation, ticket);
    if (added != Added::kTold) return added;
    point();
    __atomic_store_n(&host_->published, uint64_t{ports_} << 32 | tail_, __ATOMIC_RELEASE);  // S3
    point();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);                                               // S4
    if (__atomic_load_n(&host_->life, __ATOMIC_ACQUIRE) == kRunning) return Added::kTold;  // S5
    point();
    ++bell_;  // S6
    return Added::kMustRing;
  }

  // Takes a place for the pattern of the operation's port. False: all places are taken.
  bool Know(const WorkerOperation& operation);
  // The caller hands over no more operations with this port's pattern: another port may get its
  // place once its last operation has ended.
  void Forget(uint64_t port);

  // Whether all published operations are done.
  bool Idle();

  // The watcher asks, after the last instance's kernel has ended, when to start the next: at once
  // (0), not before an operation is published (kNever), or at a time of `now`'s clock.
  static constexpr int64_t kNever = INT64_MAX;
  int64_t StartAt(int64_t now);
  void Starting();          // before the launch
  void Ended(int64_t now);  // the kernel has ended
  uint32_t instance() const { return instance_; }

 private:
  Added Write(const WorkerOperation& operation, uint32_t ticket);
  bool IsDone(uint32_t id) const {
    const uint32_t done = __atomic_load_n(&host_->done[id % kDetachedEntries], __ATOMIC_ACQUIRE);
    return static_cast<int32_t>(done - (id + 1)) >= 0;
  }

  const WorkerGaps gaps_;
  WorkerHost* const host_;
  uint32_t tail_ = 0;
  uint32_t ports_;     // patterns published so far; counts the places in use that it skipped, too
  uint32_t done_ = 0;  // operations below it are
  struct Place {
    bool used = false;  // its port is not forgotten
    uint32_t last = 0;  // the number + 1 of its last operation; 0: none
  };
  std::vector<Place> places_;                               // of patterns
  std::map<uint64_t, uint32_t> place_of_;                   // of a port
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> last_;  // of a port's key: number + 1
  uint32_t bell_ = 0, served_ = 0, ring_ = 0;
  uint32_t instance_ = 0;
  uint64_t progress_ = 0;
  int64_t gap_ = 0, next_ = 0;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_LIST_H_
