#include "analyzer/incidents/alert_sender.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/clock.h"
#include "tests/unit/analyzer/http/receiver.h"

namespace gordian::incidents {
namespace {

using http::Received;
using http::Receiver;
using std::chrono::milliseconds;

class SenderTest : public testing::Test {
 protected:
  // Sends to `urls`, with short waits.
  void Start(const std::vector<std::string>& urls, AlertSenderOptions options = Quick()) {
    for (const std::string& url : urls) {
      options.targets.push_back(ParseAlertTarget(url).value());
      keys_.push_back(options.targets.back().key);
    }
    options.on_done = [this](const Alert& alert, bool sent) {
      const std::lock_guard lock(mutex_);
      done_.push_back(alert.incident + "-" + alert.what + (sent ? " sent" : " given up"));
    };
    options.on_line = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    sender_ = std::make_unique<AlertSender>(std::move(options));
  }
  static AlertSenderOptions Quick() {
    AlertSenderOptions options;
    options.first_wait = milliseconds(5);
    options.longest_wait = milliseconds(20);
    options.timeout = milliseconds(10'000);
    return options;
  }
  bool Send(const std::string& incident, const std::string& what = kConfirmed, size_t target = 0) {
    return sender_->Send({.incident = incident,
                          .what = what,
                          .target = keys_[target],
                          .document = R"({"alert":"confirmed","text":"it hangs"})",
                          .queued_ns = RealNs()});
  }
  void Wait() {
    const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
    while (!sender_->Idle() && MonoNs() < deadline) usleep(1000);
    ASSERT_TRUE(sender_->Idle());
  }
  std::vector<std::string> done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  std::vector<std::string> keys_;
  std::mutex mutex_;
  std::vector<std::string> done_, lines_;
  std::unique_ptr<AlertSender> sender_;
};

using Texts = std::vector<std::string>;

TEST_F(SenderTest, AnAlertArrivesOnceAndSigned) {
  Receiver receiver;
  AlertSenderOptions options = Quick();
  options.key = "0123456789abcdef";
  Start({receiver.Url()}, options);
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(done(), Texts{"aa11-confirmed sent"});
  ASSERT_EQ(receiver.received().size(), 1u);
  const Received got = receiver.received()[0];
  EXPECT_EQ(got.path, "/hook");
  EXPECT_EQ(got.body, R"({"alert":"confirmed","text":"it hangs"})");
  EXPECT_EQ(got.headers.at("idempotency-key"), "aa11-confirmed");
  EXPECT_EQ(got.headers.at("content-type"), "application/json");
  // By python3: hmac.new(b"0123456789abcdef", body, "sha256").hexdigest()
  EXPECT_EQ(got.headers.at("x-gordian-signature"), Signature(options.key, got.body));
  EXPECT_TRUE(lines().empty());
}

// From RFC 4231, test case 2 ("Jefe").
TEST(SignatureTest, IsHmacSha256) {
  EXPECT_EQ(Signature("Jefe", "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_F(SenderTest, ErrorsOfTheReceiverAndClosedConnectionsAreTriedAgain) {
  Receiver receiver([](size_t number) {
    const std::string answers[] = {Receiver::Code(500), "", Receiver::Code(429), "HTTP/1.1 20",
                                   Receiver::Code(503)};
    return number < 5 ? answers[number] : Receiver::Code(204);
  });
  Start({receiver.Url("/secret-in-the-path")});
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(receiver.received().size(), 6u);
  EXPECT_EQ(done(), Texts{"aa11-confirmed sent"});
  ASSERT_EQ(lines().size(), 1u);  // of five failures
  EXPECT_EQ(lines()[0].find("secret"), std::string::npos) << lines()[0];
  EXPECT_NE(lines()[0].find("webhook at http://127.0.0.1"), std::string::npos) << lines()[0];
}

TEST_F(SenderTest, AReceiverThatDoesNotAnswerIsTriedAgain) {
  Receiver receiver(
      [](size_t number) { return number == 0 ? Receiver::kSilence : Receiver::Code(200); });
  AlertSenderOptions options = Quick();
  options.timeout = milliseconds(200);
  Start({receiver.Url()}, options);
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(done(), Texts{"aa11-confirmed sent"});
  EXPECT_GE(receiver.received().size(), 2u);
}

TEST_F(SenderTest, WhatAReceiverRefusesIsNotSentAgain) {
  Receiver receiver([](size_t) { return Receiver::Code(400); });
  Start({receiver.Url()});
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(done(), Texts{"aa11-confirmed given up"});
  EXPECT_EQ(receiver.received().size(), 1u);
}

TEST_F(SenderTest, ARedirectIsNotFollowed) {
  Receiver other;
  Receiver receiver(
      [&](size_t) { return Receiver::Code(307, "Location: " + other.Url() + "\r\n"); });
  Start({receiver.Url()});
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(done(), Texts{"aa11-confirmed given up"});
  EXPECT_TRUE(other.received().empty());
}

TEST_F(SenderTest, ALongAnswerIsNotReadToItsEnd) {
  Receiver receiver([](size_t) {
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(10 << 20, 'x');
  });
  Start({receiver.Url()});
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(done(), Texts{"aa11-confirmed sent"});
}

TEST_F(SenderTest, GivesUpAfterALongTime) {
  AlertSenderOptions options = Quick();
  options.give_up_after = milliseconds(100);
  Start({"http://127.0.0.1:9/nobody"}, options);
  EXPECT_TRUE(Send("aa11"));
  Wait();
  EXPECT_EQ(done(), Texts{"aa11-confirmed given up"});
}

TEST_F(SenderTest, TheQueueIsBoundedAndItsReceiverDelaysNoOther) {
  Receiver receiver;
  AlertSenderOptions options = Quick();
  options.most_queued = 3;
  Start({"http://127.0.0.1:9/nobody", receiver.Url()}, options);
  int taken = 0;
  for (int i = 0; i < 10; ++i) taken += Send(std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(taken, 3);
  EXPECT_TRUE(Send("aa11", kConfirmed, 1));
  const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
  while (done().empty() && MonoNs() < deadline) usleep(1000);
  EXPECT_EQ(done(), Texts{"aa11-confirmed sent"});
  EXPECT_FALSE(sender_->Idle());
  sender_->Stop();  // ends all the same
}

// One alert that a receiver cannot take holds up only the later ones of the same incident.
TEST_F(SenderTest, AnAlertThatFailsHoldsUpItsIncidentAlone) {
  std::mutex mutex;
  bool heals = false;
  AlertSenderOptions options = Quick();
  options.run_command = [&](const std::string&, const AlertEnvironment& environment) {
    const std::lock_guard lock(mutex);
    const bool bad = std::find(environment.begin(), environment.end(),
                               std::pair<std::string, std::string>("GORDIAN_INCIDENT", "bad")) !=
                     environment.end();
    return bad && !heals ? 1 : 0;
  };
  Start({"exec:true"}, options);
  for (const auto& [incident, what] :
       {std::pair("bad", kSuspected), {"good", kConfirmed}, {"bad", kConfirmed}}) {
    EXPECT_TRUE(sender_->Send({.incident = incident,
                               .what = what,
                               .target = keys_[0],
                               .document = std::string(R"({"incident":")") + incident + "\"}",
                               .queued_ns = RealNs()}));
  }
  const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
  while (done().empty() && MonoNs() < deadline) usleep(1000);
  EXPECT_EQ(done().front(), "good-confirmed sent");
  {
    const std::lock_guard lock(mutex);
    heals = true;
  }
  Wait();
  EXPECT_EQ(done(), (Texts{"good-confirmed sent", "bad-suspected sent", "bad-confirmed sent"}));
}

TEST_F(SenderTest, StopEndsARequestThatWaits) {
  Receiver receiver([](size_t) { return Receiver::kSilence; });
  AlertSenderOptions options = Quick();
  options.timeout = milliseconds(600'000);
  Start({receiver.Url()}, options);
  EXPECT_TRUE(Send("aa11"));
  const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
  while (receiver.received().empty() && MonoNs() < deadline) usleep(1000);
  sender_->Stop();
  EXPECT_TRUE(done().empty());
}

TEST(AlertTargetTest, ShowsSchemeAndHostAlone) {
  const AlertTarget slack =
      ParseAlertTarget("slack+https://u:pw@hooks.slack.com/services/T0/B0/secret?x=y").value();
  EXPECT_EQ(slack.shown, "slack at https://hooks.slack.com");
  EXPECT_EQ(slack.key.find("secret"), std::string::npos);
  EXPECT_NE(slack.key, ParseAlertTarget("slack+https://hooks.slack.com/services/T0").value().key);
  EXPECT_EQ(ParseAlertTarget("alertmanager+http://am:9093/").value().url,
            "http://am:9093/api/v2/alerts");
  EXPECT_EQ(ParseAlertTarget("alertmanager+http://am:9093/prefix/api/v2/alerts").value().url,
            "http://am:9093/prefix/api/v2/alerts");
  EXPECT_EQ(ParseAlertTarget("webhook+http://h/x").value().url, "http://h/x");
  EXPECT_EQ(ParseAlertTarget("exec:echo hi").value().url, "echo hi");
  for (const char* wrong :
       {"", "exec:", "ftp://host/secret", "file:///etc/secret", "host:80/secret",
        "slack+exec:secret", "http://", "gopher+http://host/secret"}) {
    const Status status = ParseAlertTarget(wrong).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(status.message().find("secret"), std::string::npos) << status.message();
  }
}

TEST(AlertKeyTest, MustBeASecret) {
  const std::string path = testing::TempDir() + "/key." + std::to_string(getpid());
  std::ofstream(path) << "0123456789abcdef\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadAlertKey(path).value(), "0123456789abcdef");
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(ReadAlertKey(path).status().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  std::ofstream(path) << "short\n";
  EXPECT_EQ(ReadAlertKey(path).status().code(), StatusCode::kInvalidArgument);
  unlink(path.c_str());
  EXPECT_EQ(ReadAlertKey(path).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReadAlertKey("/dev/zero").ok());
}

}  // namespace
}  // namespace gordian::incidents
