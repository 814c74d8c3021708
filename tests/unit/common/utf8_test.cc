#include "common/utf8.h"

#include <gtest/gtest.h>

namespace gordian {
namespace {

TEST(CleanUtf8Test, KeepsWhatIsValid) {
  EXPECT_EQ(CleanUtf8("plain"), "plain");
  EXPECT_EQ(CleanUtf8("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(CleanUtf8("a\x80z"), "a?z");
  EXPECT_EQ(CleanUtf8("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(CleanUtf8("\xed\xa0\x80"), "???") << "surrogate";
  EXPECT_EQ(CleanUtf8("\xf5\x80\x80\x80"), "????") << "beyond the last code point";
  EXPECT_EQ(CleanUtf8("\xe2\x82"), "??") << "cut";
  const char field[4] = {'a', 'b', '\0', 'c'};
  EXPECT_EQ(TextOf(field, sizeof(field)), "ab");
  EXPECT_EQ(TextOf(field, 2), "ab");
}

}  // namespace
}  // namespace gordian
