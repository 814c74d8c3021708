// The options of verbs that ask a `gordian serve`: a token, and TLS.
#ifndef GORDIAN_CLI_JOB_ACCESS_OPTIONS_H_
#define GORDIAN_CLI_JOB_ACCESS_OPTIONS_H_

#include "common/analyzer_access.h"

namespace CLI {
class App;
}

namespace gordian::cli {

// `files` must outlive the parsing.
void AddAccessOptions(CLI::App* verb, AccessFiles* files);

// Each option in place of its variable.
AccessFiles WithOptions(AccessFiles from_environment, const AccessFiles& options);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_JOB_ACCESS_OPTIONS_H_
