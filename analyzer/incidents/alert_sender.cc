#include "analyzer/incidents/alert_sender.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "analyzer/http/http_post.h"
#include "analyzer/incidents/alert_document.h"
#include "common/clock.h"
#include "common/service_thread.h"

namespace gordian::incidents {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

struct Outcome {
  bool sent = false;
  bool again = false;  // may go better later
  std::string why;
};

Outcome OutcomeOf(const http::HttpAnswer& answer) {
  const long code = answer.code;
  if (code == 0) return {.again = true, .why = answer.error};
  if (code >= 200 && code < 300) return {.sent = true};
  return {.again = code == 408 || code == 429 || code >= 500, .why = http::CodeText(code)};
}

}  // namespace

// The queue and the thread of one target.
class AlertSender::Lane {
 public:
  Lane(const AlertSenderOptions& options, const AlertTarget& target)
      : options_(options), target_(target) {
    thread_ = MakeServiceThread("gordian-alert", [this] { Run(); });
  }
  ~Lane() { Stop(); }

  const std::string& key() const { return target_.key; }

  bool Add(const Alert& alert, std::vector<std::string> earlier) {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= options_.most_queued) {
      spdlog::warn(
          "alerts: the queue for {} is full; alert {}-{} waits in the store, if there is one",
          target_.shown, alert.incident, alert.what);
      return false;
    }
    queue_.push_back({.alert = alert, .earlier = std::move(earlier), .number = ++added_});
    wake_.notify_all();
    return true;
  }

  bool Idle() const {
    const std::lock_guard lock(mutex_);
    return queue_.empty();
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Entry {
    Alert alert;
    std::vector<std::string> earlier;
    uint64_t number = 0;  // ascending, as they were added
  };

  void Run() {
    milliseconds wait = options_.first_wait;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      const Entry entry = *Next();
      lock.unlock();
      const Outcome outcome = Try(entry);
      lock.lock();
      if (stopping_ && !outcome.sent) return;
      const auto place = std::find_if(queue_.begin(), queue_.end(), [&](const Entry& other) {
        return other.number == entry.number;
      });
      const uint64_t age_ns = RealNs() - std::min(RealNs(), entry.alert.queued_ns);
      const bool too_old =
          age_ns >= static_cast<uint64_t>(options_.give_up_after.count()) * kNsPerMs;
      if (outcome.again && !too_old) {
        // Another alert may be what the target takes.
        queue_.push_back(*place);
        queue_.erase(place);
        if (!std::exchange(said_, true)) {
          Line(lock,
               "cannot alert " + target_.shown + ": " + outcome.why + "; gordian tries again");
        }
        wake_.wait_for(lock, wait, [this] { return stopping_.load(); });
        wait = std::min(2 * wait, options_.longest_wait);
        continue;
      }
      wait = options_.first_wait;
      if (!outcome.sent) {
        Line(lock, "gives up an alert to " + target_.shown + ": " + outcome.why);
      } else {
        said_ = false;
      }
      lock.unlock();
      if (options_.on_done) options_.on_done(entry.alert, outcome.sent);
      lock.lock();
      std::erase_if(queue_, [&](const Entry& other) { return other.number == entry.number; });
    }
  }

  // The first one before which no other of its incident waits.
  std::deque<Entry>::iterator Next() {
    return std::find_if(queue_.begin(), queue_.end(), [this](const Entry& entry) {
      return std::none_of(queue_.begin(), queue_.end(), [&](const Entry& other) {
        return other.number < entry.number && other.alert.incident == entry.alert.incident;
      });
    });
  }

  Outcome Try(const Entry& entry) {
    const Alert& alert = entry.alert;
    if (target_.kind == AlertTarget::Kind::kExec) {
      const int code = options_.run_command
                           ? options_.run_command(target_.url, AlertVariables(alert.document))
                           : -1;
      if (code == 0) return {.sent = true};
      return {.again = true,
              .why = code < 0 ? "it did not run, or ran too long"
                              : "it ended with exit code " + std::to_string(code)};
    }
    const std::string body = AlertBody(target_.kind, alert.document, entry.earlier, RealNs());
    if (body.empty()) return {.why = "the stored alert is damaged"};
    std::vector<std::string> headers = {"Idempotency-Key: " + alert.incident + "-" + alert.what};
    if (!options_.key.empty()) {
      headers.push_back("X-Gordian-Signature: " + Signature(options_.key, body));
    }
    return OutcomeOf(http::Post({.url = target_.url,
                                 .body = body,
                                 .headers = std::move(headers),
                                 .timeout = options_.timeout,
                                 .stopping = &stopping_}));
  }

  void Line(std::unique_lock<std::mutex>& lock, const std::string& text) {
    lock.unlock();
    spdlog::warn("alerts: {}", text);
    if (options_.on_line) options_.on_line(text);
    lock.lock();
  }

  const AlertSenderOptions& options_;
  const AlertTarget& target_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Entry> queue_;
  uint64_t added_ = 0;
  bool said_ = false;  // that the target does not answer
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

AlertSender::AlertSender(AlertSenderOptions options) : options_(std::move(options)) {
  for (const AlertTarget& target : options_.targets) {
    lanes_.push_back(std::make_unique<Lane>(options_, target));
  }
}

AlertSender::~AlertSender() { Stop(); }

bool AlertSender::Send(const Alert& alert, std::vector<std::string> earlier) {
  for (const auto& lane : lanes_) {
    if (lane->key() == alert.target) return lane->Add(alert, std::move(earlier));
  }
  return false;
}

bool AlertSender::Idle() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->Idle(); });
}

void AlertSender::Stop() {
  for (const auto& lane : lanes_) lane->Stop();
}

}  // namespace gordian::incidents
