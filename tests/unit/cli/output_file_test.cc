#include "cli/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace gordian::cli {
namespace {

namespace fs = std::filesystem;

std::string Text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    std::string base = ::testing::TempDir() + "/output-XXXXXX";
    base_ = mkdtemp(base.data());
    fs::create_directory(base_ + "/victim");
    std::ofstream(base_ + "/victim/plan.json") << "precious";
  }
  ~OutputFileTest() override { fs::remove_all(base_); }
  void ExpectVictimIsWhole() const { EXPECT_EQ(Text(base_ + "/victim/plan.json"), "precious"); }

  std::string base_;
};

TEST_F(OutputFileTest, WritesAndWritesAnew) {
  const mode_t before = umask(022);
  ASSERT_TRUE(WriteOutput(base_ + "/plan.json", "long text").ok());
  ASSERT_TRUE(WriteOutput(base_ + "/plan.json", "short").ok());
  umask(before);
  EXPECT_EQ(Text(base_ + "/plan.json"), "short");
  struct stat info {};
  ASSERT_EQ(stat((base_ + "/plan.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u) << "as other files of the user's";
  EXPECT_FALSE(WriteOutput(base_ + "/absent/plan.json", "x").ok());
  EXPECT_FALSE(WriteOutput(base_ + "/victim", "x").ok()) << "a folder";
}

TEST_F(OutputFileTest, WritesThroughNoLink) {
  const std::string link = base_ + "/plan.json", dangling = base_ + "/dangling";
  fs::create_symlink(base_ + "/victim/plan.json", link);
  fs::create_symlink(base_ + "/nothing", dangling);
  const Status status = WriteOutput(link, "new");
  EXPECT_NE(status.message().find("it is a link"), std::string::npos) << status.message();
  EXPECT_FALSE(WriteOutput(dangling, "new").ok());
  EXPECT_FALSE(fs::exists(base_ + "/nothing"));
  ExpectVictimIsWhole();
  // One that takes the name after the file was opened is replaced.
  const OutputFile file = std::move(OutputFile::Open(base_ + "/late.json")).value();
  fs::create_symlink(base_ + "/victim/plan.json", base_ + "/late.json");
  ASSERT_TRUE(file.Write("new").ok());
  EXPECT_FALSE(fs::is_symlink(base_ + "/late.json"));
  ExpectVictimIsWhole();
  fs::remove(base_ + "/late.json");
  fs::create_symlink(base_ + "/victim/plan.json", base_ + "/late.json");
  const int fd = file.Begin();
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "more", 4), 4);
  close(fd);
  EXPECT_EQ(Text(base_ + "/late.json"), "more");
  ExpectVictimIsWhole();
}

TEST_F(OutputFileTest, AFolderInThePlaceOfItsFolderGetsNothing) {
  fs::create_directory(base_ + "/ours");
  const OutputFile file = std::move(OutputFile::Open(base_ + "/ours/plan.json")).value();
  const OwnedFolder folder = std::move(OutputFolder(base_ + "/ours")).value();
  fs::rename(base_ + "/ours", base_ + "/aside");
  fs::create_directory_symlink(base_ + "/victim", base_ + "/ours");
  ASSERT_TRUE(file.Write("new").ok());
  EXPECT_EQ(Text(base_ + "/aside/plan.json"), "new");
  ASSERT_TRUE(folder.ReplaceFile("plan.json", "newer", kOutputMode).ok());
  EXPECT_EQ(Text(base_ + "/aside/plan.json"), "newer");
  ExpectVictimIsWhole();
}

// A device or a pipe is written to and stays what it is.
TEST_F(OutputFileTest, DevicesAndPipes) {
  EXPECT_TRUE(WriteOutput("/dev/null", "x").ok());
  EXPECT_FALSE(WriteOutput("/dev/full", "x").ok());
  struct stat info {};
  ASSERT_EQ(lstat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  const std::string pipe = base_ + "/pipe", link = base_ + "/to_pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(pipe, link);
  std::string got;
  std::thread reader([&] { got = Text(pipe); });
  EXPECT_TRUE(WriteOutput(link, "through").ok());
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));
}

}  // namespace
}  // namespace gordian::cli
