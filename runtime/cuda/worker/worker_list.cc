#include "runtime/cuda/worker/worker_list.h"

#include <algorithm>
#include <cstring>

namespace gordian::runtime::cuda {

bool WorkerList::Know(const WorkerOperation& operation) {
  if (place_of_.contains(operation.port)) return true;
  const auto is_free = [&](const Place& p) {
    return !p.used && (p.last == 0 || IsDone(p.last - 1));
  };
  uint32_t number = ports_;
  while (number - ports_ < kWorkerPorts && !is_free(places_[number % kWorkerPorts])) ++number;
  if (number - ports_ == kWorkerPorts) return false;
  ports_ = number + 1;
  const uint32_t place = number % kWorkerPorts;
  std::memcpy(host_->ports[place].words, &operation.work, sizeof(PortPattern));
  places_[place] = {true, 0};
  place_of_.emplace(operation.port, place);
  return true;
}

WorkerList::Added WorkerList::Write(const WorkerOperation& operation, uint32_t ticket) {
  // The slot's last operation must be done.
  if (tail_ >= kDetachedEntries && !IsDone(tail_ - kDetachedEntries)) return Added::kFull;
  if (!Know(operation)) return Added::kTooManyPorts;
  const uint32_t place = place_of_.at(operation.port);
  DetachedEntry& entry = host_->entries[tail_ % kDetachedEntries];
  std::memcpy(entry.own, reinterpret_cast<const char*>(&operation.work) + sizeof(PortPattern),
              sizeof entry.own);
  entry.port = place;
  entry.channels = operation.work.channels;
  entry.priority = operation.priority;
  entry.ticket = ticket;
  uint32_t& last = last_[{operation.port, operation.key}];
  // Name the operation before it only if that is unfinished: the number of one that ended long ago
  // may come again, in the same slot.
  entry.after = last != 0 && !IsDone(last - 1) ? last : 0;
  last = places_[place].last = ++tail_;
  return Added::kTold;
}

void WorkerList::Forget(uint64_t port) {
  const auto known = place_of_.find(port);
  if (known == place_of_.end()) return;
  places_[known->second].used = false;
  place_of_.erase(known);
  last_.erase(last_.lower_bound({port, 0}), last_.lower_bound({port + 1, 0}));
}

bool WorkerList::Idle() {
  while (done_ != tail_ && IsDone(done_)) ++done_;
  return done_ == tail_;
}

int64_t WorkerList::StartAt(int64_t now) {
  if (Idle()) return kNever;
  if (bell_ != served_) {
    served_ = bell_;
    gap_ = 0;
    next_ = now;
    return 0;
  }
  return next_ <= now ? 0 : next_;
}

void WorkerList::Starting() {
  ++instance_;
  __atomic_store_n(&host_->life, kStarting, __ATOMIC_SEQ_CST);
}

void WorkerList::Ended(int64_t now) {
  const uint64_t progress = __atomic_load_n(&host_->progress, __ATOMIC_ACQUIRE);
  gap_ = progress != progress_ || gap_ == 0 ? gaps_.first : std::min(gap_ * 2, gaps_.most);
  progress_ = progress;
  next_ = now + gap_;
  const uint32_t ring = __atomic_load_n(&host_->ring, __ATOMIC_ACQUIRE);
  if (ring != ring_) {
    ring_ = ring;
    ++bell_;
  }
}

}  // namespace gordian::runtime::cuda
