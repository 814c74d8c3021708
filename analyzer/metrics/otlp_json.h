// Metrics as OTLP/HTTP takes them: an ExportMetricsServiceRequest in protobuf's JSON, with the
// differences that OTLP asks for (enumerations are numbers).
//
// The names are those of the samples in Prometheus's text, "_total" and "_info" included, which a
// Prometheus behind a collector keeps as they are. An info metric is a gauge of 1.
#ifndef GORDIAN_ANALYZER_METRICS_OTLP_JSON_H_
#define GORDIAN_ANALYZER_METRICS_OTLP_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/metrics/metric_families.h"

namespace gordian::metrics {

struct OtlpResource {
  std::string host;         // host.name
  std::string instance_id;  // service.instance.id
};

// One resource for gordian's own metrics, and one for each job, whose name is its
// service.namespace: Prometheus makes its label `job` of that and service.name, and drops ours.
// `start_ns`: since when counters count; both times are Unix times.
std::string OtlpMetricsJson(const std::vector<MetricFamily>& families, const OtlpResource& resource,
                            uint64_t start_ns, uint64_t now_ns);

}  // namespace gordian::metrics

#endif  // GORDIAN_ANALYZER_METRICS_OTLP_JSON_H_
