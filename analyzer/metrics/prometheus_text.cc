#include "analyzer/metrics/prometheus_text.h"

#include <fmt/format.h>

#include "common/utf8.h"

namespace gordian::metrics {
namespace {

std::string Escape(const std::string& text) {
  std::string out;
  for (const char c : Printable(CleanUtf8(text))) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string LabelsText(const Sample& sample) {
  std::string text;
  for (const auto& [label, value] : sample.labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", label, Escape(value));
  }
  return text.empty() ? text : text + "}";
}

const char* TypeText(MetricType type, bool open) {
  if (type == MetricType::kCounter) return "counter";
  return type == MetricType::kInfo && open ? "info" : "gauge";
}

}  // namespace

// The older format has no type "info" and no units, and calls a counter by its samples' name.
std::string PrometheusText(const std::vector<MetricFamily>& families, PrometheusFormat format) {
  const bool open = format == PrometheusFormat::kOpenMetrics;
  std::string out;
  for (const MetricFamily& family : families) {
    const std::string sample_name = family.SampleName();
    const std::string& name = open ? family.name : sample_name;
    out += fmt::format("# TYPE {} {}\n", name, TypeText(family.type, open));
    if (open && *family.unit != '\0') out += fmt::format("# UNIT {} {}\n", name, family.unit);
    out += fmt::format("# HELP {} {}\n", name, family.help);
    for (const Sample& sample : family.samples) {
      out += fmt::format("{}{} {}\n", sample_name, LabelsText(sample), sample.value);
    }
  }
  return open ? out + "# EOF\n" : out;
}

}  // namespace gordian::metrics
