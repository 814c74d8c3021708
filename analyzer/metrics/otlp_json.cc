#include "analyzer/metrics/otlp_json.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "common/utf8.h"
#include "common/version.h"

namespace gordian::metrics {
namespace {

using nlohmann::ordered_json;

constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE

ordered_json Attribute(const char* key, const std::string& text) {
  return {{"key", key}, {"value", {{"stringValue", Printable(CleanUtf8(text))}}}};
}

ordered_json PointOf(const MetricFamily& family, const Sample& sample, uint64_t start_ns,
                     uint64_t now_ns) {
  ordered_json point;
  ordered_json attributes = ordered_json::array();
  for (const auto& [label, text] : sample.labels) attributes.push_back(Attribute(label, text));
  point["attributes"] = std::move(attributes);
  if (family.type == MetricType::kCounter) point["startTimeUnixNano"] = std::to_string(start_ns);
  point["timeUnixNano"] = std::to_string(now_ns);
  if (*family.unit != '\0') {
    point["asDouble"] = sample.value;
  } else {  // what has no unit is a number of things
    point["asInt"] = std::to_string(std::llround(sample.value));
  }
  return point;
}

// `points`: all of the family that are of one resource.
ordered_json MetricOf(const MetricFamily& family, ordered_json points) {
  ordered_json metric = {{"name", family.SampleName()}, {"description", family.help}};
  if (std::string_view(family.unit) == "seconds") metric["unit"] = "s";  // UCUM's
  if (family.type == MetricType::kCounter) {
    metric["sum"] = {{"aggregationTemporality", kCumulative},
                     {"isMonotonic", true},
                     {"dataPoints", std::move(points)}};
  } else {
    metric["gauge"] = {{"dataPoints", std::move(points)}};
  }
  return metric;
}

ordered_json ResourceOf(const OtlpResource& resource, const std::string& job) {
  ordered_json attributes = ordered_json::array();
  if (!job.empty()) attributes.push_back(Attribute("service.namespace", job));
  attributes.push_back(Attribute("service.name", "gordian"));
  attributes.push_back(Attribute("service.version", kVersion));
  attributes.push_back(Attribute("service.instance.id", resource.instance_id));
  attributes.push_back(Attribute("host.name", resource.host));
  return {{"attributes", std::move(attributes)}};
}

}  // namespace

std::string OtlpMetricsJson(const std::vector<MetricFamily>& families, const OtlpResource& resource,
                            uint64_t start_ns, uint64_t now_ns) {
  std::map<std::string, ordered_json> metrics;  // by job
  for (const MetricFamily& family : families) {
    std::map<std::string, ordered_json> points;
    for (const Sample& sample : family.samples) {
      ordered_json& of_job = points.try_emplace(sample.job(), ordered_json::array()).first->second;
      of_job.push_back(PointOf(family, sample, start_ns, now_ns));
    }
    for (auto& [job, of_job] : points) {
      ordered_json& list = metrics.try_emplace(job, ordered_json::array()).first->second;
      list.push_back(MetricOf(family, std::move(of_job)));
    }
  }
  ordered_json resources = ordered_json::array();
  for (auto& [job, of_job] : metrics) {
    ordered_json scope = {{"scope", {{"name", "gordian"}, {"version", kVersion}}},
                          {"metrics", std::move(of_job)}};
    resources.push_back({{"resource", ResourceOf(resource, job)},
                         {"scopeMetrics", ordered_json::array({std::move(scope)})}});
  }
  return ordered_json{{"resourceMetrics", std::move(resources)}}.dump(
      -1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace gordian::metrics
