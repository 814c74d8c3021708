#include "analyzer/web/metrics.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace gordian::web {
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
const ServerMetrics kServer{.viewers = 2, .answers = {{200, 5}}, .deadlocks = {{"deadlock", 1}}};

TEST(Metrics, HoldTheStatus) {
  const std::string text = MetricsText({Whole()}, &kServer, MetricsFormat::kOpenMetrics);
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
}

TEST(Metrics, OlderFormatNamesFamiliesByTheirSamples) {
  const std::string text = MetricsText({Whole()}, nullptr, MetricsFormat::kText);
  EXPECT_NE(text.find("# TYPE gordian_nccl_calls_total counter\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE gordian_build_info gauge\n"), std::string::npos);
  EXPECT_EQ(text.find("# EOF"), std::string::npos);
  EXPECT_EQ(text.find("gordian_http"), std::string::npos) << "a file has no server";
}

// Every family is there, each name once, and none is missing from the list.
TEST(Metrics, NamesAreListed) {
  std::set<std::string> listed, shown;
  for (const auto& [name, type] : MetricNames()) EXPECT_TRUE(listed.insert(name).second) << name;
  std::istringstream lines(MetricsText({Whole()}, &kServer, MetricsFormat::kText));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) shown.insert(line.substr(0, line.find_first_of("{ ")));
  }
  EXPECT_EQ(listed, shown);
}

TEST(Metrics, NamesFromOutsideStayLabels) {
  MetricJob job = Whole();
  job.job = "a\"} 1\ngordian_deadlock_detected{job=\"b\\";
  job.status["ranks"][0]["call"] = "\x1b[31m\n\xff";
  const std::string text = MetricsText({job}, nullptr, MetricsFormat::kText);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("# ") || line.starts_with("gordian_")) << line;
    EXPECT_EQ(line.find_first_of("\x1b\xff"), std::string::npos);
    EXPECT_FALSE(line.starts_with("gordian_deadlock_detected{job=\"b")) << line;
  }
  EXPECT_NE(text.find(R"(job="a\"} 1 gordian_deadlock_detected{job=\"b\\")"), std::string::npos)
      << text;
}

TEST(Metrics, WhatIsNoStatusIsLeftOut) {
  for (const char* status : {"{}", R"({"ranks": 3, "communicators": [1], "nodes": {}})",
                             R"({"ranks": [[]], "evidence": [], "verdict": 4})"}) {
    const std::string text =
        MetricsText({{"j", nlohmann::ordered_json::parse(status)}}, nullptr, MetricsFormat::kText);
    EXPECT_NE(text.find("gordian_job_info{job=\"j\""), std::string::npos);
  }
}

}  // namespace
}  // namespace gordian::web
