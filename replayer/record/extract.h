// Turns a recorded job into a schedule: reads the trace once, asks the wait model what is
// unfinished at the last round, and makes a schedule of that (unfinished.h). For a job that did not
// hang, makes a schedule of its steps (steps.h).
#ifndef GORDIAN_REPLAYER_RECORD_EXTRACT_H_
#define GORDIAN_REPLAYER_RECORD_EXTRACT_H_

#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "common/status.h"
#include "replayer/record/schedule.h"
#include "replayer/record/steps.h"

namespace gordian::replayer {

struct ExtractOptions {
  model::ModelOptions model;
  std::optional<StepRange> steps;  // if set: these steps, not the unfinished part
};

struct Extracted {
  Schedule schedule;
  // Why the job cannot be replayed, one line each; empty if it can.
  std::vector<std::string> refused;
};

// `path` is a .gtrace file or a session that holds one. Errors: as of TraceReader.
StatusOr<Extracted> Extract(const std::string& path, const ExtractOptions& options = {});

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_EXTRACT_H_
