// The metrics of jobs, made once for all formats: prometheus_text.h and otlp_json.h write them.
//
// The sources are statuses (schema gordian.status.v1), so that metrics and `gordian status` never
// differ. docs/metrics.md lists every name; a test compares the list.
#ifndef GORDIAN_ANALYZER_METRICS_METRIC_FAMILIES_H_
#define GORDIAN_ANALYZER_METRICS_METRIC_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gordian::metrics {

enum class MetricType : uint8_t { kGauge, kCounter, kInfo };

struct Sample {
  std::vector<std::pair<const char*, std::string>> labels;  // texts are from outside
  double value = 0;

  // The training job that it is of; "": it is gordian's own.
  const std::string& job() const;
};

struct MetricFamily {
  std::string name;  // without the suffix of its samples
  MetricType type = MetricType::kGauge;
  const char* unit = "";  // "seconds", or none; the name ends in it
  const char* help = "";
  std::vector<Sample> samples;

  std::string SampleName() const;  // with "_total" or "_info"
};

struct MetricJob {
  std::string job;
  nlohmann::ordered_json status;
};

// What the server of the page knows of itself.
struct HttpMetrics {
  size_t viewers = 0;
  std::map<int, uint64_t> answers;  // by HTTP status
};

struct OwnMetrics {
  std::optional<HttpMetrics> http;            // none: there is no server
  std::map<std::string, uint64_t> deadlocks;  // verdicts confirmed since gordian's start, by kind
};

// Those that have a sample, in the order in which they are written. Leaves out what a status lacks.
std::vector<MetricFamily> FamiliesOf(const std::vector<MetricJob>& jobs, const OwnMetrics& own);

// Every metric that FamiliesOf may make, with no samples.
std::vector<MetricFamily> AllFamilies();

}  // namespace gordian::metrics

#endif  // GORDIAN_ANALYZER_METRICS_METRIC_FAMILIES_H_
