// From what was recorded of a job to a schedule: the trace is read once, the wait model says what
// is unfinished at its last round, and unfinished.h makes a schedule of that. Or, of a job that did
// not hang, of its steps (steps.h).
#ifndef GORDIAN_REPLAYER_EXTRACT_H_
#define GORDIAN_REPLAYER_EXTRACT_H_

#include <optional>
#include <string>
#include <vector>

#include "analyzer/graph/job_model.h"
#include "common/status.h"
#include "replayer/schedule.h"
#include "replayer/steps.h"

namespace gordian::replayer {

struct ExtractOptions {
  graph::ModelOptions model;
  std::optional<StepRange> steps;  // instead of what is unfinished
};

struct Extracted {
  Schedule schedule;
  // Why it cannot be replayed, one line each; empty: it can.
  std::vector<std::string> refused;
};

// `path` is a .gtrace file or a session that holds one. Errors: as of TraceReader.
StatusOr<Extracted> Extract(const std::string& path, const ExtractOptions& options = {});

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_EXTRACT_H_
