#include <gtest/gtest.h>

#include "cli/watch/keys.h"
#include "cli/watch/row_filter.h"

namespace gordian::cli {
namespace {

using Keys = std::vector<Key>;

Key Text(const std::string& text) { return {Key::kText, text}; }

TEST(WatchKeysTest, KeysOfTerminals) {
  const std::pair<const char*, Key::Kind> known[] = {
      {"\033[A", Key::kUp},        {"\033OA", Key::kUp},    {"\033[1;5B", Key::kDown},
      {"\033OC", Key::kRight},     {"\033[D", Key::kLeft},  {"\033[5~", Key::kPageUp},
      {"\033[6~", Key::kPageDown}, {"\033[H", Key::kHome},  {"\033[1~", Key::kHome},
      {"\033[F", Key::kEnd},       {"\033[4~", Key::kEnd},  {"\033[Z", Key::kBackTab},
      {"\t", Key::kTab},           {"\n", Key::kEnter},     {"\r", Key::kEnter},
      {"\x7f", Key::kBackspace},   {"\b", Key::kBackspace}, {"\x0c", Key::kRedraw},
      {"\x15", Key::kClearLine}};
  for (const auto& [bytes, kind] : known) {
    KeyDecoder keys;
    EXPECT_EQ(keys.Take(bytes), (Keys{{kind, ""}})) << bytes + 1;
    EXPECT_FALSE(keys.waits());
  }
}

TEST(WatchKeysTest, AKeyMayComeInPieces) {
  KeyDecoder keys;
  EXPECT_EQ(keys.Take("j\033"), (Keys{Text("j")}));
  EXPECT_TRUE(keys.waits());
  EXPECT_EQ(keys.Take("["), Keys{});
  EXPECT_EQ(keys.Take("Bk"), (Keys{{Key::kDown, ""}, Text("k")}));
  EXPECT_EQ(keys.Take("\xc3"), Keys{});
  EXPECT_EQ(keys.Take("\xa9"), (Keys{Text("\xc3\xa9")}));
  EXPECT_FALSE(keys.waits());
}

TEST(WatchKeysTest, EscIsKnownByWhatDoesNotFollow) {
  KeyDecoder keys;
  EXPECT_EQ(keys.Take("\033"), Keys{});
  EXPECT_EQ(keys.Flush(), (Keys{{Key::kEscape, ""}}));
  EXPECT_FALSE(keys.waits());
  EXPECT_EQ(keys.Take("\033q"), (Keys{{Key::kEscape, ""}, Text("q")}));
  EXPECT_EQ(keys.Take("\033\033[A"), (Keys{{Key::kEscape, ""}, {Key::kUp, ""}}));
}

// As of function keys, a mouse, or a terminal's answer: none of its letters is a key.
TEST(WatchKeysTest, WhatIsNoKnownKeyDoesNothing) {
  KeyDecoder keys;
  EXPECT_EQ(keys.Take("\033[15~\033[?1;2c\033[99q\001j"), (Keys{Text("j")}));
  EXPECT_EQ(keys.Take("\033[1;"), Keys{});
  EXPECT_EQ(keys.Flush(), Keys{});
  EXPECT_EQ(keys.Take("\xff\xc2\x9bk"), (Keys{Text("k")}));
  EXPECT_EQ(keys.Take("\033[" + std::string(100, '1') + "Ak").back(), Text("k"));
}

TEST(WatchKeysTest, TheFilterTakesRanksOrText) {
  EXPECT_TRUE(RowFilter("").Takes(3, {"in call"}));
  EXPECT_TRUE(RowFilter(" 3 ").Takes(3, {""}));
  EXPECT_FALSE(RowFilter("3").Takes(33, {"3"}));
  EXPECT_TRUE(RowFilter("2-4").Takes(4, {}));
  EXPECT_FALSE(RowFilter("2-4").Takes(5, {"2-4"}));
  EXPECT_TRUE(RowFilter("allReduce").Takes(0, {"x", "ncclAllReduce"}));
  EXPECT_FALSE(RowFilter("allReduce").Takes(0, {"all", "Reduce"}));
  EXPECT_TRUE(RowFilter("2-4").TakesAny({0, 3}, {}));
  EXPECT_FALSE(RowFilter("2-4").TakesAny({0, 5}, {"2-4"}));
  EXPECT_TRUE(RowFilter("99999999999").Takes(0, {"a99999999999"})) << "no number of a rank";
}

}  // namespace
}  // namespace gordian::cli
