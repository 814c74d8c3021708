// Renders a status (schema gordian.status.v1) as text. Pure.
#ifndef GORDIAN_CLI_STATUS_STATUS_VIEW_H_
#define GORDIAN_CLI_STATUS_STATUS_VIEW_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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

// The exit code of the worst of all the status's verdicts, as ExitCodeOfVerdict.
int ExitCodeOfJobStatus(const nlohmann::ordered_json& status);

// "0-5,7".
std::string FoldRanks(std::vector<int> ranks);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_STATUS_VIEW_H_
