#include "analyzer/report/text_layout.h"

#include <gtest/gtest.h>

namespace gordian::analyzer {
namespace {

TEST(TextLayout, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 bytes");
  EXPECT_EQ(HumanBytes(1), "1 byte");
  EXPECT_EQ(HumanBytes(1023), "1023 bytes");
  EXPECT_EQ(HumanBytes(1024), "1.0 KiB");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes((1ull << 20) - 1), "1.0 MiB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16.0 EiB");
}

TEST(TextLayout, Ranks) {
  EXPECT_EQ(RankList({}), "no rank");
  EXPECT_EQ(RankList({-1}), "an unknown rank");
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({1, 0}), "ranks 0 and 1");
  EXPECT_EQ(RankList({0, 1, 4}), "ranks 0, 1 and 4");
  EXPECT_EQ(RankList({0, 1, 2, 3}), "ranks 0-3");
  EXPECT_EQ(RankList({0, 1, 2, 5, 5}), "ranks 0-2 and 5");
  EXPECT_EQ(RankList({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST(TextLayout, Wrapping) {
  EXPECT_EQ(Wrap("a: ", "one two three", 10), "a: one two\n   three\n");
  EXPECT_EQ(Wrap("", "", 10), "\n");
  EXPECT_EQ(Wrap("> ", "--", "aaaa bbbb cccc", 8), "> aaaa\n--bbbb\n--cccc\n");
  // A word that is longer than a line.
  EXPECT_EQ(Wrap("", "abcdefghijklmnopqrst uv", 10), "abcdefghij\nklmnopqrst\nuv\n");
}

TEST(TextLayout, CutsBetweenCharacters) {
  EXPECT_EQ(CutTo("abcdef", 6), "abcdef");
  EXPECT_EQ(CutTo("abcdefg", 6), "abc...");
  EXPECT_EQ(CutAtWord("rank 1 passed", 13), "rank 1 passed");
  EXPECT_EQ(CutAtWord("rank 1 passed", 12), "rank 1 ...");
  EXPECT_EQ(CutAtWord("rank 1 passed", 10), "rank 1 ...");
  EXPECT_EQ(CutAtWord("a bcdefghijklm", 10), "a bcdef...");
  EXPECT_EQ(CutTo("ab\xc3\xa9zzzz", 6), "ab...");  // not half of the two-byte character
}

}  // namespace
}  // namespace gordian::analyzer
