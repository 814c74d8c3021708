// Metrics in the text formats of Prometheus: OpenMetrics, and the older one, which node-exporter and
// `promtool check metrics` read.
#ifndef GORDIAN_ANALYZER_METRICS_PROMETHEUS_TEXT_H_
#define GORDIAN_ANALYZER_METRICS_PROMETHEUS_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/metrics/metric_families.h"

namespace gordian::metrics {

enum class PrometheusFormat : uint8_t { kOpenMetrics, kText };

std::string PrometheusText(const std::vector<MetricFamily>& families, PrometheusFormat format);

// The content types.
inline constexpr char kOpenMetricsType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";
inline constexpr char kMetricsTextType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace gordian::metrics

#endif  // GORDIAN_ANALYZER_METRICS_PROMETHEUS_TEXT_H_
