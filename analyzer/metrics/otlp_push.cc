#include "analyzer/metrics/otlp_push.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/http/gzip.h"
#include "analyzer/metrics/otlp_json.h"
#include "common/clock.h"
#include "common/json_text.h"
#include "common/service_thread.h"
#include "common/utf8.h"

namespace gordian::metrics {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostShown = 200;  // bytes of what a collector says

OtlpResource ThisProcess() {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return {.host = host, .instance_id = std::string(host) + "-" + std::to_string(getpid())};
}

// A text of a collector's answer, as a line may show it; "": there is none.
std::string TextIn(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_string()) return "";
  return Printable(CleanUtf8(found->get<std::string>().substr(0, kMostShown)));
}

// A number that protobuf's JSON writes as a text, and some write as a number; "0": there is none.
std::string NumberIn(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  if (found != from.end() && found->is_number_integer()) return found->dump();
  const std::string text = TextIn(from, key);
  return text.empty() ? "0" : text;
}

}  // namespace

OtlpPush::OtlpPush(OtlpPushOptions options) : options_(std::move(options)), start_ns_(RealNs()) {
  thread_ = MakeServiceThread("gordian-otlp", [this] { Run(); });
}

OtlpPush::~OtlpPush() { Stop(); }

void OtlpPush::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  wake_.notify_all();
}

void OtlpPush::Finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  wake_.notify_all();
}

bool OtlpPush::Finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void OtlpPush::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void OtlpPush::Run() {
  const OtlpResource resource = ThisProcess();
  milliseconds wait = options_.first_wait;
  Clock::time_point due = Clock::now();  // the next push in its time
  Clock::time_point may = due;           // none before, if it is woken
  Clock::time_point asked = due;         // none before, at all: Retry-After
  bool last = false;
  std::unique_lock lock(mutex_);
  while (!finished_) {
    while (!stopping_) {
      // The last one does not wait, but for its own further tries.
      const Clock::time_point own = finishing_ && !last ? asked : woken_ ? std::min(may, due) : due;
      const Clock::time_point next = std::max(own, asked);
      if (next <= Clock::now()) break;
      wake_.wait_until(lock, next);
    }
    if (stopping_) return;
    last = finishing_;
    woken_ = false;
    lock.unlock();
    const Clock::time_point begun = Clock::now();
    std::string body = OtlpMetricsJson(options_.collect(), resource, start_ns_, RealNs());
    std::vector<std::string> headers = options_.target.headers;
    if (options_.target.gzip) {
      body = http::Gzip(body);
      headers.push_back("Content-Encoding: gzip");
    }
    const http::HttpAnswer answer = http::Post({.url = options_.target.url,
                                                .body = body,
                                                .headers = std::move(headers),
                                                .timeout = options_.timeout,
                                                .stopping = &stopping_});
    const bool again = !stopping_ && Judge(answer);
    const Clock::time_point done = Clock::now();
    if (again) {
      asked = done + answer.retry_after;
      due = may = done + wait;
      wait = std::min(2 * wait, std::max(options_.target.interval, options_.first_wait));
    } else {
      due = std::max(begun + options_.target.interval, done);
      may = std::max(begun + options_.least_gap, done);
      wait = options_.first_wait;
    }
    lock.lock();
    // A collector that is away is not waited for.
    finished_ = last && (!again || answer.code == 0);
  }
}

bool OtlpPush::Judge(const http::HttpAnswer& answer) {
  const long code = answer.code;
  if (code == 0) {
    Fail(answer.error, /*again=*/true);
    return true;
  }
  const auto said = ParseJson<nlohmann::json>(answer.body);  // may be nothing, or no JSON
  if (code < 200 || code >= 300) {
    const bool again = code == 429 || code == 502 || code == 503 || code == 504;
    const std::string message = said.is_object() ? TextIn(said, "message") : "";
    Fail(http::CodeText(code) + (message.empty() ? "" : " (" + message + ")"), again);
    return again;
  }
  if (std::exchange(failing_, false)) Say(options_.target.shown + " takes the metrics again");
  if (!said.is_object() || !said.contains("partialSuccess")) return false;
  const nlohmann::json& partial = said["partialSuccess"];
  const std::string message = partial.is_object() ? TextIn(partial, "errorMessage") : "";
  const std::string rejected = partial.is_object() ? NumberIn(partial, "rejectedDataPoints") : "0";
  if ((rejected != "0" || !message.empty()) && !std::exchange(partial_said_, true)) {
    Say(options_.target.shown + " takes the metrics" +
        (rejected == "0" ? "" : " but " + rejected + " data points") +
        (message.empty() ? "" : " and says: " + message));
  }
  return false;
}

void OtlpPush::Fail(const std::string& why, bool again) {
  if (std::exchange(failing_, true)) return;
  Say("cannot push metrics to " + options_.target.shown + ": " + why +
      (again ? "; gordian tries again" : "; gordian goes on sending newer ones"));
}

void OtlpPush::Say(const std::string& line) {
  spdlog::warn("otlp: {}", line);
  if (options_.on_line) options_.on_line(line);
}

}  // namespace gordian::metrics
