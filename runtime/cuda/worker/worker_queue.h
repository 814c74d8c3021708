// Holds detached operations from their call until they are in the resident worker's list: until the
// stream that they were called on has come to them. Gives each a ticket. Without CUDA.
//
// The queue publishes operations of one key in the order of their calls, whichever of their streams
// is first: an operation whose stream has come to it waits here for those of its key before it.
//
// Thread rule: one thread at a time (the owner's lock), except IsDone. Ownership: the maker owns
// WorkerHost, which must outlive the queue. Errors: Added; nothing else fails.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_QUEUE_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/cuda/worker/worker_list.h"

namespace gordian::runtime::cuda {

class WorkerQueue {
 public:
  // `ports`: see WorkerList.
  WorkerQueue(WorkerHost* host, const WorkerGaps& gaps, uint32_t ports = 0)
      : host_(host), list_(host, gaps, ports) {}

  using Added = WorkerList::Added;
  // The caller hands an operation over. `is_ready`: the queue may publish it now; else the caller
  // calls Ready later. kMustRing: the caller must wake the watcher. kFull, kTooManyPorts: nothing
  // has changed. `point`: see WorkerList::Add.
  template <typename Point>
  Added Add(const WorkerOperation& operation, bool is_ready, uint32_t* ticket, Point&& point) {
    if (!IsDone(next_ - kTickets)) return Added::kFull;
    const Key key = {operation.port, operation.key};
    const auto line = lines_.find(key);
    if (is_ready && line == lines_.end()) {
      const Added added = list_.Add(operation, next_, point);
      if (added == Added::kTold || added == Added::kMustRing) *ticket = next_++;
      return added;
    }
    if (!list_.Know(operation)) return Added::kTooManyPorts;
    *ticket = next_++;
    lines_[key].push_back({*ticket, is_ready, operation, nullptr});
    key_of_.emplace(*ticket, key);
    return Added::kTold;
  }
  // The stream has come to an operation. Returns whether the caller must wake the watcher.
  template <typename Point>
  bool Ready(uint32_t ticket, Point&& point) {
    Held* const held = Find(ticket);
    if (held == nullptr) return false;  // forgotten
    held->is_ready = true;
    return Publish(key_of_.at(ticket), point);
  }
  // Publishes operations that had no room in the list. Returns whether the caller must wake the
  // watcher.
  template <typename Point>
  bool Flush(Point&& point) {
    bool rings = false;
    for (const Key& key : std::exchange(full_, {})) rings = Publish(key, point) || rings;
    return rings;
  }
  // Ends an operation to which its stream will not come.
  void Cancel(uint32_t ticket);
  // See WorkerList::Forget; also ends the port's operations that are not published.
  void Forget(uint64_t port);
  // Ends all operations, after a failure of the worker.
  void EndAll();

  // Note attaches an object to an operation that is held back. NotesBefore gives the objects of the
  // operations of its key up to it: a wait for it must first wait for these.
  void Note(uint32_t ticket, std::shared_ptr<void> note);
  std::vector<std::shared_ptr<void>> NotesBefore(uint32_t ticket) const;

  // Whether it is done, or was ended without that. Any thread.
  bool IsDone(uint32_t ticket) const {
    return static_cast<int32_t>(__atomic_load_n(WordOf(ticket), __ATOMIC_ACQUIRE) - ticket) >= 0;
  }
  // The word that reaches `ticket` when the operation is over (as cuStreamWaitValue32's GEQ
  // compares: by a signed difference).
  uint32_t* WordOf(uint32_t ticket) const { return &host_->ended[ticket % kTickets]; }
  // For the watcher.
  WorkerList* list() { return &list_; }
  const WorkerList* list() const { return &list_; }
  bool HoldsBack() const { return !lines_.empty(); }

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  struct Held {
    uint32_t ticket;
    bool is_ready;
    WorkerOperation operation;
    std::shared_ptr<void> note;
  };
  Held* Find(uint32_t ticket);
  void End(uint32_t ticket) { __atomic_store_n(WordOf(ticket), ticket, __ATOMIC_RELEASE); }

  template <typename Point>
  bool Publish(const Key& key, Point& point) {
    const auto at = lines_.find(key);
    if (at == lines_.end()) return false;
    std::deque<Held>& line = at->second;
    bool rings = false;
    while (!line.empty() && line.front().is_ready) {
      const Added added = list_.Add(line.front().operation, line.front().ticket, point);
      if (added == Added::kFull || added == Added::kTooManyPorts) {
        full_.insert(key);
        return rings;
      }
      rings = rings || added == Added::kMustRing;
      key_of_.erase(line.front().ticket);
      line.pop_front();
    }
    if (line.empty()) lines_.erase(at);
    return rings;
  }

  WorkerHost* const host_;
  WorkerList list_;
  uint32_t next_ = 1;
  std::map<Key, std::deque<Held>> lines_;  // none is empty
  std::map<uint32_t, Key> key_of_;         // of those in lines
  std::set<Key> full_;                     // lines whose first operation is ready
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_QUEUE_H_
