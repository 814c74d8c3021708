#include "common/analyzer_access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gordian {
namespace {

class AnalyzerAccessTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  const std::string folder_ = testing::TempDir() + "analyzer_access." + std::to_string(getpid());
};

TEST_F(AnalyzerAccessTest, ReadsWhatIsNamed) {
  EXPECT_FALSE(AccessFiles{}.any());
  const StatusOr<Access> none = ReadAccess({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->tls());
  const StatusOr<Access> all = ReadAccess({.token = Write("t", "job-12\r\n"),
                                           .tls_ca = Write("ca", "A"),
                                           .tls_cert = Write("cert", "B"),
                                           .tls_key = Write("key", "C")});
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->token, "job-12");
  EXPECT_EQ(all->tls_ca + all->tls_cert + all->tls_key, "ABC");
  EXPECT_TRUE(all->tls());
}

TEST_F(AnalyzerAccessTest, NamesTheFileThatIsWrong) {
  const std::string good = Write("good", "x");
  struct Case {
    AccessFiles files;
    std::string named;
  };
  const Case cases[] = {
      {{.token = folder_ + "/nosuch"}, "nosuch"},
      {{.token = Write("empty", "")}, "empty"},
      {{.token = Write("two", "a\nb\n")}, "two"},
      {{.token = Write("header", "a\r\nX-Evil: b")}, "header"},
      {{.token = Write("binary", "a\x01")}, "binary"},
      {{.tls_ca = good, .tls_cert = Write("cert", "c")}, "cert"},
      {{.tls_ca = good, .tls_key = Write("key", "c")}, "key"},
      {{.tls_cert = Write("alone", "c"), .tls_key = good}, "alone"},
  };
  for (const Case& one : cases) {
    const StatusOr<Access> access = ReadAccess(one.files);
    ASSERT_FALSE(access.ok()) << one.named;
    EXPECT_NE(access.status().message().find(one.named), std::string::npos)
        << access.status().message();
  }
}

}  // namespace
}  // namespace gordian
