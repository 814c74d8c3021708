#include "analyzer/access/access_key.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "analyzer/access/key_file.h"

namespace gordian::access {
namespace {

class AccessKeyTest : public testing::Test {
 protected:
  AccessKeyTest() : folder_(OwnedFolder::Make(testing::TempDir(), "access.").value()) {}
  ~AccessKeyTest() override { (void)folder_.RemoveTree(); }
  AccessKey Key() { return AccessKey::Open(folder_).value(); }
  std::string Path() const { return folder_.path() + "/" + kKeyFile; }

  OwnedFolder folder_;
};

TEST_F(AccessKeyTest, EachTokenOpensItsOwn) {
  const AccessKey key = Key();
  const std::string viewer = key.ViewerToken(), collector = key.CollectorToken();
  const std::string job = key.JobToken("train");
  EXPECT_TRUE(key.MayView(viewer));
  EXPECT_TRUE(key.MayView(collector));
  EXPECT_TRUE(key.MayView(key.AdminToken()));
  EXPECT_TRUE(key.MayChange(key.AdminToken()));
  EXPECT_FALSE(key.MayWrite(key.AdminToken(), "train"));
  for (const std::string& other : {viewer, collector, job, std::string()}) {
    EXPECT_FALSE(key.MayChange(other)) << other;
  }
  EXPECT_FALSE(key.MayView(job));
  EXPECT_FALSE(key.MayWrite(viewer, "train"));
  EXPECT_TRUE(key.MayWrite(collector, "train"));
  EXPECT_TRUE(key.MayWrite(job, "train"));
  for (const char* other : {"", "trai", "train2", "Train", "train "}) {
    EXPECT_FALSE(key.MayWrite(job, other)) << other;
  }
}

// No name of a job makes another role's token, or another job's.
TEST_F(AccessKeyTest, NoTwoAreAlike) {
  const AccessKey key = Key();
  std::set<std::string> tokens = {key.ViewerToken(), key.AdminToken(), key.CollectorToken()};
  size_t made = 3;
  for (const std::string& job :
       {std::string(), std::string("viewer"), std::string("admin"), std::string("\0", 1),
        std::string("a\0b", 3), std::string("a"), std::string("ab")}) {
    tokens.insert(key.JobToken(job));
    ++made;
  }
  EXPECT_EQ(tokens.size(), made);
  EXPECT_FALSE(key.MayView(""));
  EXPECT_FALSE(key.MayView("viewer-"));
  EXPECT_FALSE(key.MayWrite("", ""));
}

TEST_F(AccessKeyTest, IsFoundOnlyWhereOneWasMade) {
  EXPECT_EQ(AccessKey::Find(folder_).status().code(), StatusCode::kNotFound);
  EXPECT_NE(::access(Path().c_str(), F_OK), 0) << "looking for a key makes none";
  const std::string made = Key().AdminToken();
  EXPECT_EQ(AccessKey::Find(folder_)->AdminToken(), made);
}

TEST_F(AccessKeyTest, TheKeyStaysUntilItIsRemoved) {
  const std::string first = Key().ViewerToken();
  EXPECT_EQ(Key().ViewerToken(), first);
  struct stat about {};
  ASSERT_EQ(stat(Path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  ASSERT_EQ(unlink(Path().c_str()), 0);
  EXPECT_NE(Key().ViewerToken(), first);
}

// HMAC-SHA256 by another program: printf 'viewer\0' | openssl dgst -sha256 -hmac 0...0
TEST_F(AccessKeyTest, IsTheHmacThatItSays) {
  std::ofstream(Path()) << std::string(64, '0') << "\n";
  ASSERT_EQ(chmod(Path().c_str(), 0600), 0);
  EXPECT_EQ(Key().ViewerToken(), "viewer-6917b70ae1b83a8140c4529f10fdf5e7");
}

TEST_F(AccessKeyTest, RefusesAKeyThatIsNone) {
  for (const mode_t mode : {0640, 0604, 0660}) {
    Key();
    ASSERT_EQ(chmod(Path().c_str(), mode), 0);
    EXPECT_FALSE(AccessKey::Open(folder_).ok()) << mode;
    ASSERT_EQ(unlink(Path().c_str()), 0);
  }
  std::ofstream(Path()) << "short\n";
  ASSERT_EQ(chmod(Path().c_str(), 0600), 0);
  EXPECT_FALSE(AccessKey::Open(folder_).ok());
  ASSERT_EQ(unlink(Path().c_str()), 0);
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  EXPECT_FALSE(AccessKey::Open(folder_).ok()) << "a pipe would be waited for";
  ASSERT_EQ(unlink(Path().c_str()), 0);
  ASSERT_EQ(symlink("/etc/hostname", Path().c_str()), 0);
  EXPECT_FALSE(AccessKey::Open(folder_).ok());
}

TEST(KeyFile, HasBoundsAndSaysWhatToDo) {
  const std::string path = testing::TempDir() + "/key." + std::to_string(getpid());
  const auto read = [&path](const std::string& text) {
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return ReadKeyFile({.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK),
                        .path = path,
                        .least = 4,
                        .next = "make another"});
  };
  EXPECT_EQ(read("a key\n\r\n").value(), "a key");
  EXPECT_EQ(read("keys").value(), "keys");
  EXPECT_EQ(read(std::string(4096, 'k') + "\r\n").value(), std::string(4096, 'k'));
  for (const std::string& text :
       {std::string(), std::string("key\n"), std::string(4097, 'k'), std::string(1 << 20, 'k')}) {
    const Status status = read(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text.size();
    EXPECT_TRUE(status.message().ends_with("must have 4 to 4096 bytes; make another"));
  }
  unlink(path.c_str());
  const Status missing = ReadKeyFile({.fd = open(path.c_str(), O_RDONLY), .path = path}).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_NE(missing.message().find(path), std::string::npos);
}

TEST(SameSecret, ComparesTheWhole) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  for (const char* wrong : {"", "a", "ab", "abd", "abcd", "bbc", "ABC"}) {
    EXPECT_FALSE(SameSecret(wrong, "abc")) << wrong;
  }
}

TEST(WrongTokens, AreCountedByAddress) {
  WrongTokens wrong;
  for (int i = 1; i <= 12; ++i) EXPECT_EQ(wrong.Note("a"), i);
  EXPECT_EQ(wrong.Note("b"), 1);
}

}  // namespace
}  // namespace gordian::access
