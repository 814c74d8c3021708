#include "analyzer/metrics/otlp_push.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/clock.h"
#include "tests/unit/analyzer/http/receiver.h"

namespace gordian::metrics {
namespace {

using http::Receiver;
using std::chrono::hours;
using std::chrono::milliseconds;

class PushTest : public testing::Test {
 protected:
  // Pushes a counter of the collections, only when it is asked to.
  void Start(const Receiver& receiver) {
    OtlpPushOptions options;
    options.target = {.url = receiver.Url("/v1/metrics?key=s3cret"),
                      .shown = "http://it",
                      .headers = {"api-key: k"},
                      .interval = hours(1)};
    options.collect = [this] {
      return FamiliesOf({}, {.http = std::nullopt, .deadlocks = {{"deadlock", ++collected_}}});
    };
    options.on_line = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    options.first_wait = milliseconds(5);
    options.least_gap = milliseconds(0);
    push_ = std::make_unique<OtlpPush>(std::move(options));
  }
  static bool Wait(const std::function<bool()>& condition) {
    const uint64_t deadline = MonoNs() + 30 * kNsPerSecond;
    while (!condition() && MonoNs() < deadline) usleep(1000);
    return condition();
  }
  bool WaitForRequests(const Receiver& receiver, size_t count) {
    return Wait([&] { return receiver.received().size() >= count; });
  }
  bool Finish() {
    push_->Finish();
    return Wait([&] { return push_->Finished(); });
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // Which collection a request holds.
  static int NumberIn(const http::Received& request) {
    const auto body = nlohmann::json::parse(request.body);
    for (const auto& metric : body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]) {
      if (metric["name"] != "gordian_deadlocks_total") continue;
      return std::stoi(metric["sum"]["dataPoints"][0]["asInt"].get<std::string>());
    }
    return 0;
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::atomic<uint64_t> collected_ = 0;
  std::unique_ptr<OtlpPush> push_;
};

TEST_F(PushTest, AtTheStartWhenWokenAndAtTheEnd) {
  Receiver receiver;
  Start(receiver);
  ASSERT_TRUE(WaitForRequests(receiver, 1));
  push_->Wake();
  ASSERT_TRUE(WaitForRequests(receiver, 2));
  ASSERT_TRUE(Finish());
  push_->Wake();
  push_->Stop();
  const std::vector<http::Received> got = receiver.received();
  ASSERT_EQ(got.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(NumberIn(got[static_cast<size_t>(i)]), i + 1);
  EXPECT_EQ(got[0].path, "/v1/metrics?key=s3cret");
  EXPECT_EQ(got[0].headers.at("content-type"), "application/json");
  EXPECT_EQ(got[0].headers.at("api-key"), "k");
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(PushTest, ASlowCollectorGetsTheNewestAlone) {
  std::promise<void> held;
  Receiver receiver([&held](size_t number) {
    if (number == 0) held.get_future().wait();
    return Receiver::Code(200);
  });
  Start(receiver);
  ASSERT_TRUE(WaitForRequests(receiver, 1));
  for (int i = 0; i < 100; ++i) push_->Wake();
  EXPECT_EQ(collected_, 1u) << "nothing is made that cannot be sent";
  held.set_value();
  ASSERT_TRUE(WaitForRequests(receiver, 2));
  ASSERT_TRUE(Finish());
  EXPECT_EQ(receiver.received().size(), 3u);
}

TEST_F(PushTest, ACollectorThatIsAwayIsToldOfOnceAndThatItIsBack) {
  Receiver receiver([](size_t number) {
    if (number < 2) return std::string();  // closes
    return Receiver::Code(number < 5 ? 503 - static_cast<int>(number % 2) : 200);
  });
  Start(receiver);
  ASSERT_TRUE(WaitForRequests(receiver, 6)) << "tries again by itself";
  ASSERT_TRUE(Finish());
  EXPECT_EQ(receiver.received().size(), 7u);
  const std::vector<std::string> said = lines();
  ASSERT_EQ(said.size(), 2u) << testing::PrintToString(said);
  EXPECT_TRUE(said[0].starts_with("cannot push metrics to http://it: ")) << said[0];
  EXPECT_TRUE(said[0].ends_with("; gordian tries again")) << said[0];
  EXPECT_EQ(said[1], "http://it takes the metrics again");
}

TEST_F(PushTest, RetryAfterIsWaitedForAlsoAtTheEnd) {
  Receiver receiver([](size_t number) {
    return number == 0 ? Receiver::Code(429, "Retry-After: 1\r\n") : Receiver::Code(200);
  });
  Start(receiver);
  ASSERT_TRUE(WaitForRequests(receiver, 1));
  const uint64_t asked = MonoNs();
  ASSERT_TRUE(Wait([&] { return !lines().empty(); }));
  push_->Wake();
  ASSERT_TRUE(Finish());
  EXPECT_GE(MonoNs() - asked, 900 * kNsPerMs);
  EXPECT_EQ(receiver.received().size(), 2u);
}

TEST_F(PushTest, ARefusalIsFinalForWhatWasRefused) {
  Receiver receiver([](size_t) {
    return Receiver::Code(400, "", R"({"code": 3, "message": "no \u001b[31m metrics"})");
  });
  Start(receiver);
  ASSERT_TRUE(Wait([&] { return !lines().empty(); }));
  push_->Wake();
  ASSERT_TRUE(WaitForRequests(receiver, 2));
  ASSERT_TRUE(Finish());
  EXPECT_EQ(receiver.received().size(), 3u);
  EXPECT_EQ(lines(), std::vector<std::string>{
                         "cannot push metrics to http://it: HTTP 400 (no  [31m metrics); gordian "
                         "goes on sending newer ones"});
}

TEST_F(PushTest, PartialSuccessIsSaidOnce) {
  Receiver receiver([](size_t) {
    return Receiver::Code(
        200, "", R"({"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}})");
  });
  Start(receiver);
  ASSERT_TRUE(WaitForRequests(receiver, 1));
  ASSERT_TRUE(Finish());
  EXPECT_EQ(lines(), std::vector<std::string>{
                         "http://it takes the metrics but 3 data points and says: too old"});
}

TEST_F(PushTest, AnswersOfAnyShapeAreTaken) {
  const std::vector<std::string> bodies = {"",
                                           "\xff\xfe",
                                           "[]",
                                           R"({"partialSuccess": 3})",
                                           R"({"partialSuccess": {}})",
                                           R"({"partialSuccess": {"rejectedDataPoints": []}})",
                                           std::string(1 << 20, 'x')};
  Receiver receiver([&](size_t number) {
    return Receiver::Code(200, "", bodies[std::min(number, bodies.size() - 1)]);
  });
  Start(receiver);
  for (size_t count = 1; count < bodies.size(); ++count) {
    ASSERT_TRUE(WaitForRequests(receiver, count));
    push_->Wake();
  }
  ASSERT_TRUE(WaitForRequests(receiver, bodies.size()));
  ASSERT_TRUE(Finish());
  EXPECT_EQ(lines(), std::vector<std::string>());
}

TEST_F(PushTest, OneThatNeverAnswersIsLeftSoon) {
  Receiver receiver([](size_t) { return std::string(Receiver::kSilence); });
  Start(receiver);
  ASSERT_TRUE(WaitForRequests(receiver, 1));
  push_->Finish();
  const uint64_t begun = MonoNs();
  push_->Stop();
  EXPECT_LT(MonoNs() - begun, 5 * kNsPerSecond) << "the request's timeout is ten";
  EXPECT_FALSE(push_->Finished());
}

}  // namespace
}  // namespace gordian::metrics
