// The option of `run` and `serve` that pushes metrics.
#ifndef GORDIAN_CLI_RUN_OTLP_OPTION_H_
#define GORDIAN_CLI_RUN_OTLP_OPTION_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "analyzer/metrics/otlp_target.h"
#include "common/clock.h"
#include "common/status.h"

namespace gordian::cli {

// How long gordian waits at its end for the last push.
inline constexpr uint64_t kLastPushNs = 3 * kNsPerSecond;

void AddOtlpOption(CLI::App* verb, std::string* url);

// An empty URL: an empty target. Errors: the option, or a variable of OpenTelemetry's that it reads,
// makes no sense.
StatusOr<metrics::OtlpTarget> ReadOtlpOption(const std::string& url);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_OTLP_OPTION_H_
