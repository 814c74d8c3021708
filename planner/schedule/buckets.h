// The planner's input, buckets of gradients and their times, and the pieces (items) that it sends.
// Plain data in whole microseconds, so that equal inputs give equal plans on every machine.
#ifndef GORDIAN_PLANNER_SCHEDULE_BUCKETS_H_
#define GORDIAN_PLANNER_SCHEDULE_BUCKETS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::planner {

using Micros = int64_t;

inline constexpr int kMaxLinks = 2;

// Bucket 1 is nearest to the input: the forward pass takes buckets in ascending order, the backward
// pass in descending order. Vectors hold bucket j at index j - 1.
struct Bucket {
  Micros forward = 0;
  Micros backward = 0;
  Micros comm = 0;       // all-reduce of the bucket, alone on the first link
  int64_t elements = 0;  // 0: not known
};

struct Totals {
  Micros forward = 0, backward = 0, comm = 0;
  // All-reduce time / computation time: below 1, every iteration can hide all communication.
  double CoverageRate() const {
    return forward + backward == 0
               ? 0
               : static_cast<double>(comm) / static_cast<double>(forward + backward);
  }
};

Totals Sum(const std::vector<Bucket>& buckets);

// When bucket j's gradient is ready, from the begin of the backward pass: the sum of the backward
// times of bucket j and all above it. Indexed as the buckets.
std::vector<Micros> ReadyTimes(const std::vector<Bucket>& buckets);

// The unit of a schedule's operations: a whole bucket or a part of it.
struct Item {
  int bucket = 0;             // from 1
  int64_t first_element = 0;  // within the bucket
  int64_t elements = 0;
  Bucket time;           // its share of the bucket's times
  Micros slow_comm = 0;  // its time on the second link: round(mu * comm)
};

// What each of `pieces` operations takes that together move what one of `comm` moves, and each begin
// with `startup`. Piece `at`, from 0; the first pieces take the remainder.
Micros PieceTime(Micros comm, int64_t pieces, int64_t at, Micros startup);
// The fewest pieces of which none takes longer than `cap`; 0: no number is enough.
int64_t PiecesWithin(Micros comm, Micros cap, Micros startup);

// Cuts each bucket into items of nearly equal communication time, computation time and elements, as
// few as `cap` allows. `startup`: what an all-reduce takes whatever its size, so that each further
// item costs it anew. cap <= 0: no limit of time; most_elements <= 0: no limit of elements. Returns
// none if `startup` alone exceeds the cap.
std::vector<Item> Partition(const std::vector<Bucket>& buckets, Micros cap, double mu,
                            int64_t most_elements = 0, Micros startup = 0);

// Turns the items into buckets, for functions that take buckets.
std::vector<Bucket> AsBuckets(const std::vector<Item>& items);

// The paper's choice of a cap: the smallest knapsack, forward time / mu.
Micros SmallestKnapsack(const Totals& totals, double mu);

// Returns what is wrong with the table, naming the bucket, or "". Refuses empty tables, more than
// 4,096 buckets, negative times, sums above 2^53, and a backward or forward pass of no length.
std::string CheckBuckets(const std::vector<Bucket>& buckets);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_SCHEDULE_BUCKETS_H_
