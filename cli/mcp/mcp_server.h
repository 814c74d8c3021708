// The Model Context Protocol over lines of text: requests in, responses out, each one JSON-RPC 2.0
// message. Facts: modelcontextprotocol.io/specification, revision 2025-06-18.
#ifndef GORDIAN_CLI_MCP_MCP_SERVER_H_
#define GORDIAN_CLI_MCP_MCP_SERVER_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::cli {

// A longer line is answered with an error and forgotten.
inline constexpr size_t kMcpLineBytes = 1u << 20;

// What a client may call. It must change nothing.
struct McpTool {
  std::string name;
  std::string description;
  nlohmann::ordered_json arguments;  // JSON Schema of an object
  // The arguments have the types of the schema. An error's message goes to the client's model.
  std::function<StatusOr<nlohmann::ordered_json>(const nlohmann::ordered_json& arguments)> call;
};

// Not thread-safe. Throws on no line.
class McpServer {
 public:
  explicit McpServer(std::vector<McpTool> tools) : tools_(std::move(tools)) {}

  // The response without its newline; none: the line was a notification.
  std::optional<std::string> Answer(std::string_view line) const;
  // The response to a line that is longer than kMcpLineBytes.
  static std::string TooLong();

 private:
  nlohmann::ordered_json Result(const std::string& method,
                                const nlohmann::ordered_json& params) const;
  nlohmann::ordered_json Call(const nlohmann::ordered_json& params) const;

  const std::vector<McpTool> tools_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_MCP_MCP_SERVER_H_
