#include "analyzer/explore/collective_order_graph.h"

#include <gtest/gtest.h>

namespace gordian::explore {
namespace {

constexpr uint32_t kStream = 0;

// Two ranks of two threads each, which issue instance 0 and instance 1.
OrderedCall Call(size_t rank, size_t thread, uint32_t instance, uint32_t resource = kStream) {
  OrderedCall call;
  call.actor = 2 * rank + thread;
  call.group = rank;
  call.fold = instance + 1;
  call.instances = {instance};
  call.adds = {resource};
  return call;
}

std::vector<OrderedCall> TwoThreads() {
  return {Call(0, 0, 0), Call(0, 1, 1), Call(1, 0, 0), Call(1, 1, 1)};
}

TEST(CollectiveOrderGraph, FindsTwoThreadsOnOneStream) {
  const Candidates candidates = FindCandidates(TwoThreads());
  EXPECT_TRUE(candidates.all);
  ASSERT_EQ(candidates.found.size(), 2u);  // either rank may be the one that departs
  EXPECT_EQ(candidates.found[0].reversals, (std::vector<Reversal>{{1, 0}}));
  EXPECT_EQ(candidates.found[0].as_recorded, (std::vector<Reversal>{{2, 3}}));
  EXPECT_EQ(candidates.found[1].reversals, (std::vector<Reversal>{{3, 2}}));
}

TEST(CollectiveOrderGraph, SaysWhenThereAreMore) {
  const Candidates candidates = FindCandidates(TwoThreads(), 1);
  EXPECT_EQ(candidates.found.size(), 1u);
  EXPECT_FALSE(candidates.all);
}

TEST(CollectiveOrderGraph, LeavesOutFixedOrders) {
  std::vector<OrderedCall> calls = TwoThreads();
  calls[1].after = {0};
  EXPECT_EQ(FindCandidates(calls).found.size(), 1u);  // rank 1 may still depart
  calls[3].after = {2};
  EXPECT_TRUE(FindCandidates(calls).found.empty());
}

TEST(CollectiveOrderGraph, OneThreadHasOneOrder) {
  std::vector<OrderedCall> calls = TwoThreads();
  for (OrderedCall& call : calls) call.actor = 2 * call.group;
  EXPECT_TRUE(FindCandidates(calls).found.empty());
}

TEST(CollectiveOrderGraph, StreamsOfTheirOwnDoNotWait) {
  std::vector<OrderedCall> calls = TwoThreads();
  for (const size_t second : {1u, 3u}) calls[second].adds = {kStream + 1};
  EXPECT_TRUE(FindCandidates(calls).found.empty());
}

TEST(CollectiveOrderGraph, AnAwaitedCallOrdersWhatFollows) {
  // Each thread waits for its own operation, and the other thread's comes after that.
  std::vector<OrderedCall> calls = TwoThreads();
  for (const size_t second : {1u, 3u}) {
    calls[second].adds = {kStream + 1};
    calls[second - 1].blocks = true;
  }
  EXPECT_TRUE(FindCandidates(calls).found.empty());
}

}  // namespace
}  // namespace gordian::explore
