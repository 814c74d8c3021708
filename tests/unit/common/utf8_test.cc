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

TEST(PrintableTest, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(Printable("a\033[31mb\nc\x7f"), "a [31mb c ");
  EXPECT_EQ(Printable("a\xc2\x9b"
                      "31m"),
            "a 31m");
  EXPECT_EQ(Printable("\xe2\x80\xae"
                      "a\xe2\x81\xa6"
                      "b\xd8\x9c"
                      "c\xe2\x80\xa8"),
            " a b c ");
  const std::string fine = "\xc3\xa4 \xe2\x80\x93 \xe2\x82\xac \xd8\xa7 \xf0\x9f\x98\x80";
  EXPECT_EQ(Printable(fine), fine);
  EXPECT_EQ(Printable("\xe2"), "\xe2") << "cut: another function's task";
}

}  // namespace
}  // namespace gordian
