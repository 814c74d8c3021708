// The verbs that describe the command line itself, made from its definitions.
#ifndef GORDIAN_CLI_REFERENCE_REFERENCE_VERBS_H_
#define GORDIAN_CLI_REFERENCE_REFERENCE_VERBS_H_

#include "cli/verbs.h"

namespace gordian::cli {

// As in cli/verbs.h. They describe all verbs of `app`, also those that are added behind them.
void AddCompletionVerb(CLI::App& app, VerbContext* context);
void AddManVerb(CLI::App& app, VerbContext* context);
void AddSettingsVerb(CLI::App& app, VerbContext* context);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_REFERENCE_REFERENCE_VERBS_H_
