// Schedules that every synchronous training job could have: what the delayed ones are compared
// with.
//
// WFBP: wait-free back-propagation, as DDP does it; buckets in the order in which they become
// ready, and the next forward pass waits for all. Priority: the lowest ready index first, in chunks
// that are not interrupted, and the forward pass of a bucket waits for that bucket only
// (ByteScheduler, US-Byte). The bound holds for any order that sends everything in every iteration.
#ifndef GORDIAN_PLANNER_BASELINES_H_
#define GORDIAN_PLANNER_BASELINES_H_

#include <vector>

#include "planner/buckets.h"

namespace gordian::planner {

struct Span {
  int item = 0;  // from 1: index of the bucket that was given
  Micros begin = 0, end = 0;
};

// One iteration in the steady state, from the begin of its backward pass to the end of the forward
// pass that follows.
struct Baseline {
  Micros step = 0;
  std::vector<Span> sends;     // in the order in which they are sent
  std::vector<Span> forwards;  // of each bucket
};

Baseline Wfbp(const std::vector<Bucket>& buckets);
// chunk: a bucket goes in ceil(C / chunk) parts of nearly equal length; <= 0: in one.
Baseline Priority(const std::vector<Bucket>& buckets, Micros chunk);
// All of the communication, before it the first gradient and behind it the last forward pass.
Micros PriorityBound(const std::vector<Bucket>& buckets);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_BASELINES_H_
