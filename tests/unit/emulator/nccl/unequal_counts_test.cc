// All-reduces of two ranks with different counts, beside what H200s did.
#include "tests/measured/unequal_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "emulator/nccl/operation/mismatch.h"
#include "tests/unit/emulator/nccl/job.h"

namespace gordian::emu::nccl {
namespace {

using measured::Ends;
using measured::Pair;

Ends EndsOf(bool smaller, bool larger) {
  return smaller ? (larger ? Ends::kBoth : Ends::kSmaller) : (larger ? Ends::kLarger : Ends::kNone);
}

Signature AllReduce(uint64_t bytes) {
  Signature signature;
  signature.kind = Kind::kAllReduce;
  signature.datatype = ncclFloat;
  signature.count = bytes / sizeof(float);
  return signature;
}

// What the rule says of the pair.
Ends Decided(const Pair& pair) {
  const Signature smaller = AllReduce(pair.smaller_bytes), larger = AllReduce(pair.larger_bytes);
  return EndsOf(DecideFate(smaller, std::array{larger}) == Fate::kCompletes,
                DecideFate(larger, std::array{smaller}) == Fate::kCompletes);
}

// What two emulated ranks do. Rank 0 has fewer elements.
Ends RunPair(const Pair& pair) {
  const test::Outcome outcome = test::RunJob(2, [&](test::Rank& rank) {
    const uint64_t bytes = rank.rank() == 0 ? pair.smaller_bytes : pair.larger_bytes;
    test::Buffer buffer(bytes);
    const cudaStream_t stream = test::MakeStream();
    const ncclComm_t comm = rank.Init();
    float* const data = buffer.As<float>();
    for (const uint64_t count : {uint64_t{4}, bytes / sizeof(float)}) {
      REQUIRE_NCCL(ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, stream));
      if (count == 4) test::Synchronize(stream);  // used for the first time
    }
    rank.Mark(1);
    test::Synchronize(stream);
    rank.Mark(2);
  });
  for (const uint32_t mark : outcome.marks) EXPECT_GE(mark, 1u) << pair;
  EXPECT_EQ(outcome.hung, outcome.marks != std::vector<uint32_t>({2, 2})) << pair;
  return EndsOf(outcome.marks[0] == 2, outcome.marks[1] == 2);
}

TEST(UnequalCounts, TheRuleFollowsH200s) {
  std::vector<Pair> differ;
  for (const Pair& pair : measured::UnequalCounts()) {
    if (Decided(pair) != pair.ends) differ.push_back(pair);
  }
  EXPECT_EQ(differ, measured::NotFollowed());
  EXPECT_EQ(measured::UnequalCounts().size(), 220u);
}

// Every ninth pair, which is some of each outcome.
TEST(UnequalCounts, RanksDoWhatH200sDo) {
  size_t of[4] = {};
  const std::vector<Pair>&pairs = measured::UnequalCounts(),
        &not_followed = measured::NotFollowed();
  for (size_t i = 0; i < pairs.size(); i += 9) {
    if (std::count(not_followed.begin(), not_followed.end(), pairs[i]) > 0) continue;
    EXPECT_EQ(RunPair(pairs[i]), pairs[i].ends) << pairs[i];
    ++of[static_cast<size_t>(pairs[i].ends)];
  }
  for (const Ends ends : {Ends::kBoth, Ends::kSmaller, Ends::kNone})
    EXPECT_GE(of[static_cast<size_t>(ends)], 4u);
}

// Between the sizes that were measured, and of types as of counts.
TEST(UnequalCounts, Bounds) {
  constexpr uint64_t kKi = 1 << 10, kMi = 1 << 20;
  EXPECT_EQ(Decided({1536 * kKi, 1792 * kKi - 4, Ends::kSmaller}), Ends::kSmaller);
  EXPECT_EQ(Decided({4, 1792 * kKi, Ends::kNone}), Ends::kNone);
  EXPECT_EQ(Decided({1792 * kKi - 4, 128 * kMi, Ends::kNone}), Ends::kNone);
  EXPECT_EQ(Decided({2 * kMi - 4, 4 * kMi, Ends::kSmaller}), Ends::kSmaller);
  EXPECT_EQ(Decided({2 * kMi, 65 * kMi, Ends::kBoth}), Ends::kBoth);
  EXPECT_EQ(Decided({2 * kMi, 65 * kMi + 4, Ends::kSmaller}), Ends::kSmaller);
  Signature half = AllReduce(4 * kMi);
  half.datatype = ncclHalf;
  EXPECT_EQ(DecideFate(AllReduce(4 * kMi), std::array{half}), Fate::kCompletes);
  half.count /= 2;
  const Signature whole = AllReduce(2 * kMi);
  EXPECT_EQ(DecideFate(whole, std::array{half}), Fate::kHangs);
  EXPECT_EQ(DecideFate(half, std::array{whole}), Fate::kHangs);
}

}  // namespace
}  // namespace gordian::emu::nccl
