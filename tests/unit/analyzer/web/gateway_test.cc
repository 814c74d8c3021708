#include "analyzer/web/gateway.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "raw_client.h"

namespace gordian::web {
namespace {

class FakeJobs final : public JobSource {
 public:
  std::vector<JobSummary> Jobs() override {
    const std::lock_guard lock(mutex_);
    return jobs_;
  }
  StatusOr<PageParts> Look(const std::string& job) override {
    const std::lock_guard lock(mutex_);
    ++looks_;
    const bool there = std::any_of(jobs_.begin(), jobs_.end(),
                                   [&](const JobSummary& one) { return one.job == job; });
    if (!there) return Status::NotFound("no such job");
    return PageParts{.job = job, .live = true, .verdict_json = R"({"verdict":"deadlock"})"};
  }
  std::string StatusJson(const std::string&) override {
    return R"({"verdict":"deadlock","confidence":"confirmed"})";
  }

  void Set(std::vector<JobSummary> jobs) {
    const std::lock_guard lock(mutex_);
    jobs_ = std::move(jobs);
  }
  int looks() {
    const std::lock_guard lock(mutex_);
    return looks_;
  }

 private:
  std::mutex mutex_;
  std::vector<JobSummary> jobs_;
  int looks_ = 0;
};

JobSummary Job(const std::string& name, model::VerdictKind kind, uint64_t revision) {
  JobSummary job{.job = name, .revision = revision, .live = true};
  job.main.verdict = kind;
  job.main.confidence = model::Confidence::kConfirmed;
  return job;
}

class GatewayTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status status =
        gateway_.Start({.listen = "127.0.0.1:0",
                        .files = {.index_html = "the page", .app_js = "script", .app_css = "style"},
                        .jobs = jobs_});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::string Body(const std::string& path) {
    const std::string answer = Get(gateway_.port(), path);
    const size_t at = answer.find("\r\n\r\n");
    return at == std::string::npos ? answer : answer.substr(at + 4);
  }

  std::shared_ptr<FakeJobs> jobs_ = std::make_shared<FakeJobs>();
  Gateway gateway_;
};

TEST_F(GatewayTest, ServesThePageAndTheJobs) {
  jobs_->Set({Job("a b/c", model::VerdictKind::kDeadlock, 3)});
  EXPECT_EQ(Body("/"), "the page");
  EXPECT_EQ(Body("/app.js"), "script");
  EXPECT_EQ(Body("/app.css"), "style");
  EXPECT_EQ(Body("/healthz"), "ok\n");
  const auto jobs = nlohmann::json::parse(Body("/api/v1/jobs"));
  ASSERT_EQ(jobs["jobs"].size(), 1u);
  EXPECT_EQ(jobs["jobs"][0]["job"], "a b/c");
  EXPECT_EQ(jobs["jobs"][0]["verdict"], "deadlock");
  const auto page = nlohmann::json::parse(Body("/api/v1/jobs/a%20b%2Fc"));
  EXPECT_EQ(page["schema"], "gordian.page.v1");
  EXPECT_EQ(page["verdict"]["verdict"], "deadlock");
  EXPECT_TRUE(page["status"].is_null());
  for (const char* path : {"/api/v1/jobs/x", "/api/v1/", "/app.js/..", "/../etc/passwd",
                           "/index.html", "/api/v1/jobs/"}) {
    EXPECT_EQ(Body(path).substr(0, 3), "404") << path;
  }
}

TEST_F(GatewayTest, MakesADocumentOncePerVersion) {
  jobs_->Set({Job("a", model::VerdictKind::kHealthy, 1)});
  gateway_.Wake();
  Body("/api/v1/jobs");
  for (int i = 0; i < 5; ++i) Body("/api/v1/jobs/a");
  EXPECT_EQ(jobs_->looks(), 1);
  jobs_->Set({Job("a", model::VerdictKind::kDeadlock, 2)});
  Body("/api/v1/jobs");
  for (int i = 0; i < 5; ++i) Body("/api/v1/jobs/a");
  EXPECT_EQ(jobs_->looks(), 2);
}

TEST_F(GatewayTest, TellsViewersOfAVerdictAtOnce) {
  RawClient viewer(gateway_.port());
  viewer.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  viewer.ReadUntil("\r\n\r\n");
  jobs_->Set({Job("a", model::VerdictKind::kDeadlock, 1)});
  gateway_.Wake();
  EXPECT_NE(viewer.ReadUntil("\"revision\":1").find("\"deadlock\""), std::string::npos);
  jobs_->Set({Job("a", model::VerdictKind::kFinished, 2)});
  gateway_.Stop();  // the last state still goes out
  EXPECT_NE(viewer.ReadAll().find("\"finished\""), std::string::npos);
}

TEST_F(GatewayTest, CountsEachProvenVerdictOnce) {
  jobs_->Set({Job("a", model::VerdictKind::kDeadlock, 1)});
  Body("/metrics");
  jobs_->Set({Job("a", model::VerdictKind::kDeadlock, 2)});
  EXPECT_NE(Body("/metrics").find("gordian_deadlocks_total{verdict=\"deadlock\"} 1\n"),
            std::string::npos);
  jobs_->Set({Job("a", model::VerdictKind::kHealthy, 3)});
  Body("/metrics");
  jobs_->Set({Job("a", model::VerdictKind::kDeadlock, 4)});
  EXPECT_NE(Body("/metrics").find("gordian_deadlocks_total{verdict=\"deadlock\"} 2\n"),
            std::string::npos);
}

}  // namespace
}  // namespace gordian::web
