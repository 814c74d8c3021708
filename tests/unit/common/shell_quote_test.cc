#include "common/shell_quote.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <random>
#include <string>

#include "common/utf8.h"

namespace gordian {
namespace {

TEST(ShellQuote, OnlyWhatNeedsIt) {
  EXPECT_EQ(ShellQuote("a/b-c.d"), "a/b-c.d");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(ShownQuote("a b"), "'a b'");
  EXPECT_EQ(ShownQuote("a\n\033'\\"), "$'a\\012\\033\\'\\\\'");
}

std::string ByShell(const std::string& shell, const std::string& quoted) {
  const std::string command =
      shell + " -s <<'GORDIAN_END' 2>&1\nprintf %s " + quoted + "\nGORDIAN_END\n";
  FILE* const out = popen(command.c_str(), "r");
  std::string text;
  for (int c = 0; (c = fgetc(out)) != EOF;) text += static_cast<char>(c);
  pclose(out);
  return text;
}

TEST(ShellQuote, AShellReadsTheSameWord) {
  constexpr char kPieces[][6] = {"a",        "'",     "\"",       "\\",   "$x",   "`a`",
                                 "\n",       ";",     "\t",       "\033", "\x7f", "*",
                                 "\xc2\x9b", "{a,b}", "\xc3\xa4", "\xff", "\x9b"};
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    std::string word;
    for (size_t left = random() % 12; left > 0; --left) {
      word += kPieces[random() % std::size(kPieces)];
    }
    EXPECT_EQ(ByShell("sh", ShellQuote(word)), word) << ShellQuote(word);
    EXPECT_EQ(ByShell("bash", ShownQuote(word)), word) << ShownQuote(word);
    EXPECT_EQ(Printable(ShownQuote(word)), ShownQuote(word));
  }
}

}  // namespace
}  // namespace gordian
