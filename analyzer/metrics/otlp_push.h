// Pushes metrics to a collector of OpenTelemetry, on a thread of its own: at the beginning, at an
// interval, when it is woken, and once at the end.
//
// What it sends it makes when it may send, so that nothing queues up: what a slow collector gets is
// always the newest. After 429, 502, 503, 504 or no answer it tries again after 1 s, 2 s, 4 s, up to
// the interval, and not before the collector's Retry-After. Any other answer but 2xx drops what was
// sent; the next is sent in its time.
#ifndef GORDIAN_ANALYZER_METRICS_OTLP_PUSH_H_
#define GORDIAN_ANALYZER_METRICS_OTLP_PUSH_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/http/http_post.h"
#include "analyzer/metrics/metric_families.h"
#include "analyzer/metrics/otlp_target.h"

namespace gordian::metrics {

struct OtlpPushOptions {
  OtlpTarget target;
  // On the pusher's thread; may take long.
  std::function<std::vector<MetricFamily>()> collect;
  // A line for people, without the URL; on the pusher's thread, seldom.
  std::function<void(const std::string&)> on_line;
  std::chrono::milliseconds timeout{10'000};  // of one request
  std::chrono::milliseconds first_wait{1000};
  std::chrono::milliseconds least_gap{1000};  // between pushes, however often it is woken
};

// Thread-safe.
class OtlpPush {
 public:
  // Begins with a push.
  explicit OtlpPush(OtlpPushOptions options);
  ~OtlpPush();  // Stop()
  OtlpPush(const OtlpPush&) = delete;
  OtlpPush& operator=(const OtlpPush&) = delete;

  // Something has changed that is worth a push before its time. Quick.
  void Wake();

  // Pushes once more, at once where the collector allows it, and then no more. Quick.
  void Finish();
  // Whether the last push is over, also if it failed for good.
  bool Finished() const;

  // Ends the request that runs, within about a second.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  void Run();
  void Say(const std::string& line);
  // What the answer means. Returns whether another try may go better.
  bool Judge(const http::HttpAnswer& answer);
  void Fail(const std::string& why, bool again);

  const OtlpPushOptions options_;
  const uint64_t start_ns_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = true;
  bool finishing_ = false, finished_ = false;
  std::atomic<bool> stopping_ = false;

  bool failing_ = false;       // that was said; of the thread, as the next
  bool partial_said_ = false;  // that the collector takes only a part
  std::thread thread_;
};

}  // namespace gordian::metrics

#endif  // GORDIAN_ANALYZER_METRICS_OTLP_PUSH_H_
