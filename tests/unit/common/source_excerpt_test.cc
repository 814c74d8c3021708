#include "common/source_excerpt.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace gordian {
namespace {

class SourceExcerptTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, int lines) {
    std::ofstream file(folder_ + "/" + name);
    for (int i = 1; i <= lines; ++i) file << "line " << i << "\n";
    return folder_ + "/" + name;
  }
  const std::string folder_ = testing::TempDir() + "source_excerpt." + std::to_string(getpid());
};

TEST_F(SourceExcerptTest, ReadsTheLinesAround) {
  const SourceExcerpt found = ReadAround(Write("train.py", 100), 50);
  EXPECT_EQ(found.first_line, 45);
  ASSERT_EQ(found.lines.size(), 11u);
  EXPECT_EQ(found.lines[5], "line 50");
}

TEST_F(SourceExcerptTest, AtTheEnds) {
  const std::string path = Write("train.cu", 3);
  EXPECT_EQ(ReadAround(path, 1).lines.size(), 3u);
  EXPECT_EQ(ReadAround(path, 3).lines.back(), "line 3");
  EXPECT_TRUE(ReadAround(path, 4).lines.empty()) << "the file has changed since";
  EXPECT_TRUE(ReadAround(path, 0).lines.empty());
  EXPECT_TRUE(ReadAround(path, -1).lines.empty());
}

// A watched process names the paths.
TEST_F(SourceExcerptTest, ReadsSourcesAlone) {
  EXPECT_TRUE(ReadAround("/etc/passwd", 1).lines.empty());
  EXPECT_TRUE(ReadAround(Write("secret.key", 10), 1).lines.empty());
  EXPECT_TRUE(ReadAround("train.py", 1).lines.empty()) << "not absolute";
  const std::string fifo = folder_ + "/fifo.py";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(ReadAround(fifo, 1).lines.empty()) << "a pipe would be waited for";
  EXPECT_TRUE(ReadAround("/dev/zero.py", 1).lines.empty());
}

TEST_F(SourceExcerptTest, LinesAreHarmlessAndBounded) {
  const std::string path = folder_ + "/evil.py";
  std::ofstream(path) << "a\x1b[31m\xe2\x80\xae\xff\tb\n" << std::string(10'000, 'x') << "\n";
  const SourceExcerpt found = ReadAround(path, 1);
  ASSERT_EQ(found.lines.size(), 2u);
  EXPECT_EQ(found.lines[0].find_first_of("\x1b\xff\t"), std::string::npos) << found.lines[0];
  EXPECT_LE(found.lines[1].size(), 240u);
}

// What a node sends is no more than what this machine would have read.
TEST(SourceExcerpt, OfSomebodyElseIsHarmlessAndBounded) {
  SourceExcerpt evil{
      .path = "/job/a\x1b[31m.py",
      .line = 50,
      .first_line = 45,
      .lines = std::vector<std::string>(1000, "\x1b]0;\xff" + std::string(1000, 'x'))};
  MakeHarmless(&evil);
  EXPECT_EQ(evil.lines.size(), 11u);
  for (const std::string& line : evil.lines) {
    EXPECT_LE(line.size(), 240u);
    EXPECT_EQ(line.find_first_of("\x1b\xff"), std::string::npos);
  }
  EXPECT_EQ(evil.path.find('\x1b'), std::string::npos);
  for (const auto& [line, first] :
       {std::pair{50, 60}, {50, 1}, {0, 0}, {-1, -5}, {5, 0}, {50, 48}}) {
    SourceExcerpt elsewhere{
        .path = "/a.py", .line = line, .first_line = first, .lines = {"x", "y"}};
    MakeHarmless(&elsewhere);
    EXPECT_TRUE(elsewhere.lines.empty()) << line << " from " << first;
  }
  SourceExcerpt good{.path = "/a.py", .line = 2, .first_line = 1, .lines = {"x", "y", "z"}};
  MakeHarmless(&good);
  EXPECT_EQ(good.lines, (std::vector<std::string>{"x", "y", "z"}));
  SourceExcerpt far{.path = std::string(10'000, '/'), .line = 1, .first_line = 1, .lines = {"x"}};
  MakeHarmless(&far);
  EXPECT_TRUE(far.path.empty());
  EXPECT_TRUE(far.lines.empty());
}

}  // namespace
}  // namespace gordian
