#include "common/owned_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gordian {
namespace {

namespace fs = std::filesystem;

constexpr char kPrecious[] = "precious";

std::string Text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// A folder of gordian's beside a victim, which holds a file under every name that gordian uses.
class OwnedFolderTest : public ::testing::Test {
 protected:
  OwnedFolderTest() {
    std::string base = ::testing::TempDir() + "/owned-XXXXXX";
    base_ = mkdtemp(base.data());
    ours_ = base_ + "/ours";
    victim_ = base_ + "/victim";
    fs::create_directory(ours_);
    fs::create_directory(victim_);
    for (const char* name : {"file", "inner", "other"}) Put(victim_ + "/" + name, kPrecious);
  }
  ~OwnedFolderTest() override { fs::remove_all(base_); }

  // From here on the folder's path leads to the victim.
  void Swap() {
    fs::rename(ours_, base_ + "/aside");
    fs::create_directory_symlink(victim_, ours_);
  }
  void ExpectVictimIsWhole() const {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(victim_)) {
      EXPECT_EQ(Text(entry.path()), kPrecious) << entry.path();
      ++files;
    }
    EXPECT_EQ(files, 3u);
  }

  std::string base_, ours_, victim_;
};

TEST_F(OwnedFolderTest, FilesGoToTheFolderThatWasOpened) {
  Put(ours_ + "/file", "old");
  Put(ours_ + "/other", "old");
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  Swap();
  EXPECT_TRUE(folder.ReplaceFile("file", "new").ok());
  EXPECT_TRUE(folder.CopyFile("file", "copy").ok());
  EXPECT_EQ(folder.RemoveFile("other"), 0);
  const int fd = folder.Overwrite("written");
  ASSERT_GE(fd, 0);
  close(fd);
  EXPECT_TRUE(folder.MakeFolder("inner").ok());
  EXPECT_EQ(Text(base_ + "/aside/file"), "new");
  EXPECT_EQ(Text(base_ + "/aside/copy"), "new");
  EXPECT_FALSE(fs::exists(base_ + "/aside/other"));
  EXPECT_TRUE(fs::exists(base_ + "/aside/written"));
  EXPECT_TRUE(fs::is_directory(base_ + "/aside/inner"));
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, ALinkOfTheNameIsReplacedAndNotWrittenThrough) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  fs::create_symlink(victim_ + "/file", ours_ + "/file");
  EXPECT_TRUE(folder.ReplaceFile("file", "new").ok());
  EXPECT_FALSE(fs::is_symlink(ours_ + "/file"));
  EXPECT_EQ(Text(ours_ + "/file"), "new");
  fs::create_symlink(victim_ + "/other", ours_ + "/copy");
  EXPECT_TRUE(folder.CopyFile("file", "copy").ok());
  EXPECT_EQ(Text(ours_ + "/copy"), "new");
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, ALinkOfTheTemporaryNameIsPassedOver) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  const std::string planted = ours_ + "/file.tmp." + std::to_string(getpid());
  fs::create_symlink(victim_ + "/file", planted);
  EXPECT_TRUE(folder.ReplaceFile("file", "new").ok());
  EXPECT_EQ(Text(ours_ + "/file"), "new");
  EXPECT_TRUE(fs::is_symlink(planted)) << "gordian did not make it";
  EXPECT_EQ(folder.Names().size(), 2u);
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, OverwriteTruncatesNoFileOfAnother) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  fs::create_symlink(victim_ + "/file", ours_ + "/link");
  EXPECT_EQ(folder.Overwrite("link"), -1);
  EXPECT_EQ(errno, ELOOP);
  fs::create_hard_link(victim_ + "/other", ours_ + "/hard");
  EXPECT_EQ(folder.Overwrite("hard"), -1);
  ASSERT_EQ(mkfifo((ours_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(folder.Overwrite("pipe"), -1);
  ExpectVictimIsWhole();
  Put(ours_ + "/own", "long text");
  const int fd = folder.Overwrite("own");
  ASSERT_GE(fd, 0);
  close(fd);
  EXPECT_EQ(Text(ours_ + "/own"), "");
}

TEST_F(OwnedFolderTest, AppendAddsToNoFileOfAnother) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  fs::create_symlink(victim_ + "/file", ours_ + "/link");
  EXPECT_EQ(folder.Append("link"), -1);
  EXPECT_EQ(errno, ELOOP);
  fs::create_hard_link(victim_ + "/other", ours_ + "/hard");
  EXPECT_EQ(folder.Append("hard"), -1);
  Put(ours_ + "/own", "one ");
  Swap();
  const int fd = folder.Append("own");
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "two", 3), 3);
  close(fd);
  EXPECT_EQ(Text(base_ + "/aside/own"), "one two");
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, RenewReplacesALinkAndWritesBitByBit) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  fs::create_symlink(victim_ + "/file", ours_ + "/link");
  const int fd = folder.Renew("link");
  ASSERT_GE(fd, 0);
  EXPECT_EQ(Text(ours_ + "/link"), "");
  EXPECT_EQ(write(fd, "new", 3), 3);
  close(fd);
  EXPECT_EQ(Text(ours_ + "/link"), "new");
  EXPECT_EQ(folder.Names().size(), 1u);
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, PointLinkTakesNoNameOfAFile) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  EXPECT_TRUE(folder.PointLink("latest", "one").ok());
  EXPECT_TRUE(folder.PointLink("latest", "two").ok());
  EXPECT_EQ(fs::read_symlink(ours_ + "/latest"), "two");
  Put(ours_ + "/file", "mine");
  fs::create_directory(ours_ + "/folder");
  EXPECT_FALSE(folder.PointLink("file", "three").ok());
  EXPECT_FALSE(folder.PointLink("folder", "three").ok());
  EXPECT_EQ(Text(ours_ + "/file"), "mine");
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(ours_ + "/folder")));
  // A link to a file, or to a folder, is pointed elsewhere; what it led to stays.
  fs::create_symlink(victim_ + "/file", ours_ + "/to_file");
  fs::create_directory_symlink(victim_, ours_ + "/to_folder");
  EXPECT_TRUE(folder.PointLink("to_file", "three").ok());
  EXPECT_TRUE(folder.PointLink("to_folder", "three").ok());
  EXPECT_EQ(fs::read_symlink(ours_ + "/to_folder"), "three");
  EXPECT_EQ(folder.Names().size(), 5u) << "nothing temporary stays";
  Swap();
  EXPECT_TRUE(folder.PointLink("latest", "four").ok());
  EXPECT_EQ(fs::read_symlink(base_ + "/aside/latest"), "four");
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, AFolderThatIsALinkIsNotTaken) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  fs::create_directory_symlink(victim_, ours_ + "/inner");
  EXPECT_FALSE(folder.MakeFolder("inner").ok());
  EXPECT_FALSE(folder.OpenFolder("inner").ok());
  EXPECT_FALSE(folder.OpenFolder("absent").ok());
  EXPECT_FALSE(OwnedFolder::Open(ours_ + "/inner").ok());
  EXPECT_TRUE(OwnedFolder::Adopt(ours_ + "/inner").ok()) << "the user named it";
}

TEST_F(OwnedFolderTest, RemoveTreeNeverLeavesTheTree) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  fs::create_directories(ours_ + "/a/b");
  Put(ours_ + "/a/b/c", "x");
  fs::create_directory_symlink(victim_, ours_ + "/a/link");
  fs::create_symlink(victim_ + "/file", ours_ + "/link");
  EXPECT_TRUE(folder.RemoveTree().ok());
  EXPECT_FALSE(fs::exists(ours_));
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, RemoveTreeLeavesWhatTookThePlace) {
  const OwnedFolder folder = OwnedFolder::Open(ours_).value();
  Put(ours_ + "/file", "x");
  fs::rename(ours_, base_ + "/aside");
  fs::rename(victim_, ours_);
  EXPECT_FALSE(folder.RemoveTree().ok());
  EXPECT_TRUE(fs::is_empty(base_ + "/aside"));
  victim_ = ours_;
  ExpectVictimIsWhole();
}

TEST_F(OwnedFolderTest, ReplaceFileByPath) {
  EXPECT_TRUE(ReplaceFile(ours_ + "/file", "one").ok());
  EXPECT_EQ(Text(ours_ + "/file"), "one");
  const Status status = ReplaceFile(base_ + "/absent/file", "one");
  EXPECT_NE(status.message().find(base_ + "/absent/file"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace gordian
