// Whom gordian alerts: what --alert names.
//
//   webhook+http(s)://...  or http(s)://...   the JSON of gordian.alert.v1
//   slack+https://...                         Slack's incoming webhooks
//   alertmanager+http(s)://...                Alertmanager's API v2
//   exec:CMD                                  a shell command, with the facts in its environment
#ifndef GORDIAN_ANALYZER_INCIDENTS_ALERT_TARGET_H_
#define GORDIAN_ANALYZER_INCIDENTS_ALERT_TARGET_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian::incidents {

struct AlertTarget {
  enum class Kind { kWebhook, kSlack, kAlertmanager, kExec };
  Kind kind = Kind::kWebhook;
  std::string url;    // holds secrets: never print it. Of kExec: the command
  std::string shown;  // scheme and host alone: "slack at https://hooks.slack.com"
  std::string key;    // names it in the store without telling what it is

  // Whether gordian tells it that an incident has ended.
  bool WantsEnd() const { return kind == Kind::kAlertmanager; }
};

// Errors: kInvalidArgument; kUnavailable: libcurl is missing. The message does not repeat the URL.
StatusOr<AlertTarget> ParseAlertTarget(std::string_view text);

// Reads the key in a file that its user alone may read, without the ends of lines behind it. Errors
// name the file.
StatusOr<std::string> ReadAlertKey(const std::string& path);

// "sha256=" and the HMAC-SHA256 of `body` in hexadecimal digits: X-Gordian-Signature.
std::string Signature(std::string_view key, std::string_view body);

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_ALERT_TARGET_H_
