#include "cli/watch/status_follower.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "common/clock.h"
#include "common/service_thread.h"

namespace gordian::cli {
namespace {

// Asking an analyzer is cheap, but for a job of very many ranks.
constexpr uint64_t kAskEveryNs = 250 * kNsPerMs;
constexpr uint64_t kAskShare = 4;
// Reading a job from its files is costly: do it at most this often, and for at most a tenth of the
// time.
constexpr uint64_t kReadEveryNs = kNsPerSecond;
constexpr uint64_t kReadShare = 10;

int MakeEvent() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return fd;
}

}  // namespace

StatusFollower::StatusFollower(StatusSource source, bool with_data)
    : source_(std::move(source)), with_data_(with_data), fd_(MakeEvent()) {
  thread_ = MakeServiceThread("gordian-look", [this] { Follow(); });
}

StatusFollower::~StatusFollower() {
  (void)End();
  thread_.join();
  close(fd_);
}

bool StatusFollower::End() {
  const std::lock_guard lock(mutex_);
  end_ = true;
  wake_.notify_all();
  return !looking_;
}

std::optional<StatusNews> StatusFollower::Take() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  (void)!read(fd_, &count, sizeof count);
  return std::exchange(news_, std::nullopt);
}

StatusNews StatusFollower::Look() {
  const uint32_t stops = stops_;
  StatusOr<SeenStatus> seen = source_.Look(with_data_);
  if (!seen.ok() && stops != stops_) seen = source_.Look(with_data_);
  StatusNews news{.seen = std::move(seen)};
  if (with_data_ && news.seen.ok()) {
    news.data = MakeWatchData(*news.seen, source_.title(), source_.session());
  }
  return news;
}

void StatusFollower::Follow() {
  std::unique_lock lock(mutex_);
  while (!end_) {
    looking_ = true;
    lock.unlock();
    const uint64_t begin = MonoNs();
    StatusNews news = Look();
    const uint64_t took = MonoNs() - begin;
    const bool last = !news.seen.ok() || !news.seen->running;
    const bool live = news.seen.ok() && news.seen->live;
    lock.lock();
    looking_ = false;
    news_ = std::move(news);
    const uint64_t one = 1;
    (void)!write(fd_, &one, sizeof one);
    if (last) return;
    const uint64_t period =
        live ? std::max(kAskEveryNs, kAskShare * took) : std::max(kReadEveryNs, kReadShare * took);
    const auto rest = std::chrono::nanoseconds(period - std::min(period, took));
    wake_.wait_for(lock, rest, [this] { return end_; });
  }
}

}  // namespace gordian::cli
