// What `gordian plan` reads: recorded sessions, tables of buckets, samples of collectives.
#ifndef GORDIAN_CLI_PLAN_INPUT_H_
#define GORDIAN_CLI_PLAN_INPUT_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "planner/buckets.h"
#include "planner/cost_model.h"
#include "planner/job_trace.h"

namespace gordian::cli {

// A table of buckets, the same at all ranks or one for each of them.
//   JSON: {"buckets": [{"forward_us": 1, "backward_us": 2, "comm_us": 3, "elements": 4}, ...]}, or
//         {"ranks": [[{...}, ...], ...]}
//   CSV:  a line "forward_us,backward_us,comm_us[,elements]", then a bucket a line, bucket 1 first
struct BucketTable {
  std::vector<std::vector<planner::Bucket>> by_rank;  // at least one, all of the same length
  bool per_rank = false;
};

// By its contents: not a trace, and no folder.
bool LooksLikeTable(const std::string& path);
StatusOr<BucketTable> ReadBucketTable(const std::string& path);

// The slowest rank's of each time: what all ranks plan with.
std::vector<planner::Bucket> AgreeOnTimes(const std::vector<std::vector<planner::Bucket>>& by_rank);

// CSV: a line "plan,ranks,bytes,us", then a sample a line; plan is ring, doubling or bruck.
StatusOr<std::vector<planner::CostSample>> ReadCostSamples(const std::string& path);

struct RecordedJob {
  planner::JobTrace trace;
  std::string file;
  std::string note;       // how the trace ends, where it is cut; "": whole
  bool one_clock = true;  // all processes are of one node
};
// `path`: a session, or a trace.
StatusOr<RecordedJob> ReadRecordedJob(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PLAN_INPUT_H_
