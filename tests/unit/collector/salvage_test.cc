#include "collector/rings/salvage.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/unit/collector/fake_shim.h"

namespace gordian::collector {
namespace {

using testing_support::FakeShim;
using testing_support::TemporaryDir;

std::string BytesOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

TEST(SalvageTest, LinkThenCopyThenGone) {
  TemporaryDir rings, session;
  FakeShim shim(rings.path(), getpid(), 64, 2);
  shim.AddThread(0, 1);
  ASSERT_TRUE(shim.Publish(0, FakeShim::Point(1)));
  // Reserved far beyond what was used, as the shim's is.
  ASSERT_EQ(truncate(shim.path().c_str(), 4 << 20), 0);
  const std::string before = BytesOf(shim.path());
  const OwnedFolder folder = OwnedFolder::Open(rings.path()).value();
  const OwnedFolder kept_in = OwnedFolder::Open(session.path()).value();
  RingKeeper keeper(&folder, &kept_in);
  keeper.Link(shim.name());
  const std::string kept = session.path() + "/rings/" + shim.name();
  struct stat info {};
  ASSERT_EQ(lstat(kept.c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_EQ(BytesOf(kept), before);

  ASSERT_TRUE(keeper.Keep(shim.name()).ok());
  EXPECT_NE(access(shim.path().c_str(), F_OK), 0);
  ASSERT_EQ(lstat(kept.c_str(), &info), 0);
  EXPECT_TRUE(S_ISREG(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(BytesOf(kept), before);
  EXPECT_LT(info.st_blocks * 512, info.st_size / 4) << "holes stay holes";
  EXPECT_NE(access((kept + ".tmp").c_str(), F_OK), 0);

  // Once more does no harm to the copy.
  EXPECT_FALSE(keeper.Keep(shim.name()).ok());
  EXPECT_EQ(BytesOf(kept), before);
}

TEST(SalvageTest, WithoutASessionMemoryIsFreedAllTheSame) {
  TemporaryDir rings;
  std::string gone = ::testing::TempDir() + "/gone-XXXXXX";
  ASSERT_NE(mkdtemp(gone.data()), nullptr);
  const OwnedFolder removed = OwnedFolder::Open(gone).value();
  ASSERT_EQ(rmdir(gone.c_str()), 0);
  for (const OwnedFolder* const session : {static_cast<const OwnedFolder*>(nullptr), &removed}) {
    FakeShim shim(rings.path(), getpid(), 64, 1);
    const OwnedFolder folder = OwnedFolder::Open(rings.path()).value();
    RingKeeper keeper(&folder, session);
    keeper.Link(shim.name());
    EXPECT_TRUE(keeper.Keep(shim.name()).ok());
    EXPECT_NE(access(shim.path().c_str(), F_OK), 0);
  }
}

// A link or folder that takes the place of the rings' or of the kept ones' is not written to.
TEST(SalvageTest, WhatTakesAFoldersPlaceIsLeftAlone) {
  TemporaryDir base, session;
  const std::string rings = base.path() + "/rings", victim = base.path() + "/victim";
  ASSERT_EQ(mkdir(rings.c_str(), 0700), 0);
  ASSERT_EQ(mkdir(victim.c_str(), 0700), 0);
  std::ofstream(rings + "/1.1.ring") << "ring";
  std::ofstream(victim + "/1.1.ring") << "precious";
  const OwnedFolder folder = OwnedFolder::Open(rings).value();
  const OwnedFolder kept_in = OwnedFolder::Open(session.path()).value();
  RingKeeper keeper(&folder, &kept_in);
  const std::string kept = session.path() + "/rings";
  for (const std::string& path : {rings, kept}) {
    ASSERT_EQ(rename(path.c_str(), (path + ".aside").c_str()), 0);
    ASSERT_EQ(symlink(victim.c_str(), path.c_str()), 0);
  }
  keeper.Link("1.1.ring");
  EXPECT_TRUE(keeper.Keep("1.1.ring").ok());
  EXPECT_EQ(BytesOf(victim + "/1.1.ring"), "precious");
  EXPECT_NE(access((rings + ".aside/1.1.ring").c_str(), F_OK), 0);
  EXPECT_EQ(BytesOf(kept + ".aside/1.1.ring"), "ring");
  EXPECT_FALSE(OwnedFolder::Open(rings).ok()) << "a link is not opened";
}

}  // namespace
}  // namespace gordian::collector
