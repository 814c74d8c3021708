// gordian mcp: answers questions of language models about recorded jobs.
#ifndef GORDIAN_CLI_MCP_MCP_H_
#define GORDIAN_CLI_MCP_MCP_H_

#include <CLI/CLI.hpp>

namespace gordian::cli {

struct VerbContext;
void AddMcpVerb(CLI::App& app, VerbContext* context);  // as in cli/verbs.h

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_MCP_MCP_H_
