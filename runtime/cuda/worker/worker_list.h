// The host's half of the resident worker, without CUDA: it publishes operations, sees which are
// done, and says when to start an instance. The submitter's and the watcher's side of core/life.h.
//
// Thread rule: one thread at a time (the owner's lock).
// Ownership: the memory is the maker's.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_LIST_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_LIST_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/cuda/worker/worker_device.h"

namespace gordian::runtime::cuda {

// Waits between two instances while something is unfinished; nanoseconds. In these pauses, work
// behind the worker in a hardware queue of the device goes on, and calls that wait for the whole
// device return.
struct WorkerGaps {
  int64_t first = 50'000;  // after an instance that did something; doubles with each that did not
  int64_t most = 2'000'000;
};

// A detached operation as it is handed over. `work` is the same up to `in` for all operations with
// this `port`. Those with one `key`, which is of its port alone, are carried in their order; of
// others those of a lower `priority` first.
struct WorkerOperation {
  Work work;
  uint64_t port = 0;
  uint64_t key = 0;
  uint32_t priority = 0;
};

class WorkerList {
 public:
  // `ports`: where the count of patterns begins (tests).
  WorkerList(WorkerHost* host, const WorkerGaps& gaps, uint32_t ports = 0)
      : gaps_(gaps), host_(host), ports_(ports), places_(kWorkerPorts) {}

  enum class Added { kTold, kMustRing, kFull, kTooManyPorts };
  // Publishes an operation, in the order of these calls. `ticket`: what its end stores in
  // WorkerHost::ended. After kMustRing the watcher must be woken; after the last two nothing has
  // changed. `point` is called where others may come between (tests).
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

  // Takes a place for the operation's port. False: there is none.
  bool Know(const WorkerOperation& operation);
  // There will be no more operations with this port, as it is: its place is another's once those
  // there are have ended.
  void Forget(uint64_t port);

  // Whether all that was published is done.
  bool Idle();

  // The watcher, while no instance is there (the last one's kernel has ended). When to start the
  // next, by the clock of `now`: at once (0), kNever unless something is published, or then.
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
  uint32_t ports_;     // patterns that were published; places in use are passed over, and counted
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
