// Decides over what several tools hold of one job.
#ifndef GORDIAN_CLI_ANALYZE_SEVERAL_SOURCES_H_
#define GORDIAN_CLI_ANALYZE_SEVERAL_SOURCES_H_

#include <string>
#include <vector>

#include "cli/analyze/recorded.h"
#include "common/status.h"

namespace gordian::cli {

// Whether some of the paths lead to a session, a trace of gordian, or dumps of PyTorch's Flight
// Recorder: those are taken together rank by rank. Errors: as WhoRecorded.
StatusOr<bool> AreOfOneJob(const std::vector<std::string>& paths);

// The verdict on all of them (analyzer/merge). Errors name the path: a second session, files that
// cannot be taken together, and those of Merge.
StatusOr<RecordedVerdict> DecideTogether(const std::vector<std::string>& paths);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_ANALYZE_SEVERAL_SOURCES_H_
