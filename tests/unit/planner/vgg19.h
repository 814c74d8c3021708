// The six buckets of VGG-19 in DeFT's table II, in microseconds.
#ifndef GORDIAN_TESTS_UNIT_PLANNER_VGG19_H_
#define GORDIAN_TESTS_UNIT_PLANNER_VGG19_H_

#include <vector>

#include "planner/schedule/buckets.h"

namespace gordian::planner::testing {

inline constexpr double kMu = 1.65;

inline std::vector<Bucket> Vgg19() {
  return {{1238, 72496, 1968},  {28799, 12786, 11262}, {4801, 4872, 15447},
          {1899, 2319, 178643}, {326, 484, 31754},     {103, 162, 8651}};
}

inline std::vector<Item> Vgg19Items() {
  return Partition(Vgg19(), SmallestKnapsack(Sum(Vgg19()), kMu), kMu);
}

}  // namespace gordian::planner::testing

#endif  // GORDIAN_TESTS_UNIT_PLANNER_VGG19_H_
