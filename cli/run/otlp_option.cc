#include "cli/run/otlp_option.h"

#include <stdlib.h>

namespace gordian::cli {

void AddOtlpOption(CLI::App* verb, std::string* url) {
  verb->add_option("--otlp", *url,
                   "Push the metrics every 10 s (OTEL_METRIC_EXPORT_INTERVAL), and when a verdict "
                   "changes, to the OpenTelemetry collector at http(s)://HOST:PORT, as OTLP/HTTP")
      ->type_name("URL");
}

StatusOr<metrics::OtlpTarget> ReadOtlpOption(const std::string& url) {
  if (url.empty()) return metrics::OtlpTarget{};
  return metrics::ParseOtlpTarget(url, [](const char* variable) { return getenv(variable); });
}

}  // namespace gordian::cli
