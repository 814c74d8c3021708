#include "analyzer/metrics/metric_families.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "analyzer/metrics/otlp_json.h"
#include "analyzer/metrics/prometheus_text.h"

namespace gordian::metrics {
namespace {

// Holds one of everything.
MetricJob Whole() {
  return {"train", nlohmann::ordered_json::parse(R"({
    "verdict": "deadlock", "check": "communicator-order-cycle", "confidence": "confirmed",
    "job_ended": false, "since_progress_s": 2.5,
    "nodes": [{"name": "n0", "number": 0, "away": true, "ended": false}],
    "ranks": [{"rank": 0, "pid": 7, "node": "n0", "state": "in_call", "call": "cudaStreamSynchronize",
               "since_s": 1.5, "nccl_calls": 12}],
    "communicators": [{"name": "dp", "uid": "0a", "destroyed": false, "sequence_min": 1,
                       "sequence_max": 3, "behind": [4, 9], "behind_by": [2, 1]},
                      {"name": "old", "uid": "0b", "destroyed": true, "sequence_max": 3,
                       "behind": [1], "behind_by": [1]}],
    "evidence": {"ranks_seen": 10, "ranks_expected": 16, "records": 100, "records_lost": 3}})")};
}
const OwnMetrics kServer{.http = HttpMetrics{.viewers = 2, .answers = {{200, 5}}},
                         .deadlocks = {{"deadlock", 1}}};

std::string Text(const std::vector<MetricJob>& jobs, const OwnMetrics& own,
                 PrometheusFormat format) {
  return PrometheusText(FamiliesOf(jobs, own), format);
}

TEST(Metrics, HoldTheStatus) {
  const std::string text = Text({Whole()}, kServer, PrometheusFormat::kOpenMetrics);
  for (const char* line : {
           "gordian_deadlock_detected{job=\"train\",verdict=\"deadlock\"} 1\n",
           "gordian_hang_suspected{job=\"train\",verdict=\"deadlock\"} 0\n",
           "gordian_comm_sequence_lag{job=\"train\",comm=\"0a\",comm_name=\"dp\",rank=\"4\"} 2\n",
           "gordian_comm_sequence_lag{job=\"train\",comm=\"0a\",comm_name=\"dp\",rank=\"9\"} 1\n",
           "gordian_host_blocked_seconds{job=\"train\",rank=\"0\",api=\"cudaStreamSynchronize\"} "
           "1.5\n",
           "gordian_capture_events_dropped_total{job=\"train\"} 3\n",
           "gordian_nodes_away{job=\"train\"} 1\n",
           "gordian_jobs{state=\"running\"} 1\n",
           "gordian_http_requests_total{code=\"200\"} 5\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("0b"), std::string::npos) << "a destroyed communicator";
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  EXPECT_NE(text.find("# TYPE gordian_nccl_calls counter\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE gordian_build info\n"), std::string::npos);
  EXPECT_NE(text.find("# UNIT gordian_since_progress_seconds seconds\n"), std::string::npos);
}

TEST(Metrics, OlderFormatNamesFamiliesByTheirSamples) {
  const std::string text = Text({Whole()}, {}, PrometheusFormat::kText);
  EXPECT_NE(text.find("# TYPE gordian_nccl_calls_total counter\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE gordian_build_info gauge\n"), std::string::npos);
  EXPECT_EQ(text.find("# EOF"), std::string::npos);
  EXPECT_EQ(text.find("gordian_http"), std::string::npos) << "a file has no server";
}

// Every family is there, each name once, and none is missing from the list.
TEST(Metrics, NamesAreListed) {
  std::set<std::string> listed, shown;
  for (const MetricFamily& family : AllFamilies()) {
    EXPECT_TRUE(listed.insert(family.SampleName()).second) << family.name;
    EXPECT_TRUE(family.name.ends_with(family.unit)) << family.name;
  }
  std::istringstream lines(Text({Whole()}, kServer, PrometheusFormat::kText));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) shown.insert(line.substr(0, line.find_first_of("{ ")));
  }
  EXPECT_EQ(listed, shown);
}

TEST(Metrics, NamesFromOutsideStayLabels) {
  MetricJob job = Whole();
  job.job = "a\"} 1\ngordian_deadlock_detected{job=\"b\\";
  job.status["ranks"][0]["call"] = "\x1b[31m\n\xff";
  const std::string text = Text({job}, {}, PrometheusFormat::kText);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("# ") || line.starts_with("gordian_")) << line;
    EXPECT_EQ(line.find_first_of("\x1b\xff"), std::string::npos);
    EXPECT_FALSE(line.starts_with("gordian_deadlock_detected{job=\"b")) << line;
  }
  EXPECT_NE(text.find(R"(job="a\"} 1 gordian_deadlock_detected{job=\"b\\")"), std::string::npos)
      << text;
}

TEST(Metrics, ProcessesWithOneNumberAreOneSeries) {
  MetricJob job = Whole();
  auto& ranks = job.status["ranks"];
  ranks.push_back(ranks[0]);
  ranks[1]["pid"] = 8;
  ranks[1]["since_s"] = 2.5;
  ranks[1]["nccl_calls"] = 3;
  std::istringstream lines(Text({job}, {}, PrometheusFormat::kText));
  std::map<std::string, std::string> samples;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(samples.emplace(line.substr(0, space), line.substr(space + 1)).second) << line;
  }
  EXPECT_EQ(samples[R"(gordian_nccl_calls_total{job="train",rank="0"})"], "15");
  const std::string blocked =
      R"(gordian_host_blocked_seconds{job="train",rank="0",api="cudaStreamSynchronize"})";
  EXPECT_EQ(samples[blocked], "2.5");
}

TEST(Metrics, WhatIsNoStatusIsLeftOut) {
  for (const char* status : {"{}", R"({"ranks": 3, "communicators": [1], "nodes": {}})",
                             R"({"ranks": [[]], "evidence": [], "verdict": 4})"}) {
    const std::string text =
        Text({{"j", nlohmann::ordered_json::parse(status)}}, {}, PrometheusFormat::kText);
    EXPECT_NE(text.find("gordian_job_info{job=\"j\""), std::string::npos);
  }
}

// By job, by the name of the metric.
std::map<std::string, std::map<std::string, nlohmann::json>> Otlp(
    const std::vector<MetricJob>& jobs) {
  const std::string text = OtlpMetricsJson(FamiliesOf(jobs, kServer),
                                           {.host = "node7", .instance_id = "node7-5"}, 17, 23);
  std::map<std::string, std::map<std::string, nlohmann::json>> all;
  const auto request = nlohmann::json::parse(text);
  for (const auto& resource : request.at("resourceMetrics")) {
    std::map<std::string, std::string> attributes;
    for (const auto& one : resource.at("resource").at("attributes")) {
      attributes[one.at("key")] = one.at("value").at("stringValue");
    }
    EXPECT_EQ(attributes.at("service.name"), "gordian");
    EXPECT_EQ(attributes.at("host.name"), "node7");
    EXPECT_EQ(attributes.at("service.instance.id"), "node7-5");
    auto& of_job = all[attributes["service.namespace"]];
    for (const auto& metric : resource.at("scopeMetrics").at(0).at("metrics")) {
      EXPECT_TRUE(of_job.emplace(metric.at("name"), metric).second) << metric;
    }
  }
  return all;
}

TEST(OtlpJson, HoldsTheSameByJob) {
  MetricJob other = Whole();
  other.job = "other";
  auto all = Otlp({Whole(), other});
  std::set<std::string> names;
  for (const auto& [job, metrics] : all) {
    for (const auto& [name, metric] : metrics) names.insert(name);
  }
  for (const MetricFamily& family : AllFamilies()) names.erase(family.SampleName());
  EXPECT_EQ(names, std::set<std::string>());
  EXPECT_EQ(all[""].size() + all["train"].size(), AllFamilies().size());
  EXPECT_EQ(all["train"].size(), all["other"].size());

  const nlohmann::json calls = all["train"].at("gordian_nccl_calls_total");
  EXPECT_EQ(calls.dump(), nlohmann::json::parse(R"({
    "name": "gordian_nccl_calls_total", "description": "NCCL calls of a rank.",
    "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [{
      "attributes": [{"key": "job", "value": {"stringValue": "train"}},
                     {"key": "rank", "value": {"stringValue": "0"}}],
      "startTimeUnixNano": "17", "timeUnixNano": "23", "asInt": "12"}]}})")
                              .dump());
  const nlohmann::json since = all["train"].at("gordian_since_progress_seconds");
  EXPECT_EQ(since.at("unit"), "s");
  EXPECT_EQ(since.at("gauge").at("dataPoints").at(0).at("asDouble"), 2.5);
  const nlohmann::json lag = all["other"].at("gordian_comm_sequence_lag");
  EXPECT_EQ(lag.at("gauge").at("dataPoints").size(), 2u);
  EXPECT_FALSE(lag.contains("unit"));
  EXPECT_EQ(all[""].at("gordian_build_info").at("gauge").at("dataPoints").at(0).at("asInt"), "1");
}

TEST(OtlpJson, NamesFromOutsideAreCleaned) {
  MetricJob job = Whole();
  job.job = "a\xff\x1b";
  EXPECT_TRUE(Otlp({job}).contains("a? "));
}

}  // namespace
}  // namespace gordian::metrics
