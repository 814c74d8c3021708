#include "collector/uplink/uplink.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "common/clock.h"
#include "tests/unit/collector/fake_ingest.h"

namespace gordian::collector {
namespace {

using testing_support::FakeIngest;

v1::EventBatch BatchOf(uint64_t bytes) {
  v1::EventBatch batch;
  batch.add_events()->mutable_module()->set_path(std::string(bytes, 'x'));
  return batch;
}

TEST(UplinkTest, HelloBatchesRoundsEnd) {
  FakeIngest ingest;
  std::atomic<uint64_t> round = 0;
  Uplink::Options options;
  options.channel = ingest.Channel();
  options.hello.set_protocol(1);
  options.on_round = [&](uint64_t number) { round = number; };
  Uplink uplink(std::move(options));
  uplink.Start();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(uplink.Send(BatchOf(10)));
  }
  ASSERT_TRUE(ingest.Await([](const auto& events) { return events.size() == 10; }));
  ingest.AskRound(7);
  for (const uint64_t end = MonoNs() + 20 * kNsPerSecond; round != 7 && MonoNs() < end;) {
    usleep(500);
  }
  EXPECT_EQ(round, 7u);
  const Status status = uplink.Finish(20 * kNsPerSecond);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(uplink.acked(), 10u);
  EXPECT_EQ(ingest.faults(), "");
  EXPECT_FALSE(uplink.Send(BatchOf(1))) << "nothing after the end";
}

TEST(UplinkTest, NobodyThere) {
  Uplink::Options options;
  options.channel = grpc::CreateChannel("unix:/no/such/socket", grpc::InsecureChannelCredentials());
  std::atomic<int> failures = 0;
  options.on_round = [](uint64_t) {};
  options.on_failed = [&] { ++failures; };
  Uplink uplink(std::move(options));
  uplink.Start();
  const Status status = uplink.Finish(20 * kNsPerSecond);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.ToString();
  EXPECT_EQ(failures, 1);
  EXPECT_FALSE(uplink.Send(BatchOf(1)));
}

TEST(UplinkTest, RefusedAndBroken) {
  for (const bool refuse : {true, false}) {
    FakeIngest ingest;
    if (refuse) {
      ingest.RefuseEverybody("protocol 9 is spoken here");
    } else {
      ingest.FailAfterHello();
    }
    std::atomic<bool> failed = false;
    Uplink::Options options;
    options.channel = ingest.Channel();
    options.on_round = [](uint64_t) {};
    options.on_failed = [&] { failed = true; };
    Uplink uplink(std::move(options));
    uplink.Start();
    for (const uint64_t end = MonoNs() + 20 * kNsPerSecond; !failed && MonoNs() < end;) {
      usleep(500);
    }
    ASSERT_TRUE(failed);
    const std::string why = uplink.status().message();
    EXPECT_NE(why.find(refuse ? "protocol 9 is spoken here" : "out of order today"),
              std::string::npos)
        << why;
    EXPECT_FALSE(uplink.Finish(20 * kNsPerSecond).ok());
  }
}

TEST(UplinkTest, AnAnalyzerThatDoesNotReadIsBoundedAndNeverBlocks) {
  FakeIngest ingest;
  ingest.Stall(true);
  Uplink::Options options;
  options.channel = ingest.Channel();
  options.max_queued_bytes = 1 << 20;
  options.on_round = [](uint64_t) {};
  Uplink uplink(std::move(options));
  uplink.Start();
  int sent = 0;
  for (; sent < 1000 && !uplink.Full(); ++sent) {
    ASSERT_TRUE(uplink.Send(BatchOf(64 << 10)));
  }
  EXPECT_TRUE(uplink.Full());
  EXPECT_LT(sent, 1000);
  const uint64_t begin = MonoNs();
  EXPECT_EQ(uplink.Finish(100 * kNsPerMs).code(), StatusCode::kDeadline);
  EXPECT_LT(MonoNs() - begin, 10 * kNsPerSecond);
}

}  // namespace
}  // namespace gordian::collector
