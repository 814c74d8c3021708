#include "cli/incidents/alert_flags.h"

#include <algorithm>
#include <utility>

namespace gordian::cli {
namespace {

constexpr size_t kMostTargets = 16;  // each has a thread

}  // namespace

void AddAlertOptions(CLI::App* verb, AlertFlags* flags) {
  verb->add_option("--alert", flags->targets,
                   "Send one alert for each confirmed problem to http(s)://... (JSON), "
                   "slack+https://..., alertmanager+http(s)://..., or exec:CMD; may be repeated")
      ->type_name("URL")
      ->allow_extra_args(false);
  verb->add_flag("--alert-suspected", flags->suspected,
                 "With --alert: alert for a suspicion, too, and again when it is confirmed");
  verb->add_option("--alert-key", flags->key_file,
                   "With --alert: sign each request with the key in this file, which others must "
                   "not be able to read (X-Gordian-Signature: docs/alerts.md)")
      ->type_name("FILE");
}

StatusOr<AlertConfig> ReadAlertFlags(const AlertFlags& flags) {
  AlertConfig config{.suspected = flags.suspected};
  if (flags.targets.empty() && (flags.suspected || !flags.key_file.empty())) {
    return Status::InvalidArgument(
        std::string(flags.suspected ? "--alert-suspected" : "--alert-key") +
        " needs an --alert URL");
  }
  if (flags.targets.size() > kMostTargets) {
    return Status::InvalidArgument("--alert: at most 16 targets");
  }
  for (const std::string& text : flags.targets) {
    StatusOr<incidents::AlertTarget> target = incidents::ParseAlertTarget(text);
    GORDIAN_RETURN_IF_ERROR(target.status());
    const bool twice =
        std::any_of(config.targets.begin(), config.targets.end(),
                    [&](const incidents::AlertTarget& other) { return other.key == target->key; });
    if (!twice) config.targets.push_back(std::move(target).value());
  }
  if (!flags.key_file.empty()) {
    StatusOr<std::string> key = incidents::ReadAlertKey(flags.key_file);
    GORDIAN_RETURN_IF_ERROR(key.status());
    config.key = std::move(key).value();
  }
  return config;
}

}  // namespace gordian::cli
