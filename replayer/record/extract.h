// Turns a recorded job into a schedule: reads the trace once, asks the wait model what is
// unfinished at the last round, and makes a schedule of that (unfinished.h). For a job that did not
// hang, makes a schedule of its steps (steps.h).
#ifndef GORDIAN_REPLAYER_RECORD_EXTRACT_H_
#define GORDIAN_REPLAYER_RECORD_EXTRACT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "common/status.h"
#include "replayer/record/schedule.h"
#include "replayer/record/steps.h"

namespace gordian::replayer {

// When rounds have seen a thread of a process, by the job's clock.
struct ThreadLife {
  uint64_t from_ns = UINT64_MAX;  // it existed by then; never seen: no time
  uint64_t until_ns = 0;          // it still existed then
  bool polls = false;             // it was seen to query events or streams in a loop
  // When it was first seen outside of calls: waiting for another thread of its process; running, or
  // waiting for something else.
  uint64_t waits_ns = UINT64_MAX, free_ns = UINT64_MAX;
};
using ThreadLives = std::map<std::pair<model::ProcessId, model::ThreadId>, ThreadLife>;

struct Extracted {
  Schedule schedule;
  // Why the job cannot be replayed, one line each; empty if it can.
  std::vector<std::string> refused;
  // Lines whose calls come in any order, as the job's GORDIAN_READINESS_ORDERED says: "train.py:88".
  std::vector<std::string> ready_sites;
};

struct ExtractOptions {
  model::ModelOptions model;
  std::optional<StepRange> steps;  // if set: these steps, not the unfinished part
  // If set: called with what was read, when its threads were alive, and a schedule that holds only
  // settings and origin, in place of all that.
  std::function<void(const JobFacts&, const ThreadLives&, const Extracted&)> with_facts;
  // If set: takes the records. JobFacts::recording then stays empty.
  std::function<void(const model::CallRecord&)> on_record;
};

// `path` is a .gtrace file or a session that holds one. Errors: as of TraceReader.
StatusOr<Extracted> Extract(const std::string& path, const ExtractOptions& options = {});

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_EXTRACT_H_
