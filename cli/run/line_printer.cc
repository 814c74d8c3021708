#include "cli/run/line_printer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gordian::cli {
namespace {

constexpr std::chrono::milliseconds kLastWords(500);

uint64_t LinesIn(std::string_view text) {
  return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

LinePrinter::LinePrinter(std::vector<Stream> streams)
    : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (Stream& stream : streams) {
    lanes_.emplace_back().stream = std::move(stream);
  }
}

LinePrinter::~LinePrinter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
  close(wake_fd_);
}

void LinePrinter::Wake() {
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) {
    // The counter is full, so the descriptor is readable already.
  }
}

void LinePrinter::Keep(Lane* lane, std::string lines) {
  if (lane->gone) {
    return;
  }
  if (lane->bytes + lines.size() > kMostBytes) {
    lane->dropped += LinesIn(lines);
    return;
  }
  if (lane->dropped > 0) {
    lines.insert(0, lane->stream.dropped(std::exchange(lane->dropped, 0)));
  }
  lane->bytes += lines.size();
  lane->waiting.push_back(std::move(lines));
}

void LinePrinter::Say(size_t stream, std::string lines) {
  {
    const std::lock_guard lock(mutex_);
    Keep(&lanes_[stream], std::move(lines));
  }
  Wake();
}

void LinePrinter::Start(size_t stream, std::string first) {
  const std::lock_guard lock(mutex_);
  lanes_[stream].bytes += first.size();
  lanes_[stream].waiting.push_front(std::move(first));
  thread_ = std::thread([this] { Run(); });
}

std::string_view LinePrinter::Next(const Lane& lane) {
  if (lane.waiting.empty()) {
    return {};
  }
  return std::string_view(lane.waiting.front()).substr(lane.written, PIPE_BUF);
}

void LinePrinter::Written(Lane* lane, ptrdiff_t bytes) {
  if (bytes < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return;
    }
    if (errno == EPIPE || errno == EBADF) {  // a reader that closed its end is no error
      lane->gone = true;
      lane->waiting.clear();
      lane->bytes = lane->written = 0;
      return;
    }
    // A full disk, for example: these lines are lost, later ones may fit again.
    lane->dropped += LinesIn(std::string_view(lane->waiting.front()).substr(lane->written));
    lane->bytes -= lane->waiting.front().size();
    lane->written = 0;
    lane->waiting.pop_front();
    return;
  }
  lane->written += static_cast<size_t>(bytes);
  if (lane->written == lane->waiting.front().size()) {
    lane->bytes -= lane->waiting.front().size();
    lane->written = 0;
    lane->waiting.pop_front();
  }
  // No later line would carry the count, so it gets its own.
  if (lane->waiting.empty() && lane->dropped > 0) {
    lane->waiting.push_back(lane->stream.dropped(std::exchange(lane->dropped, 0)));
    lane->bytes = lane->waiting.front().size();
  }
}

void LinePrinter::Run() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::time_point::max();
  while (true) {
    std::vector<pollfd> waits = {{.fd = wake_fd_, .events = POLLIN, .revents = 0}};
    bool left = false;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ && end == Clock::time_point::max()) {
        end = Clock::now() + kLastWords;
      }
      for (const Lane& lane : lanes_) {
        const bool any = !Next(lane).empty();
        left |= any;
        // poll() ignores a descriptor below zero.
        waits.push_back({.fd = any ? lane.stream.fd : -1, .events = POLLOUT, .revents = 0});
      }
    }
    int patience_ms = -1;
    if (end != Clock::time_point::max()) {
      const auto more =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      if (!left || more <= 0) {
        return;
      }
      patience_ms = static_cast<int>(more);
    }
    if (poll(waits.data(), waits.size(), patience_ms) <= 0) {
      continue;
    }
    if (waits[0].revents != 0) {
      uint64_t count = 0;
      if (read(wake_fd_, &count, sizeof count) < 0) {
        // The counter was zero already.
      }
    }
    for (size_t i = 0; i < lanes_.size(); ++i) {
      // Polls again: two streams may be one pipe, which the other stream has just filled.
      if (waits[i + 1].revents == 0 || poll(&waits[i + 1], 1, 0) <= 0) {
        continue;
      }
      // Only this thread changes the first piece; others append behind it.
      std::string_view piece;
      {
        const std::lock_guard lock(mutex_);
        piece = Next(lanes_[i]);
      }
      const ssize_t bytes = write(lanes_[i].stream.fd, piece.data(), piece.size());
      const std::lock_guard lock(mutex_);
      Written(&lanes_[i], bytes);
    }
  }
}

}  // namespace gordian::cli
