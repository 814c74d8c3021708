#include "common/log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gordian {
namespace {

TEST(LogTest, WritesFromItsLevelOnAndIsSilentAfterwards) {
  const std::string path = testing::TempDir() + "gordian_log_test." + std::to_string(getpid());
  SilenceLog();
  spdlog::error("before");
  ASSERT_TRUE(OpenLog(path, "info").ok());
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

TEST(LogTest, ErrorsAreStatuses) {
  EXPECT_EQ(OpenLog("/proc/no/such/place", "info").code(), StatusCode::kUnavailable);
  EXPECT_EQ(OpenLog("/tmp/never", "loud").code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gordian
