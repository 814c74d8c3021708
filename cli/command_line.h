// Parses a command line and hands over to one verb.
#ifndef GORDIAN_CLI_COMMAND_LINE_H_
#define GORDIAN_CLI_COMMAND_LINE_H_

#include <span>

#include "cli/verbs.h"

namespace gordian::cli {

using AddVerb = void (*)(CLI::App& app, VerbContext* context);

// What a program's main returns: the verb's exit code, or kExitUsage, or kExitOwnFailure for an
// exception that came this far. `make_run_page`: as in VerbContext.
int Main(int argc, char** argv, std::span<const AddVerb> verbs,
         const MakeRunPage& make_run_page = nullptr);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_COMMAND_LINE_H_
