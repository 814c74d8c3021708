// The times of a job's gradient buckets, out of its recorded calls.
//
// What is recorded are the host's calls, so a moment on the GPU is known where a host thread really
// waited for it: a bucket is ready when the wait that its all-reduce was called after returned, and
// reduced when the first wait that covers it returned. Waits that lasted under 20 us prove nothing
// and are not used. An all-reduce's time is the least over the ranks of an iteration (the last rank
// to come waits for nobody); everything else is the greatest over the ranks. Medians over the
// iterations.
//
// Source: DeFT takes these from Nsight logs. That the host's waits serve instead is ours.
#ifndef GORDIAN_PLANNER_SESSION_PROFILE_H_
#define GORDIAN_PLANNER_SESSION_PROFILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/buckets.h"
#include "planner/job_trace.h"

namespace gordian::planner {

// One all-reduce of a bucket at one process.
struct BucketCall {
  size_t call = 0;        // index into JobProcess::calls
  uint64_t ready_ns = 0;  // end of the wait before it; 0: none seen
  uint64_t done_ns = 0;   // end of the first wait that covers it; 0: none seen
  uint64_t start_ns =
      0;  // the latest of its call, its gradient, and what was before it on the stream
};

struct RankIterations {
  graph::ProcessId process = 0;
  int rank = -1;
  // Whole iterations; in each, buckets N..1 in the order of their calls.
  std::vector<std::vector<BucketCall>> iterations;
  std::vector<uint64_t> backward_ns;  // begin of each backward pass; 0: not seen
  std::vector<size_t> backward_call;  // the wait that ended then; SIZE_MAX: none
};

// Which calls are the buckets'. Always there where the times are not.
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
  Micros step = 0;            // as it was
  Micros exposed = 0;         // communication behind the backward pass
  int iterations = 0;         // that the medians are over
  double spread = 0;  // widest of (90 % - 10 % quantile) / median over the communication times
  std::vector<std::string> estimated;  // what is not measured, and how it was set
};

// Buckets as each rank has them; every one that differs would plan something else.
struct RankTimes {
  int rank = -1;
  std::vector<Micros> backward, comm;  // by bucket
  Micros forward = 0;
};

// `by_rank`, if not null, gets what each rank saw for itself.
std::optional<SessionProfile> Profile(const JobTrace& trace, const BucketCalls& calls,
                                      const ProfileOptions& options, std::string* error,
                                      std::vector<RankTimes>* by_rank = nullptr);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SESSION_PROFILE_H_
