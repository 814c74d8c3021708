// The state of jobs in the text formats of Prometheus: OpenMetrics, and the older one, which
// node-exporter and `promtool check metrics` read.
//
// The sources are summaries and statuses (schema gordian.status.v1), so that `/metrics` and
// `gordian status` never differ. docs/metrics.md lists every name; a test compares the list.
#ifndef GORDIAN_ANALYZER_WEB_METRICS_H_
#define GORDIAN_ANALYZER_WEB_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gordian::web {

struct MetricJob {
  std::string job;
  nlohmann::ordered_json status;
};

// What the server knows of itself; left out of a file.
struct ServerMetrics {
  size_t viewers = 0;
  std::map<int, uint64_t> answers;            // by HTTP status
  std::map<std::string, uint64_t> deadlocks;  // confirmed verdicts since its start, by kind
};

enum class MetricsFormat : uint8_t { kOpenMetrics, kText };

// `server` may be null. Leaves out what a status lacks.
std::string MetricsText(const std::vector<MetricJob>& jobs, const ServerMetrics* server,
                        MetricsFormat format);

// Every metric that MetricsText may hold, with its type.
std::vector<std::pair<std::string, std::string>> MetricNames();

inline constexpr char kOpenMetricsType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr char kMetricsTextType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_METRICS_H_
