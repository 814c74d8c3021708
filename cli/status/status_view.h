// Renders a status (schema gordian.status.v1) as text. Pure.
#ifndef GORDIAN_CLI_STATUS_STATUS_VIEW_H_
#define GORDIAN_CLI_STATUS_STATUS_VIEW_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/model/verdict/verdict.h"

namespace gordian::cli {

struct StatusViewOptions {
  bool color = false;
  int width = 100;
  std::string title;  // the job or session
};

// One screen: the verdict, the ranks (equal ones share a line), the communicators (those behind
// come first), what gordian did not see. Ends with a newline; no line is wider than options.width.
// Shows missing or mistyped fields as unknown.
std::string StatusScreen(const nlohmann::ordered_json& status, const StatusViewOptions& options);

// The verdict in one line, with a newline.
std::string StatusHeadline(const nlohmann::ordered_json& status, int width);

// "session s, 8 ranks, 12,345 NCCL calls, no progress for 12 s".
std::string StatusOverview(const nlohmann::ordered_json& status, const std::string& title);

// The escape sequence of a verdict's colour, in which its headline is printed.
const char* VerdictStyle(const model::Finding& finding);

// What the status says of the verdict: less than the verdict itself, without cycles and advice.
model::Verdict VerdictOfStatus(const nlohmann::ordered_json& status);

// The exit code of the worst of all the status's verdicts, as ExitCodeOfVerdict.
int ExitCodeOfJobStatus(const nlohmann::ordered_json& status);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_STATUS_VIEW_H_
