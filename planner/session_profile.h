// Derives the times of a job's gradient buckets from its recorded calls.
//
// A trace holds the host's calls, so it shows a moment on the GPU only where a host thread really
// waited for it: a bucket is ready when the wait before its all-reduce returned, and reduced when
// the first wait that covers it returned. Waits under 20 us prove nothing and are ignored. An
// all-reduce takes the least time over the ranks of an iteration (the last rank to come waits for
// no other); all other times are the greatest over the ranks. Medians over the iterations.
//
// Source: DeFT reads these times from Nsight logs; deriving them from the host's waits is gordian's
// own.
#ifndef GORDIAN_PLANNER_SESSION_PROFILE_H_
#define GORDIAN_PLANNER_SESSION_PROFILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/proof/job_trace.h"
#include "planner/schedule/buckets.h"

namespace gordian::planner {

// One all-reduce of a bucket at one process.
struct BucketCall {
  size_t call = 0;        // index into JobProcess::calls
  uint64_t ready_ns = 0;  // end of the wait before it; 0: unknown
  uint64_t done_ns = 0;   // end of the first wait that covers it; 0: unknown
  uint64_t start_ns =
      0;  // the latest of its call, its gradient, and what was before it on the stream
};

struct RankIterations {
  model::ProcessId process = 0;
  int rank = -1;
  // Whole iterations; in each, buckets N..1 in the order of their calls.
  std::vector<std::vector<BucketCall>> iterations;
  std::vector<uint64_t> backward_ns;  // begin of each backward pass; 0: unknown
  std::vector<size_t> backward_call;  // the wait that ended then; SIZE_MAX: none
};

// Which calls belong to the buckets. Present even when times are unknown.
struct BucketCalls {
  int comm = -1;
  int buckets = 0;
  std::vector<RankIterations> ranks;
};

struct ProfileOptions {
  std::string
      comm;  // name of the data-parallel communicator; "": the one with most all-reduced bytes
  int buckets = 0;  // of an iteration; 0: the shortest period of the all-reduces' sizes
  int least_iterations = 20;
};

std::optional<BucketCalls> FindBuckets(const JobTrace& trace, const ProfileOptions& options,
                                       std::string* error);

struct SessionProfile {
  std::vector<Bucket> buckets;
  std::vector<Micros> ready;  // by bucket, from the begin of the backward pass
  Micros step = 0;            // as recorded
  Micros exposed = 0;         // communication after the backward pass
  int iterations = 0;         // that the medians are over
  double spread = 0;  // widest of (90 % - 10 % quantile) / median over the communication times
  std::vector<std::string> estimated;  // times that were estimated, and how
};

// Buckets by the times of one rank; ranks with different times would make different plans.
struct RankTimes {
  int rank = -1;
  std::vector<Micros> backward, comm;  // by bucket
  Micros forward = 0;
};

// Sets *by_rank, if not null, to each rank's own times.
std::optional<SessionProfile> Profile(const JobTrace& trace, const BucketCalls& calls,
                                      const ProfileOptions& options, std::string* error,
                                      std::vector<RankTimes>* by_rank = nullptr);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SESSION_PROFILE_H_
