// The options of `run` and `serve` about alerts.
#ifndef GORDIAN_CLI_INCIDENTS_ALERT_FLAGS_H_
#define GORDIAN_CLI_INCIDENTS_ALERT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "analyzer/incidents/alert_target.h"
#include "common/status.h"

namespace gordian::cli {

struct AlertFlags {
  std::vector<std::string> targets;
  std::string key_file;
  bool suspected = false;
};

struct AlertConfig {
  std::vector<incidents::AlertTarget> targets;
  std::string key;  // empty: alerts are not signed
  bool suspected = false;
};

void AddAlertOptions(CLI::App* verb, AlertFlags* flags);

// Errors: an option makes no sense, or the key cannot be read.
StatusOr<AlertConfig> ReadAlertFlags(const AlertFlags& flags);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_INCIDENTS_ALERT_FLAGS_H_
