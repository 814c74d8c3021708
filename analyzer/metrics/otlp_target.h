// Where metrics are pushed to: what --otlp and OpenTelemetry's environment variables name.
#ifndef GORDIAN_ANALYZER_METRICS_OTLP_TARGET_H_
#define GORDIAN_ANALYZER_METRICS_OTLP_TARGET_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::metrics {

struct OtlpTarget {
  std::string url;                   // may hold secrets: never print it; empty: nowhere
  std::string shown;                 // scheme and host alone
  std::vector<std::string> headers;  // "Name: value"; secrets, too
  std::chrono::milliseconds interval{10'000};
  bool gzip = false;

  explicit operator bool() const { return !url.empty(); }
};

// Takes http(s)://HOST...; a URL without a path gets "/v1/metrics". `environment` returns a
// variable's value, or null; OTEL_METRIC_EXPORT_INTERVAL (ms) sets the interval,
// OTEL_EXPORTER_OTLP_METRICS_HEADERS, or else OTEL_EXPORTER_OTLP_HEADERS, the headers, and
// OTEL_EXPORTER_OTLP_METRICS_COMPRESSION, or else OTEL_EXPORTER_OTLP_COMPRESSION, gzip or none.
// Errors name the option or the variable, and repeat no secret.
StatusOr<OtlpTarget> ParseOtlpTarget(
    const std::string& url, const std::function<const char*(const char* variable)>& environment);

}  // namespace gordian::metrics

#endif  // GORDIAN_ANALYZER_METRICS_OTLP_TARGET_H_
