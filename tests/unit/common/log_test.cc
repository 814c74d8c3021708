#include "common/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace gordian {
namespace {

int Opened(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

TEST(LogTest, WritesFromItsLevelOnAndIsSilentAfterwards) {
  const std::string path = testing::TempDir() + "gordian_log_test." + std::to_string(getpid());
  SilenceLog();
  spdlog::error("before");
  ASSERT_TRUE(OpenLog(Opened(path), "info").ok());
  spdlog::debug("too fine");
  spdlog::info("kept {}", 1);
  CloseLog();
  spdlog::error("after");
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find("info kept 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("before"), std::string::npos);
  EXPECT_EQ(text.find("too fine"), std::string::npos);
  EXPECT_EQ(text.find("after"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(LogTest, ChildrenDoNotInheritTheFile) {
  const std::string path = testing::TempDir() + "gordian_log_test." + std::to_string(getpid());
  ASSERT_TRUE(OpenLog(Opened(path), "info").ok());
  int open_here = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    std::error_code none;
    if (std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none) ==
        std::filesystem::canonical(path)) {
      ++open_here;
      EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
  }
  EXPECT_EQ(open_here, 1);
  CloseLog();
  std::filesystem::remove(path);
}

TEST(LogTest, AFullDiskIsNotToldOnStandardError) {
  ASSERT_TRUE(OpenLog(Opened("/dev/full"), "info").ok());
  testing::internal::CaptureStderr();
  spdlog::warn("flushed at once");
  CloseLog();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LogTest, ErrorsAreStatuses) {
  EXPECT_EQ(OpenLog(Opened("/proc/no/such/place"), "info").code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenLog(Opened("/dev/null"), "loud").code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gordian
