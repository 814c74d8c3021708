#include "collector/salvage.h"

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
  RingKeeper keeper(rings.path(), session.path());
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
  for (const std::string& session : {std::string(), std::string("/proc/no/such/place")}) {
    FakeShim shim(rings.path(), getpid(), 64, 1);
    RingKeeper keeper(rings.path(), session);
    keeper.Link(shim.name());
    EXPECT_TRUE(keeper.Keep(shim.name()).ok());
    EXPECT_NE(access(shim.path().c_str(), F_OK), 0);
  }
}

}  // namespace
}  // namespace gordian::collector
