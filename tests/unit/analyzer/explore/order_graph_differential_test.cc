// The folded graph against the naive one, on random programs with loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/explore/collective_order_graph.h"
#include "tests/unit/analyzer/explore/naive_order_graph.h"

namespace gordian::explore {
namespace {

constexpr size_t kMost = 100'000;  // candidates

size_t Programs() {
  const char* const asked = std::getenv("GORDIAN_TEST_PROGRAMS");
  return asked == nullptr ? 4000 : std::strtoul(asked, nullptr, 10);
}

// A line of a loop of a thread.
struct Line {
  uint64_t fold = 0;
  int comm = -1;
  std::vector<uint32_t> adds, awaits;
  bool blocks = false;
};

// Threads of some ranks, each a loop; the ranks' loops are alike, but for a line now and then. Each
// rank's calls come in a random order of its threads, and may overlap.
std::vector<OrderedCall> RandomJob(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  const uint32_t ranks = 2 + below(2), threads = 1 + below(3), loops = 1 + below(5);
  const uint32_t resources = 1 + below(4), comms = 1 + below(3);
  std::vector<std::vector<Line>> bodies(threads);
  uint64_t fold = 0;
  for (std::vector<Line>& body : bodies) {
    for (uint32_t i = 1 + below(3); i > 0; --i) {
      Line& line = body.emplace_back();
      line.fold = below(4) == 0 ? 1 : ++fold;
      const bool operation = below(4) != 0;
      if (operation) line.comm = static_cast<int>(below(comms));
      for (uint32_t n = operation ? 1 + below(2) : below(2); n > 0; --n)
        line.adds.push_back(below(resources));
      for (uint32_t n = below(2) + (operation ? 0 : 1); n > 0; --n)
        line.awaits.push_back(below(resources));
      line.blocks = below(operation ? 8 : 2) == 0;
    }
  }
  std::vector<OrderedCall> calls;
  std::map<std::tuple<int, uint32_t>, uint32_t> made;  // operations of a rank on a communicator
  uint64_t moment = 1;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<Line>> programs(threads);
    for (uint32_t thread = 0; thread < threads; ++thread) {
      for (uint32_t loop = 0; loop < loops; ++loop)
        programs[thread].insert(programs[thread].end(), bodies[thread].begin(),
                                bodies[thread].end());
      if (below(6) == 0) programs[thread].pop_back();
    }
    std::vector<size_t> at(threads, 0);
    std::vector<size_t> own;  // of the rank
    while (true) {
      std::vector<uint32_t> able;
      for (uint32_t thread = 0; thread < threads; ++thread) {
        if (at[thread] < programs[thread].size()) able.push_back(thread);
      }
      if (able.empty()) break;
      const uint32_t thread = able[below(able.size())];
      const Line& line = programs[thread][at[thread]++];
      OrderedCall& call = calls.emplace_back();
      call.actor = rank * threads + thread;
      call.group = rank;
      call.fold = line.fold;
      call.adds = line.adds;
      call.awaits = line.awaits;
      call.blocks = line.blocks;
      call.begun = moment;
      call.returned = moment + 1 + (below(4) == 0 ? below(6) : 0);
      moment += 2;
      if (line.comm >= 0)
        call.instances.push_back(static_cast<uint32_t>(line.comm) +
                                 comms * made[{line.comm, rank}]++);
      if (!own.empty() && below(5) == 0) {
        const size_t earlier = own[below(own.size())];
        if (calls[earlier].actor != call.actor) call.after.push_back(earlier);
      }
      for (const size_t earlier : own) {
        if (calls[earlier].actor == call.actor)
          calls[earlier].returned = std::min(calls[earlier].returned, call.begun);
      }
      own.push_back(calls.size() - 1);
    }
  }
  return calls;
}

using Fold = std::tuple<size_t, uint64_t, uint64_t>;
// What each cycle was looked for by: the rank and the folds of the first reversal.
std::set<Fold> FoldsOf(const std::vector<OrderedCall>& calls, const Candidates& candidates) {
  std::set<Fold> folds;
  for (const Candidate& one : candidates.found) {
    const auto& [first, second] = one.reversals.front();
    folds.insert({calls[first].group, calls[first].fold, calls[second].fold});
  }
  return folds;
}

std::string Show(const std::vector<OrderedCall>& calls) {
  std::string text;
  for (const OrderedCall& call : calls) {
    text += "rank " + std::to_string(call.group) + " thread " + std::to_string(call.actor) +
            " fold " + std::to_string(call.fold) + (call.blocks ? " blocks" : "") + " adds";
    for (const uint32_t resource : call.adds) text += " " + std::to_string(resource);
    text += " awaits";
    for (const uint32_t resource : call.awaits) text += " " + std::to_string(resource);
    text += " instances";
    for (const uint32_t instance : call.instances) text += " " + std::to_string(instance);
    for (const size_t earlier : call.after) text += " after " + std::to_string(earlier);
    text += "\n";
  }
  return text;
}

TEST(OrderGraphDifferential, AgreesWithTheNaiveGraph) {
  size_t with = 0, without = 0, found = 0;
  for (size_t seed = 1; seed <= Programs(); ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<OrderedCall> calls = RandomJob(random);
    const Candidates naive = testing::FindNaively(calls, kMost),
                     folded = FindCandidates(calls, kMost);
    ASSERT_TRUE(naive.all && folded.all) << "seed " << seed;
    ASSERT_EQ(FoldsOf(calls, folded), FoldsOf(calls, naive)) << "seed " << seed << "\n"
                                                             << Show(calls);
    ASSERT_EQ(folded.found.size(), naive.found.size());
    for (const Candidate& one : folded.found) {
      ASSERT_FALSE(one.reversals.empty()) << "seed " << seed;
      for (const auto& [first, second] : one.reversals) {
        ASSERT_EQ(calls[first].group, calls[second].group);
        ASSERT_NE(calls[first].actor, calls[second].actor);
      }
    }
    with += !naive.found.empty();
    without += naive.found.empty();
    found += naive.found.size();
  }
  std::printf("%zu programs with candidates, %zu in all; %zu without\n", with, found, without);
  EXPECT_GT(with, Programs() / 20);
  EXPECT_GT(without, Programs() / 20);
}

}  // namespace
}  // namespace gordian::explore
