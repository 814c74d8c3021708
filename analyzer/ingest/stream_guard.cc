#include "analyzer/ingest/stream_guard.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace gordian::analyzer {

StreamGuard::StreamGuard(StreamLimits limits) : limits_(limits), thread_([this] { Run(); }) {}

StreamGuard::~StreamGuard() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

size_t StreamGuard::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

void StreamGuard::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = Clock::time_point::max();
    for (auto it = hurried_.begin(); it != hurried_.end();) {
      if (it->second <= now) {
        spdlog::warn("ingest: {} kept a stream waiting for {} s, which ends it", it->first->peer(),
                     static_cast<double>(limits_.patience.count()) / 1e3);
        it->first->TryCancel();  // under the lock: its Place cannot go meanwhile
        it = hurried_.erase(it);
      } else {
        next = std::min(next, it->second);
        ++it;
      }
    }
    if (next == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

StreamGuard::Place::Place(StreamGuard* guard, grpc::ServerContext* context)
    : guard_(guard), context_(context) {
  const std::lock_guard lock(guard_->mutex_);
  if (guard_->streams_++ >= guard_->limits_.most) {
    refused_ = fmt::format("this analyzer has {} streams, the most that it takes at once",
                           guard_->limits_.most);
  }
}

StreamGuard::Place::~Place() {
  const std::lock_guard lock(guard_->mutex_);
  guard_->hurried_.erase(context_);
  --guard_->streams_;
}

void StreamGuard::Place::Hurry() {
  const std::lock_guard lock(guard_->mutex_);
  guard_->hurried_[context_] = Clock::now() + guard_->limits_.patience;
  guard_->changed_.notify_all();
}

void StreamGuard::Place::Relax() {
  const std::lock_guard lock(guard_->mutex_);
  guard_->hurried_.erase(context_);
}

}  // namespace gordian::analyzer
