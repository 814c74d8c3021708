#include "common/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
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
      {"GORDIAN_ON_VERDICT", "exec:notify %s"},
      {"GORDIAN_SUSPECT_AFTER", "0.25"},
      {"GORDIAN_QUIET", "1"},
      {"GORDIAN_EMULATOR", "yes"},
      {"GORDIAN_LOG", "debug"},
  }));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->session, "/s");
  EXPECT_EQ(config->on_verdict, OnVerdict::kExec);
  EXPECT_EQ(config->on_verdict_command, "notify %s");
  EXPECT_EQ(config->suspect_after_s, 0.25);
  EXPECT_TRUE(config->quiet);
  EXPECT_TRUE(config->emulator);
  EXPECT_EQ(config->log_level, "debug");
}

TEST(RunConfigTest, ReadsHowOftenToRestart) {
  const auto read = [](const std::string& text) {
    const StatusOr<RunConfig> config =
        RunConfig::FromEnvironment(From({{"GORDIAN_ON_VERDICT", text}}));
    EXPECT_TRUE(config.ok()) << text;
    return std::pair(config->on_verdict, config->most_restarts);
  };
  EXPECT_EQ(read("restart"), std::pair(OnVerdict::kRestart, 3));
  EXPECT_EQ(read("restart:12"), std::pair(OnVerdict::kRestart, 12));
  EXPECT_EQ(read("restart-suspected:1"), std::pair(OnVerdict::kRestartSuspected, 1));
}

TEST(RunConfigTest, ReadsWhoseCollectives) {
  const auto read = [](const std::string& text) {
    const StatusOr<RunConfig> config =
        RunConfig::FromEnvironment(From({{"GORDIAN_COLLECTIVES", text}}));
    EXPECT_TRUE(config.ok()) << text;
    return std::pair(config->preemptive_collectives, config->preemptive_names);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(read("nccl"), std::pair(false, Names{}));
  EXPECT_EQ(read("preemptive"), std::pair(true, Names{}));
  EXPECT_EQ(read("preemptive:dp"), std::pair(true, Names{"dp"}));
  EXPECT_EQ(read("preemptive:dp,tp:0,dp"), std::pair(true, (Names{"dp", "tp:0"})));
}

TEST(RunConfigTest, NamesTheVariableThatIsWrong) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"GORDIAN_ON_VERDICT", "explode"},
           {"GORDIAN_ON_VERDICT", "exec:"},
           {"GORDIAN_ON_VERDICT", "restart:"},
           {"GORDIAN_ON_VERDICT", "restart:0"},
           {"GORDIAN_ON_VERDICT", "restart:x"},
           {"GORDIAN_ON_VERDICT", "kill:2"},
           {"GORDIAN_COLLECTIVES", "nccl:dp"},
           {"GORDIAN_COLLECTIVES", "preemptive:"},
           {"GORDIAN_COLLECTIVES", "preemptive:dp,,tp"},
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
}

// The table and the sources must not drift apart: each name that a source reads is in the table,
// and a source reads each name of the table.
TEST(SettingsTest, TableIsWhatTheSourcesRead) {
  namespace fs = std::filesystem;
  const std::regex literal("\"(GORDIAN_[A-Z0-9_]+)[\"=]");
  std::set<std::string, std::less<>> in_sources;
  for (const char* part : {"analyzer", "cli", "collector", "common", "emulator", "interpose"}) {
    const fs::path root = fs::path(GORDIAN_SOURCE_DIR) / part;
    ASSERT_TRUE(fs::is_directory(root)) << root;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
      const fs::path extension = entry.path().extension();
      if ((extension != ".cc" && extension != ".h") || entry.path().stem() == "config") {
        continue;
      }
      std::ifstream in(entry.path());
      const std::string text((std::istreambuf_iterator<char>(in)),
                             std::istreambuf_iterator<char>());
      for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at) {
        in_sources.insert((*at)[1]);
      }
    }
  }
  std::set<std::string, std::less<>> in_table;
  for (const Setting& setting : Settings()) {
    in_table.insert(std::string(setting.name));
    if (setting.program != "run") {  // those are read by RunConfig itself
      EXPECT_TRUE(in_sources.contains(setting.name)) << setting.name << ": no source reads it";
    }
  }
  for (const std::string& name : in_sources) {
    EXPECT_TRUE(in_table.contains(name)) << name << " is missing in Settings() (common/config.cc)";
  }
}

}  // namespace
}  // namespace gordian
