#include "simulator/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "simulator/simulate.h"
#include "testing/simulator/table1.h"

namespace gordian::simulator {
namespace {

using nlohmann::json;

json Arbitrary() {
  return json::parse(R"({"total_rounds": 10, "num_process": 1, "fix_seed": 1, "disorder_prob": 0.1,
    "sync_prob": 0.1, "model": "StreamWithSync", "grouping_policy": "Arbitrary", "gpu_num": 3,
    "group_num": 2, "gpu_per_group": [[0, 1], [1, 2]], "coll_cnt_per_group": [4, 5]})");
}

std::string Problem(const json& from) {
  Config config;
  return ParseConfig(from, &config);
}

TEST(Config, ComplaintsNameTheKey) {
  ASSERT_EQ(Problem(Arbitrary()), "");
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"coll_cnt_per_group", "[4]", "coll_cnt_per_group has 1 entries, but group_num is 2"},
      {"gpu_per_group", "[[0,1],[1,2],[0,2]]", "gpu_per_group has 3 entries"},
      {"gpu_per_group", "[[0,1,0],[1,2]]", "gpu_per_group[0] names GPU 0 twice"},
      {"gpu_per_group", "[[0,1],[1]]", "gpu_per_group[1] has 1 GPUs"},
      {"gpu_per_group", "[[0,1],[0,1]]", "gpu_per_group names GPU 2 nowhere"},
      {"gpu_per_group", "[[0,1],[1,3]]", "gpu_per_group[1] holds 3"},
      {"gpu_per_group", "[[0,1],[1,-1]]", "gpu_per_group[1] holds -1"},
      {"coll_cnt_per_group", "[4, 0]", "coll_cnt_per_group[1] must be from 1"},
      {"coll_cnt_per_group", "7", "coll_cnt_per_group must be a list"},
      {"disorder_prob", "1.5", "disorder_prob is a probability"},
      {"disorder_prob", "-0.1", "disorder_prob is a probability"},
      {"disorder_prob", "\"x\"", "disorder_prob must be a number"},
      {"sync_prob", "1", "sync_prob must be below 1"},
      {"sync_prob", "0.9999999", "sync_prob must be at most 0.999999"},
      {"model", "\"Double\"", "model must be Single or StreamWithSync"},
      {"grouping_policy", "3", "grouping_policy must be"},
      {"total_rounds", "0", "total_rounds must be from 1"},
      {"resource_limit", "0", "resource_limit must be"},
      {"fix_seed", "2", "fix_seed must be from 0 to 1"},
      {"gpu_num", "3.5", "gpu_num must be a whole number"},
      {"gpu_num", "1000000000000", "gpu_num must be from 2"},
      {"sync_probb", "0.1", "unknown key 'sync_probb' (is sync_prob meant?)"}};
  for (const auto& [key, value, complaint] : cases) {
    json changed = Arbitrary();
    changed[key] = json::parse(value);
    EXPECT_EQ(Problem(changed).find(complaint), 0u) << key << ": " << Problem(changed);
  }
  for (const char* key : {"disorder_prob", "model", "grouping_policy", "gpu_num", "group_num",
                          "gpu_per_group", "coll_cnt_per_group", "sync_prob"}) {
    json without = Arbitrary();
    without.erase(key);
    EXPECT_EQ(Problem(without), std::string(key) + " is missing");
  }
  EXPECT_NE(Problem(json::array()), "");
}

TEST(Config, Megatron) {
  json megatron = ConfigToJson(ShippedMegatron());
  EXPECT_EQ(Problem(megatron), "");
  megatron["tp_group_size"] = 1;
  EXPECT_EQ(Problem(megatron).find("tp_group_size is 1: a group needs at least two"), 0u);
  megatron["tp_group_size"] = 1 << 20;
  megatron["dp_group_size"] = 1 << 20;
  EXPECT_NE(Problem(megatron).find("tp_group_size times dp_group_size"), std::string::npos);
  megatron["coll_cnt_per_tp_group"] = 0;
  EXPECT_EQ(Problem(megatron).find("tp_group_size"), std::string::npos) << Problem(megatron);
  EXPECT_EQ(Problem(megatron).find("coll_cnt_per_tp_group must be from 1"), 0u);
}

TEST(Config, ReadsBackWhatItWrites) {
  for (const Config& config : {ShippedArbitrary(), ShippedMegatron(), Free64()}) {
    Config again;
    const json written = ConfigToJson(config);
    ASSERT_EQ(ParseConfig(written, &again), "");
    EXPECT_EQ(ConfigToJson(again), written);
    EXPECT_EQ(HashOf(again), HashOf(config));
  }
}

TEST(Config, AMillionGpus) {
  SimulateOptions options;
  options.rounds = 2;
  SimulateReport report;
  // 125,000 stages that never meet; a component is built once.
  Config stages = With(Megatron(4, 2, 125000, 40, 120), Model::kStreamWithSync, 1e-7, 1e-7);
  ASSERT_EQ(CheckConfig(stages), "");
  EXPECT_EQ(stages.GpuCount(), 1000000);
  EXPECT_EQ(Simulate(stages, options, &report), "");
  EXPECT_EQ(report.components, 125000u);
  EXPECT_EQ(report.distinct_components, 1u);
}

TEST(Config, TooLargeIsSaid) {
  Config config = With(OneGroup(), Model::kSingle, 0.1, 0);
  config.groups[0].count = 1u << 30;
  SimulateReport report;
  const std::string problem = Simulate(config, {}, &report);
  EXPECT_NE(problem.find("coll_cnt"), std::string::npos) << problem;
}

TEST(Config, GivenOrder) {
  json given = Arbitrary();
  given["group_order_per_gpu"] = json::parse("[[0,0,0,0],[1,0,1,0,1,0,1,0,1],[1,1,1,1,1]]");
  Config config;
  ASSERT_EQ(ParseConfig(given, &config), "");
  gordian::simulator::Problem problem;
  ASSERT_EQ(BuildProblem(config, true, &problem), "");
  EXPECT_TRUE(problem.components[0].common_order);
  given["group_order_per_gpu"][2].push_back(0);
  EXPECT_EQ(ParseConfig(given, &config).find("group_order_per_gpu[2] must name"), 0u);
  // Two GPUs in both groups that disagree: no order is common, and nothing random is needed.
  json opposite = Arbitrary();
  opposite["gpu_per_group"] = json::parse("[[0,1,2],[0,1]]");
  opposite["coll_cnt_per_group"] = json::parse("[1,1]");
  opposite["group_order_per_gpu"] = json::parse("[[0,1],[1,0],[0]]");
  opposite["model"] = "Single";
  opposite["disorder_prob"] = 0;
  ASSERT_EQ(ParseConfig(opposite, &config), "");
  SimulateOptions options;
  options.rounds = 10;
  options.wanted = {false, true};
  SimulateReport report;
  ASSERT_EQ(Simulate(config, options, &report), "");
  EXPECT_FALSE(report.common_order);
  EXPECT_EQ(report.exact.estimate.hits, 10);
}

}  // namespace
}  // namespace gordian::simulator
