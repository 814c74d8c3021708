// Reads the input of `gordian plan`: recorded sessions, tables of buckets, samples of collectives.
#ifndef GORDIAN_CLI_PLAN_PLAN_INPUT_H_
#define GORDIAN_CLI_PLAN_PLAN_INPUT_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "planner/cost_model.h"
#include "planner/proof/job_trace.h"
#include "planner/schedule/buckets.h"

namespace gordian::cli {

// A table of buckets, the same at all ranks or one for each of them.
//   JSON: {"buckets": [{"forward_us": 1, "backward_us": 2, "comm_us": 3, "elements": 4, "name": "5"},
//         ...]}, or {"ranks": [[{...}, ...], ...]}
//   CSV:  a line "forward_us,backward_us,comm_us[,elements]", then a bucket a line, bucket 1 first
struct BucketTable {
  std::vector<std::vector<planner::Bucket>> by_rank;  // at least one, all of the same length
  std::vector<std::string> names;  // of the buckets; none, or as many, "" where there is none
  bool per_rank = false;
};

// Judges by content; a trace or a folder is no table.
bool LooksLikeTable(const std::string& path);
StatusOr<BucketTable> ReadBucketTable(const std::string& path);

// Takes each time from the slowest rank, so that all ranks plan with the same times.
std::vector<planner::Bucket> AgreeOnTimes(const std::vector<std::vector<planner::Bucket>>& by_rank);

// Reads CSV: a line "plan,ranks,bytes,us", then one sample a line; plan is ring, doubling or bruck.
StatusOr<std::vector<planner::CostSample>> ReadCostSamples(const std::string& path);

struct RecordedJob {
  planner::JobTrace trace;
  std::string file;
  std::string note;       // where and why the trace ends early; "": it is complete
  bool one_clock = true;  // all processes ran on one node
};
// `path`: a session, or a trace.
StatusOr<RecordedJob> ReadRecordedJob(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PLAN_PLAN_INPUT_H_
