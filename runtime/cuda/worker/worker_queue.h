// From a call to the resident worker's list: tickets, and operations that are not published yet,
// since the stream that they were called on has not come to them. Without CUDA.
//
// The queue publishes operations of one key in the order of their calls, whichever of their streams
// is first: an operation whose stream has come to it waits here for those of its key before it.
//
// Thread rule: one thread at a time (the owner's lock), but for IsDone.
// Ownership: the memory is the maker's.
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
  // Hands an operation over; `is_ready`: it may be published now, else Ready() will say so. After
  // kMustRing the watcher must be woken; after kFull and kTooManyPorts nothing has changed.
  // `point`: see WorkerList::Add.
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
  // The stream has come to an operation. Whether the watcher must be woken.
  template <typename Point>
  bool Ready(uint32_t ticket, Point&& point) {
    Held* const held = Find(ticket);
    if (held == nullptr) return false;  // forgotten
    held->is_ready = true;
    return Publish(key_of_.at(ticket), point);
  }
  // Publishes what had no room in the list. Whether the watcher must be woken.
  template <typename Point>
  bool Flush(Point&& point) {
    bool rings = false;
    for (const Key& key : std::exchange(full_, {})) rings = Publish(key, point) || rings;
    return rings;
  }
  // An operation whose stream will not come to it: it is over.
  void Cancel(uint32_t ticket);
  // See WorkerList; operations of the port that are not published are over.
  void Forget(uint64_t port);
  // All that were handed over are over: for when nothing works any more.
  void EndAll();

  // What to wait for before an operation can have been published: what was noted with those that
  // are held back in its line, up to it.
  void Note(uint32_t ticket, std::shared_ptr<void> note);
  std::vector<std::shared_ptr<void>> NotesBefore(uint32_t ticket) const;

  // Done, or over. Any thread.
  bool IsDone(uint32_t ticket) const {
    return static_cast<int32_t>(__atomic_load_n(WordOf(ticket), __ATOMIC_ACQUIRE) - ticket) >= 0;
  }
  // From which on the operation is (a signed difference, as of cuStreamWaitValue32's GEQ).
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
