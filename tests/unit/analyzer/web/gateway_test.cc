#include "analyzer/web/gateway.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
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

  std::optional<uint64_t> IncidentChanges() override {
    const std::lock_guard lock(mutex_);
    return incident_changes_;
  }
  StatusOr<std::string> Acknowledge(const std::string& id, const std::string& by,
                                    const std::string& note) override {
    const std::lock_guard lock(mutex_);
    if (id == "many") return Status::InvalidArgument("several incidents have ids that begin so");
    if (id != "5f0c27a91e44") return Status::NotFound("no incident has the id " + id);
    said_.push_back(by + ": " + note);
    incident_changes_ = incident_changes_.value_or(0) + 1;
    return id;
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
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
  std::optional<uint64_t> incident_changes_;
  std::vector<std::string> said_;
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
    const Status status = gateway_.Start(
        {.listen = "127.0.0.1:0",
         .may_change =
             [](std::string_view token) {
               return token == "admin" ? Status::Ok() : Status::PermissionDenied("no admin's");
             },
         .files = {.index_html = "the page", .app_js = "script", .app_css = "style"},
         .jobs = jobs_,
         .look_every = look_every_});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::string Body(const std::string& path) {
    const std::string answer = Get(gateway_.port(), path);
    const size_t at = answer.find("\r\n\r\n");
    return at == std::string::npos ? answer : answer.substr(at + 4);
  }

  std::string Acknowledge(const std::string& id, const std::string& body,
                          const std::string& token) {
    RawClient client(gateway_.port());
    client.Send("POST /api/v1/incidents/" + id +
                "/acknowledge HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::string answer = client.ReadAll();
    const size_t at = answer.find("\r\n\r\n");
    return answer.substr(9, 3) + " " + (at == std::string::npos ? "" : answer.substr(at + 4));
  }

  std::shared_ptr<FakeJobs> jobs_ = std::make_shared<FakeJobs>();
  std::chrono::milliseconds look_every_ = GatewayOptions().look_every;
  Gateway gateway_;
};

// A gateway that looks at nothing by itself while a test lasts.
class GatewayWake : public GatewayTest {
 protected:
  GatewayWake() { look_every_ = std::chrono::hours(24); }
  // Waits for as long as ctest lets the test run, so that a slow machine misses nothing.
  static bool Hears(RawClient& viewer, const std::string& text) {
    return viewer.ReadUntil(text, std::chrono::hours(1)).find(text) != std::string::npos;
  }
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

TEST_F(GatewayWake, AnAdminAcknowledgesAndViewersHearOfIt) {
  const std::string body = R"({"by": "ann", "note": "it's <b>mine</b>"})", id = "5f0c27a91e44";
  EXPECT_FALSE(nlohmann::json::parse(Body("/api/v1/jobs"))["has_incidents"]);
  RawClient viewer(gateway_.port());
  viewer.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  viewer.ReadUntil("\r\n\r\n");
  EXPECT_EQ(Acknowledge(id, body, "admin"), "200 {\"acknowledged\":\"5f0c27a91e44\"}");
  EXPECT_TRUE(Hears(viewer, "event: incidents"));
  EXPECT_EQ(Acknowledge(id, R"({"by": "bob"})", "admin").substr(0, 3), "200") << "once more";
  EXPECT_EQ(jobs_->said(), (std::vector<std::string>{"ann: it's <b>mine</b>", "bob: "}));
  EXPECT_TRUE(nlohmann::json::parse(Body("/api/v1/jobs"))["has_incidents"]);
}

TEST_F(GatewayTest, RefusesToAcknowledgeByName) {
  const std::string good = R"({"by": "ann"})", id = "5f0c27a91e44";
  EXPECT_EQ(Acknowledge(id, good, "").substr(0, 3), "401");
  EXPECT_EQ(Acknowledge(id, good, "viewer"), "403 403: no admin's\n");
  EXPECT_EQ(Acknowledge("nosuch", good, "admin"), "404 404: no incident has the id nosuch\n");
  EXPECT_EQ(Acknowledge("many", good, "admin").substr(0, 3), "409");
  for (const char* bad : {"", "{", "[]", "{}", R"({"by": ""})", R"({"by": 7})", R"("ann")",
                          R"({"by": "ann", "note": ["x"]})", R"({"note": "x"})"}) {
    EXPECT_EQ(Acknowledge(id, bad, "admin").substr(0, 3), "400") << bad;
  }
  EXPECT_TRUE(jobs_->said().empty());
}

TEST_F(GatewayTest, SaysWhetherAViewerMayAcknowledge) {
  const auto may = [this](const std::string& headers) {
    const std::string answer = Get(gateway_.port(), "/api/v1/jobs", headers);
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")))["may_acknowledge"]
        .get<bool>();
  };
  EXPECT_FALSE(may(""));
  EXPECT_FALSE(may("Authorization: Bearer viewer\r\n"));
  EXPECT_TRUE(may("Authorization: Bearer admin\r\n"));
}

// Of 10,000 jobs the events alone are more than the server holds for a viewer.
TEST_F(GatewayTest, WhoHasTheListIsNotSentAllOfItOnceMore) {
  std::vector<JobSummary> jobs;
  for (int i = 0; i < 10'000; ++i) {
    jobs.push_back(Job("job-" + std::to_string(i), model::VerdictKind::kFinished, 1));
  }
  jobs_->Set(jobs);
  Body("/api/v1/jobs");  // publishes them
  const auto list = nlohmann::json::parse(Body("/api/v1/jobs"));
  ASSERT_EQ(list["jobs"].size(), jobs.size());
  RawClient viewer(gateway_.port());
  viewer.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: " +
              list["last_event"].get<std::string>() + "\r\n\r\n");
  viewer.ReadUntil("\r\n\r\n");
  jobs[7].revision = 2;
  jobs_->Set(jobs);
  gateway_.Wake();
  const std::string& got = viewer.ReadUntil("\"revision\":2");
  EXPECT_NE(got.find("\"job\":\"job-7\""), std::string::npos) << got.substr(0, 400);
  EXPECT_EQ(got.find("\"job\":\"job-8\""), std::string::npos);
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

TEST_F(GatewayWake, TellsViewersOfEachVerdict) {
  RawClient viewer(gateway_.port());
  viewer.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  viewer.ReadUntil("\r\n\r\n", std::chrono::hours(1));
  // Those after the first may come while the gateway gathers what comes close together.
  for (const uint64_t revision : {1U, 2U, 3U}) {
    jobs_->Set({Job("a", model::VerdictKind::kDeadlock, revision)});
    gateway_.Wake();
    EXPECT_TRUE(Hears(viewer, "\"revision\":" + std::to_string(revision) + ",")) << revision;
  }
}

TEST_F(GatewayTest, TellsViewersOfAVerdictAndOfHowItEnded) {
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
