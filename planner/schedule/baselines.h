// Schedules of ordinary synchronous training, to compare the delayed ones with.
//
// WFBP: wait-free back-propagation, as in DDP; sends buckets as they become ready, and the next
// forward pass waits for all. Priority: sends the lowest ready index first, in uninterrupted
// chunks, and the forward pass of a bucket waits for that bucket only (ByteScheduler, US-Byte). The
// bound holds for any order that sends everything in every iteration.
#ifndef GORDIAN_PLANNER_SCHEDULE_BASELINES_H_
#define GORDIAN_PLANNER_SCHEDULE_BASELINES_H_

#include <vector>

#include "planner/schedule/buckets.h"

namespace gordian::planner {

struct Span {
  int item = 0;  // from 1: index of the bucket
  Micros begin = 0, end = 0;
};

// One iteration in steady state, from the begin of its backward pass to the end of the following
// forward pass. Times in microseconds.
struct Baseline {
  Micros step = 0;
  std::vector<Span> sends;     // in the order in which they are sent
  std::vector<Span> forwards;  // of each bucket
};

Baseline Wfbp(const std::vector<Bucket>& buckets);
// Sends a bucket in ceil(C / chunk) parts of nearly equal length, each of which costs `startup`
// anew; in one if chunk <= 0.
Baseline Priority(const std::vector<Bucket>& buckets, Micros chunk, Micros startup = 0);
// The first gradient, then all communication, then the last forward pass.
Micros PriorityBound(const std::vector<Bucket>& buckets);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SCHEDULE_BASELINES_H_
