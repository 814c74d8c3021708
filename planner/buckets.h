// What the planner plans with: buckets of gradients and their times, and the pieces (items) that
// are sent. Plain data; times are whole microseconds, so that equal inputs give equal plans
// everywhere.
#ifndef GORDIAN_PLANNER_BUCKETS_H_
#define GORDIAN_PLANNER_BUCKETS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::planner {

using Micros = int64_t;

inline constexpr int kMaxLinks = 2;

// Bucket 1 is nearest the input: the forward pass takes buckets in ascending order, the backward
// pass in descending order. In vectors bucket j stands at j - 1.
struct Bucket {
  Micros forward = 0;
  Micros backward = 0;
  Micros comm = 0;       // all-reduce of the bucket, alone on the first link
  int64_t elements = 0;  // 0: not known
};

struct Totals {
  Micros forward = 0, backward = 0, comm = 0;
  // All-reduce time by computation time: below 1 everything can be hidden in every iteration.
  double CoverageRate() const {
    return forward + backward == 0
               ? 0
               : static_cast<double>(comm) / static_cast<double>(forward + backward);
  }
};

Totals Sum(const std::vector<Bucket>& buckets);

// When bucket j's gradient is ready, from the begin of the backward pass: the sum of the backward
// times of bucket j and all behind it. Same places as the buckets.
std::vector<Micros> ReadyTimes(const std::vector<Bucket>& buckets);

// What a schedule sends as one operation: a whole bucket or a part of it.
struct Item {
  int bucket = 0;             // from 1
  int64_t first_element = 0;  // within the bucket
  int64_t elements = 0;
  Bucket time;           // its share of the bucket's times
  Micros slow_comm = 0;  // its time on the second link: round(mu * comm)
};

// Cuts each bucket into ceil(C / cap) items of nearly equal communication time; remainders go to
// the first pieces; computation times and elements are cut alike. cap <= 0: no limit of time;
// most_elements
// <= 0: none of elements.
std::vector<Item> Partition(const std::vector<Bucket>& buckets, Micros cap, double mu,
                            int64_t most_elements = 0);

// The items as buckets of their own, for the functions that take buckets.
std::vector<Bucket> AsBuckets(const std::vector<Item>& items);

// The paper's choice of a cap: the smallest knapsack, forward time by mu.
Micros SmallestKnapsack(const Totals& totals, double mu);

// What is wrong with such a table, naming the bucket; "": nothing. Refused are empty tables, more
// than 4,096 buckets, negative times, sums beyond 2^53, and a backward or forward pass that takes
// no time.
std::string CheckBuckets(const std::vector<Bucket>& buckets);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_BUCKETS_H_
