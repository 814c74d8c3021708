// What `gordian mcp` offers: questions about recorded jobs, of which none changes anything.
#ifndef GORDIAN_CLI_MCP_MCP_TOOLS_H_
#define GORDIAN_CLI_MCP_MCP_TOOLS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "cli/mcp/mcp_server.h"
#include "common/status.h"

namespace gordian::cli {

// The folders that a person named. Nothing outside them is read, whatever a client or a link asks.
class SessionFolders {
 public:
  // Errors: one is no folder.
  static StatusOr<SessionFolders> Open(const std::vector<std::string>& folders);

  struct Found {
    std::string name;  // by which a client asks for it
    std::filesystem::path path;
  };
  // Sessions that are a folder, or lie right in one, newest first.
  std::vector<Found> List() const;
  // A session by its name or path. Errors: there is none; it, or a file in it, leads elsewhere.
  StatusOr<std::string> Find(const std::string& session) const;

 private:
  std::vector<std::filesystem::path> roots_;  // without links
};

std::vector<McpTool> SessionTools(const SessionFolders& folders);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_MCP_MCP_TOOLS_H_
