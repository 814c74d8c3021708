// gordian explore.
#ifndef GORDIAN_CLI_EXPLORE_H_
#define GORDIAN_CLI_EXPLORE_H_

#include "cli/verbs.h"

namespace gordian::cli {

// `context` must outlive `app`'s parsing and the call of `chosen`.
void AddExploreVerb(CLI::App& app, VerbContext* context);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_EXPLORE_H_
