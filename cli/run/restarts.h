// What `--on-verdict restart` counts: how often a job was ended to be started again, and for which
// causes; within one `gordian run`, and over the sessions that follow one another.
#ifndef GORDIAN_CLI_RUN_RESTARTS_H_
#define GORDIAN_CLI_RUN_RESTARTS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"

namespace gordian::cli {

// What stays the same when a job hangs again for the same reason: check, culprits, and the lines of
// the cycle, else of what is stuck. Without addresses, sequence numbers and sizes.
std::string CauseOf(const model::Finding& finding, const analyzer::SiteResolver& sites);

struct RestartCounts {
  int starts = 1;                     // of the job, with the present one
  std::map<std::string, int> causes;  // how often the job was ended for each, to be started again
};

// Counts on from the session before, if that job was the same command and was ended to be started
// again; else from the beginning. "": there is none.
RestartCounts CountsAfter(const std::string& session_before,
                          const std::vector<std::string>& command);

// Manifest's "restarts". `asked`: this job was ended to be started again.
nlohmann::ordered_json RestartsJson(const RestartCounts& counts, bool asked);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_RESTARTS_H_
