#include "common/config.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gordian {
namespace {

Environment From(std::map<std::string, std::string, std::less<>> values) {
  return [values](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

TEST(RunConfigTest, DefaultsWithoutAnything) {
  const StatusOr<RunConfig> config = RunConfig::FromEnvironment(From({}));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->on_verdict, OnVerdict::kReport);
  EXPECT_EQ(config->suspect_after_s, 5.0);
  EXPECT_FALSE(config->quiet);
  EXPECT_EQ(config->log_level, "info");
}

TEST(RunConfigTest, ReadsEveryVariable) {
  const StatusOr<RunConfig> config = RunConfig::FromEnvironment(From({
      {"GORDIAN_SESSION", "/s"},
      {"GORDIAN_ANALYZER", "host:1"},
      {"GORDIAN_ON_VERDICT", "exec:notify %s"},
      {"GORDIAN_SUSPECT_AFTER", "0.25"},
      {"GORDIAN_HTTP", "127.0.0.1:0"},
      {"GORDIAN_QUIET", "1"},
      {"GORDIAN_EMULATOR", "yes"},
      {"GORDIAN_LOG", "debug"},
  }));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->session, "/s");
  EXPECT_EQ(config->analyzer, "host:1");
  EXPECT_EQ(config->on_verdict, OnVerdict::kExec);
  EXPECT_EQ(config->on_verdict_command, "notify %s");
  EXPECT_EQ(config->suspect_after_s, 0.25);
  EXPECT_EQ(config->http, "127.0.0.1:0");
  EXPECT_TRUE(config->quiet);
  EXPECT_TRUE(config->emulator);
  EXPECT_EQ(config->log_level, "debug");
}

TEST(RunConfigTest, NamesTheVariableThatIsWrong) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"GORDIAN_ON_VERDICT", "explode"},
           {"GORDIAN_ON_VERDICT", "exec:"},
           {"GORDIAN_SUSPECT_AFTER", "-1"},
           {"GORDIAN_SUSPECT_AFTER", "5s"},
           {"GORDIAN_SUSPECT_AFTER", "nan"},
           {"GORDIAN_QUIET", "maybe"},
           {"GORDIAN_LOG", "loud"},
       }) {
    const StatusOr<RunConfig> config = RunConfig::FromEnvironment(From({{name, value}}));
    ASSERT_FALSE(config.ok()) << name;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(config.status().message().find(name + "=" + value), std::string::npos);
  }
}

TEST(SettingsTest, EveryNameIsDocumentedOnce) {
  std::set<std::string_view> names;
  for (const Setting& setting : Settings()) {
    EXPECT_TRUE(setting.name.starts_with("GORDIAN_"));
    EXPECT_FALSE(setting.meaning.empty());
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
  }
  // What launchers write is in the table.
  ShimConfig shim{.ring_dir = "/r", .markers = false, .disabled = true};
  EmulatorConfig emulator;
  emulator.devices = 1;
  emulator.sms = 1;
  emulator.connections = 1;
  emulator.seed = 1;
  emulator.stats_file = "s";
  emulator.quiescence_file = "q";
  emulator.p2p_buffer_bytes = 1;
  std::vector<std::string> written = shim.ToEnvironment();
  EXPECT_EQ(written.size(), 3u);
  for (std::string& variable : emulator.ToEnvironment()) {
    written.push_back(std::move(variable));
  }
  EXPECT_EQ(written.size(), 10u);
  for (const std::string& variable : written) {
    EXPECT_TRUE(names.contains(variable.substr(0, variable.find('=')))) << variable;
  }
  EXPECT_TRUE(ShimConfig().ToEnvironment().empty());
  EXPECT_TRUE(EmulatorConfig().ToEnvironment().empty());
}

}  // namespace
}  // namespace gordian
