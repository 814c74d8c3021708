// A status (schema gordian.status.v1) as text for people. Pure.
#ifndef GORDIAN_CLI_STATUS_VIEW_H_
#define GORDIAN_CLI_STATUS_VIEW_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gordian::cli {

struct StatusViewOptions {
  bool color = false;
  int width = 100;
  std::string title;  // whose status this is
};

// One screen: the verdict, ranks (equal ones share a line), communicators (who is behind first),
// what was not seen. Ends with a newline; no line is wider than options.width.
// Fields that are missing or of a wrong type are taken for unknown.
std::string StatusScreen(const nlohmann::ordered_json& status, const StatusViewOptions& options);

// The verdict in one line, with a newline.
std::string StatusHeadline(const nlohmann::ordered_json& status, int width);

// As ExitCodeOfVerdict, of the verdict and all further ones.
int ExitCodeOfJobStatus(const nlohmann::ordered_json& status);

// "0-5,7".
std::string FoldRanks(std::vector<int> ranks);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_VIEW_H_
