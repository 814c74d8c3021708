#include "analyzer/exporters/scratch_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

namespace gordian::exporters {
namespace {

namespace fs = std::filesystem;

class ScratchFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { fs::remove_all(folder_); }

  ScratchFile Made() {
    StatusOr<ScratchFile> file = ScratchFile::In(folder_);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return std::move(file).value();
  }

  // What CopyTo writes behind "begin ".
  std::string Copied(ScratchFile* file) {
    const std::string path = folder_ + "/copy";
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT_EQ(write(fd, "begin ", 6), 6);
    const Status status = file->CopyTo(fd);
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::string text(static_cast<size_t>(fs::file_size(path)), '\0');
    EXPECT_EQ(pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    close(fd);
    fs::remove(path);
    return text;
  }

  std::string folder_ = (fs::temp_directory_path() / "scratch.XXXXXX").string();
};

TEST_F(ScratchFileTest, GivesBackWhatItTook) {
  ScratchFile file = Made();
  EXPECT_EQ(Copied(&file), "begin ");
  std::string all = "begin ";
  for (int i = 0; i < 5; ++i) {  // more than it keeps in memory
    const std::string piece(700'000 + static_cast<size_t>(i), static_cast<char>('a' + i));
    file.Append(piece);
    file.Append("");
    file.Append("|");
    all += piece + "|";
  }
  EXPECT_TRUE(Copied(&file) == all);
  file.Append("more");
  EXPECT_TRUE(Copied(&file) == all + "more");  // all of it once more
}

TEST_F(ScratchFileTest, IsReadFromAnyPlace) {
  ScratchFile file = Made();
  file.Append("0123456789");
  char into[4] = {};
  ASSERT_TRUE(file.Read(3, into, 3).ok());
  EXPECT_STREQ(into, "345");
  file.Append("abc");  // what was read does not move where it writes
  ASSERT_TRUE(file.Read(9, into, 3).ok());
  EXPECT_STREQ(into, "9ab");
  EXPECT_EQ(Copied(&file), "begin 0123456789abc");
  const Status behind = file.Read(11, into, 3);  // of which only two are there
  ASSERT_FALSE(behind.ok());
  EXPECT_NE(behind.message().find("cannot read a temporary file in " + folder_), std::string::npos);
}

TEST_F(ScratchFileTest, HasNoName) {
  ScratchFile file = Made();
  file.Append(std::string(3 << 20, 'x'));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ScratchFileTest, Moves) {
  ScratchFile first = Made();
  first.Append("first");
  ScratchFile moved = std::move(first);
  moved.Append(", moved");
  ScratchFile second = Made();
  second.Append("second");
  second = std::move(moved);
  EXPECT_EQ(Copied(&second), "begin first, moved");
}

TEST_F(ScratchFileTest, NamesTheFolderThatIsMissing) {
  const StatusOr<ScratchFile> file = ScratchFile::In(folder_ + "/missing");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find(folder_ + "/missing"), std::string::npos);
}

TEST_F(ScratchFileTest, SaysLaterThatAWriteFailed) {
  ScratchFile file = Made();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  file.Append(std::string(3 << 20, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  file.Append(std::string(3 << 20, 'y'));  // which would succeed now, behind a gap
  const Status status = file.CopyTo(STDOUT_FILENO);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cannot write a temporary file in " + folder_),
            std::string::npos);
  EXPECT_NE(status.message().find("File too large"), std::string::npos) << status.message();
}

TEST_F(ScratchFileTest, SaysThatTheCopyFailed) {
  ScratchFile file = Made();
  file.Append("text");
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const Status status = file.CopyTo(full);
  close(full);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cannot write what was exported"), std::string::npos);
}

}  // namespace
}  // namespace gordian::exporters
