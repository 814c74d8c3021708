#include "cli/mcp/mcp.h"

#include <errno.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cli/mcp/mcp_server.h"
#include "cli/mcp/mcp_tools.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

// Reads lines until the end of standard input, and answers each in turn.
int Serve(const McpServer& server) {
  std::string pending;
  bool skipping = false;  // the rest of a line that is too long
  std::array<char, 1 << 16> buffer;
  const auto answer = [&](std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
    const std::optional<std::string> response = server.Answer(line);
    return !response || WriteAll(STDOUT_FILENO, *response + "\n");
  };
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    pending.append(buffer.data(), static_cast<size_t>(got));
    size_t begun = 0;
    for (size_t end; (end = pending.find('\n', begun)) != std::string::npos; begun = end + 1) {
      const std::string_view line = std::string_view(pending).substr(begun, end - begun);
      bool written = true;
      if (!skipping) {
        written = line.size() <= kMcpLineBytes
                      ? answer(line)
                      : WriteAll(STDOUT_FILENO, McpServer::TooLong() + "\n");
      }
      skipping = false;
      if (!written) return kExitUsage;  // the client has gone
    }
    pending.erase(0, begun);
    if (pending.size() > kMcpLineBytes) {
      if (!skipping && !WriteAll(STDOUT_FILENO, McpServer::TooLong() + "\n")) return kExitUsage;
      skipping = true;
      pending.clear();
    }
  }
  if (!pending.empty() && !skipping && !answer(pending)) return kExitUsage;
  return kExitOk;
}

}  // namespace

void AddMcpVerb(CLI::App& app, VerbContext* context) {
  auto folders = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand(
      "mcp",
      "Answer a language model's questions about recorded jobs, over standard input and "
      "output (Model Context Protocol)");
  verb->add_option("folders", *folders,
                   "Sessions, or folders that hold some; nothing else is read, and nothing written")
      ->required()
      ->type_name("FOLDER");
  verb->footer(
      "Exit code: 0 standard input has ended; 2 a folder cannot be read, or the client has gone.\n"
      "Example: a client's configuration: {\"mcpServers\": {\"gordian\": {\"command\": "
      "\"gordian\",\n         \"args\": [\"mcp\", \"/home/me/sessions\"]}}}");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] {
      const StatusOr<SessionFolders> opened = SessionFolders::Open(*folders);
      if (!opened.ok()) {
        PrintError(opened.status().message());
        return kExitUsage;
      }
      return Serve(McpServer(SessionTools(*opened)));
    };
  });
}

}  // namespace gordian::cli
