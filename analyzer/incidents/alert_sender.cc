#include "analyzer/incidents/alert_sender.h"

#include <curl/curl.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "analyzer/incidents/alert_document.h"
#include "common/clock.h"
#include "common/service_thread.h"
#include "common/version.h"

namespace gordian::incidents {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMostAnswerBytes = 64 << 10;

struct Outcome {
  bool sent = false;
  bool again = false;  // may go better later
  std::string why;
};

Outcome OutcomeOf(long code) {
  if (code >= 200 && code < 300) return {.sent = true};
  const bool again = code == 408 || code == 429 || code >= 500;
  std::string why = "HTTP " + std::to_string(code);
  if (code >= 300 && code < 400) why += ", a redirect, which gordian does not follow";
  return {.again = again, .why = std::move(why)};
}

struct Request {
  const AlertTarget& target;
  const std::string& body;
  std::string idempotency_key;
  std::string signature;  // "": none
  milliseconds timeout;
  const std::atomic<bool>* stopping;
};

Outcome Post(const Request& request) {
  static const CURLcode begun = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(begun == CURLE_OK ? curl_easy_init() : nullptr,
                                                    curl_easy_cleanup);
  if (curl == nullptr) return {.again = true, .why = "libcurl does not start"};
  CURL* const easy = curl.get();
  curl_slist* headers = nullptr;
  const auto header = [&headers](const std::string& line) {
    headers = curl_slist_append(headers, line.c_str());
  };
  header("Content-Type: application/json");
  header("Idempotency-Key: " + request.idempotency_key);
  header("Expect:");  // no round trip to be asked for the body
  if (!request.signature.empty()) header("X-Gordian-Signature: " + request.signature);
  size_t answered = 0;
  curl_easy_setopt(easy, CURLOPT_URL, request.target.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  // As the program curl: other authorities than the system's.
  if (const char* const authorities = getenv("SSL_CERT_FILE")) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, authorities);
  }
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, (std::string("gordian/") + kVersion).c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  // Reads so much of an answer and no more.
  const auto take = +[](char*, size_t size, size_t count, void* so_far) -> size_t {
    auto* const bytes = static_cast<size_t*>(so_far);
    *bytes += size * count;
    return *bytes > kMostAnswerBytes ? 0 : size * count;
  };
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answered);
  // Lets Stop() end a request that waits.
  const auto look = +[](void* stopping, curl_off_t, curl_off_t, curl_off_t, curl_off_t) -> int {
    return static_cast<const std::atomic<bool>*>(stopping)->load() ? 1 : 0;
  };
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, request.stopping);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  const CURLcode done = curl_easy_perform(easy);
  curl_slist_free_all(headers);
  long code = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
  const bool long_answer = done == CURLE_WRITE_ERROR && answered > kMostAnswerBytes;
  if (done == CURLE_OK || long_answer) return OutcomeOf(code);
  // libcurl's longer messages may hold parts of the URL; these do not.
  return {.again = true, .why = curl_easy_strerror(done)};
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
    return Post({.target = target_,
                 .body = body,
                 .idempotency_key = alert.incident + "-" + alert.what,
                 .signature = options_.key.empty() ? "" : Signature(options_.key, body),
                 .timeout = options_.timeout,
                 .stopping = &stopping_});
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
