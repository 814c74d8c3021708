// The server for many nodes with scripted collectors, and with real links, in this process.
#include "analyzer/fleet/fleet_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "analyzer/ingest/live_job.h"
#include "collector/uplink/fleet_link.h"
#include "common/clock.h"
#include "tests/unit/analyzer/fleet/fleet_server_fixture.h"

namespace gordian::analyzer {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

TEST_F(FleetServerTest, RepeatedBatchesAreTakenOnceAndAGapIsNamed) {
  Start();
  {
    Scripted node(port_, "j", 7, "n0");
    EXPECT_EQ(node.Await(v1::ToCollector::kWelcome).welcome().last_batch(), 0u);
    for (uint32_t n : {1, 2, 2, 1, 3}) ASSERT_TRUE(node.Send(n, {Mod(n)}));
    node.AwaitAck(3);
  }
  {
    Scripted node(port_, "j", 7, "n0");  // the same collector, by its incarnation
    EXPECT_EQ(node.Await(v1::ToCollector::kWelcome).welcome().last_batch(), 3u);
    ASSERT_TRUE(node.Send(3, {Mod(3)}));
    ASSERT_TRUE(node.Send(6, {Mod(6)}));
    ASSERT_TRUE(node.Send(7, {Mod(7), End()}));
    node.AwaitAck(7);
  }
  server_->Stop();
  const Seen seen = Trace("j");
  EXPECT_EQ(seen.modules, (std::vector<uint64_t>{1, 2, 3, 6, 7}));
  EXPECT_EQ(seen.marks.at(0), (std::vector<uint64_t>{1, 2, 3, 6, 7}));
  EXPECT_EQ(seen.lost, 2u);
  EXPECT_EQ(seen.joined, 1u);
  EXPECT_EQ(seen.ended, 1u);
  EXPECT_EQ(seen.ending.substr(0, 8), "complete");
  StatusOr<AnalysisResult> result = AnalyzeTrace(base_ + "/sessions/j");
  ASSERT_TRUE(result.ok());
  const auto& unseen = result->verdict.main.evidence.not_visible;
  EXPECT_TRUE(std::find(unseen.begin(), unseen.end(), "2 batches of events from n0 are missing") !=
              unseen.end());
}

TEST_F(FleetServerTest, AcknowledgedMeansThatItIsInTheFile) {
  Start();
  Scripted node(port_, "j", 7, "n0");
  for (uint64_t n = 1; n <= 30; ++n) {
    ASSERT_TRUE(node.Send(n, {Mod(static_cast<uint32_t>(n))}));
    if (n % 10 != 0) continue;
    node.AwaitAck(n);
    const Seen seen = Trace("j");  // while it is written
    ASSERT_FALSE(seen.marks.empty());
    EXPECT_GE(seen.marks.at(0).back(), n);
    EXPECT_GE(seen.modules.back(), n);
  }
}

// The trace is cut at any byte, as a kill -9 leaves it: the next server knows of each node what the
// readable part says, asks for the rest, and in the end nothing is missing or twice.
TEST_F(FleetServerTest, AServerThatWasKilledGoesOnFromItsTrace) {
  constexpr uint64_t kBatches = 60;
  auto events = [](uint64_t node, uint64_t n) {
    std::vector<v1::Event> out;
    for (uint64_t i = 0; i < 5; ++i)
      out.push_back(Mod(static_cast<uint32_t>(node * 100'000 + n * 10 + i)));
    return out;
  };
  Start();
  {
    Scripted a(port_, "j", 7, "n0"), b(port_, "j", 8, "n1");
    for (uint64_t n = 1; n <= kBatches; ++n) {
      ASSERT_TRUE(a.Send(n, events(0, n)));
      ASSERT_TRUE(b.Send(n, events(1, n)));
      if (n % 7 == 0) {
        a.AwaitAck(n);
        b.AwaitAck(n);
      }
    }
    a.AwaitAck(kBatches);
    b.AwaitAck(kBatches);
    fs::copy(base_ + "/sessions/j", base_ + "/kept", fs::copy_options::recursive);  // as it is now
  }
  server_->Stop();
  const std::string trace = base_ + "/sessions/j/trace.gtrace";
  const uint64_t size = fs::file_size(base_ + "/kept/trace.gtrace");
  for (int cut = 0; cut < 12; ++cut) {
    server_.reset();
    fs::remove_all(base_ + "/sessions/j");
    fs::copy(base_ + "/kept", base_ + "/sessions/j", fs::copy_options::recursive);
    fs::resize_file(trace, size - size * static_cast<uint64_t>(cut) / 16);
    Start();
    std::set<uint64_t> expected;
    {
      Scripted a(port_, "j", 7, "n0", kBatches), b(port_, "j", 8, "n1", kBatches);
      Scripted* const nodes[] = {&a, &b};
      for (uint64_t node = 0; node < 2; ++node) {
        const uint64_t last = nodes[node]->Await(v1::ToCollector::kWelcome).welcome().last_batch();
        if (cut == 0) {
          EXPECT_EQ(last, kBatches);
        }
        EXPECT_LE(last, kBatches);
        for (uint64_t n = last + 1; n <= kBatches; ++n) {
          ASSERT_TRUE(nodes[node]->Send(n, events(node, n)));
        }
        ASSERT_TRUE(nodes[node]->Send(kBatches + 1, {End()}));
        nodes[node]->AwaitAck(kBatches + 1);
        for (uint64_t n = 1; n <= kBatches; ++n) {
          for (const v1::Event& event : events(node, n)) expected.insert(event.module().start());
        }
      }
    }
    server_->Stop();
    const Seen seen = Trace("j");
    EXPECT_EQ(seen.modules.size(), expected.size()) << "cut " << cut;
    EXPECT_EQ(std::set<uint64_t>(seen.modules.begin(), seen.modules.end()), expected);
    EXPECT_EQ(seen.lost, 0u);
    EXPECT_EQ(seen.joined, 2u);
    EXPECT_EQ(seen.ended, 1u);
    EXPECT_EQ(seen.ending.substr(0, 8), "complete");
    for (const auto& [node, marks] : seen.marks) {
      ASSERT_EQ(marks.size(), kBatches + 1);
      for (uint64_t n = 0; n < marks.size(); ++n) EXPECT_EQ(marks[n], n + 1);
    }
  }
}

TEST_F(FleetServerTest, JobsAreFiledByTheirNamesAndAnEndedOneIsNotReopened) {
  Start();
  for (uint64_t run : {1, 2}) {
    Scripted x(port_, "a/b", 10 + run, "n0"), y(port_, "other", 20 + run, "n0");
    ASSERT_TRUE(x.Send(1, {Mod(1), End()}));
    ASSERT_TRUE(y.Send(1, {Mod(2), End()}));
    x.AwaitAck(1);
    y.AwaitAck(1);
  }
  {
    Scripted late(port_, "a/b", 11, "n0");  // of the first run, which is over
    EXPECT_EQ(late.Await(v1::ToCollector::kWelcome).welcome().last_batch(), 1u);
  }
  server_->Stop();
  for (const char* job : {"a_b", "a_b.2"}) {
    EXPECT_EQ(Trace(job).modules, (std::vector<uint64_t>{1})) << job;
  }
  for (const char* job : {"other", "other.2"}) {
    EXPECT_EQ(Trace(job).modules, (std::vector<uint64_t>{2})) << job;
  }
}

TEST_F(FleetServerTest, NodesThatAreAwayOrHaveNotComeAreNamed) {
  Start();
  testing::RecordedJob job = testing::TwoRanks(true);
  const std::string verdict = base_ + "/sessions/j/verdict.json";
  auto says = [&](const std::string& words) {
    std::ifstream file(verdict);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    return text.find(words) != std::string::npos;
  };
  auto await = [&](const std::string& words, bool there) {
    for (int i = 0; i < 1000 && says(words) != there; ++i)
      std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(says(words), there) << words;
  };
  std::vector<v1::Event> events = job.Take();
  uint64_t next = 2;
  {
    Scripted node(port_, "j", 7, "n0", 0, /*nodes=*/3);
    ASSERT_TRUE(node.Send(1, events));
    const uint64_t round = node.Await(v1::ToCollector::kRound).round().round();
    ASSERT_TRUE(node.Send(next++, {job.RoundEvent(round)}));
    await("2 of 3 nodes", true);
  }
  await("the collector on n0 went away", true);
  {
    Scripted node(port_, "j", 7, "n0", /*backlog=*/next, 3);
    // Not asked before it has sent what it saw meanwhile.
    v1::ToCollector message = node.Await(v1::ToCollector::kWelcome);
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_TRUE(says("the collector on n0 went away"));
    ASSERT_TRUE(node.Send(next++, {Mod(1)}));
    const uint64_t round = node.Await(v1::ToCollector::kRound).round().round();
    ASSERT_TRUE(node.Send(next++, {job.RoundEvent(round)}));
    await("the collector on n0 went away", false);
  }
}

TEST_F(FleetServerTest, RoundsOfANewLifeAreAboveAllOfTheOld) {
  Start();
  uint64_t before = 0;
  {
    Scripted node(port_, "j", 7, "n0");
    before = node.Await(v1::ToCollector::kRound).round().round();
  }
  server_->Stop();
  Start();
  Scripted node(port_, "j", 7, "n0");
  const uint64_t after = node.Await(v1::ToCollector::kRound).round().round();
  EXPECT_GT(after, before + 1'000'000);
}

// Two nodes joined at once, and the trace was cut between the two: whoever comes now must not get
// the number, and with it the processes, of the one that is in there.
TEST_F(FleetServerTest, ANumberOfANodeIsGivenOnce) {
  const std::string folder = base_ + "/sessions/j";
  fs::create_directories(folder);
  std::ofstream(folder + "/manifest.json") << R"({"schema": "gordian.job.v1", "job": "j"})";
  {
    auto writer = TraceWriter::Create(folder + "/trace.gtrace", {});
    ASSERT_TRUE(writer.ok());
    v1::Event joined, mark;
    joined.mutable_node_joined()->set_node(1);
    joined.mutable_node_joined()->set_name("n1");
    joined.mutable_node_joined()->set_incarnation(8);
    joined.mutable_node_joined()->set_gordian_version(kVersion);
    mark.mutable_batch_mark()->set_node(1);
    mark.mutable_batch_mark()->set_number(3);
    ASSERT_TRUE((*writer)->Append(joined).ok());
    ASSERT_TRUE((*writer)->Append(mark).ok());
    ASSERT_TRUE((*writer)->Flush().ok());
  }
  Start();
  {
    Scripted a(port_, "j", 7, "n0"), b(port_, "j", 8, "n1");
    EXPECT_EQ(a.Await(v1::ToCollector::kWelcome).welcome().last_batch(), 0u);
    EXPECT_EQ(b.Await(v1::ToCollector::kWelcome).welcome().last_batch(), 3u);
    ASSERT_TRUE(a.Send(1, {Mod(1)}));
    ASSERT_TRUE(b.Send(4, {Mod(4)}));
    a.AwaitAck(1);
    b.AwaitAck(4);
  }
  server_->Stop();
  const Seen seen = Trace("j");
  EXPECT_EQ(seen.marks, (std::map<uint32_t, std::vector<uint64_t>>{{1, {3, 4}}, {2, {1}}}));
}

TEST_F(FleetServerTest, StrangeFoldersAndNamesHarmNobody) {
  for (const char* text :
       {R"({"schema": 5})", R"({"schema": "gordian.job.v1", "job": []})", "[", ""}) {
    static int number = 0;
    const std::string folder = base_ + "/sessions/strange" + std::to_string(number++);
    fs::create_directories(folder);
    std::ofstream(folder + "/manifest.json") << text;
  }
  Start();
  EXPECT_TRUE(server_->jobs().empty());
  {
    Scripted escape(port_, "a\x1b[2Jb", 7, "n0");
    EXPECT_TRUE(escape.Await(v1::ToCollector::kRefused).has_refused());
  }
  EXPECT_TRUE(server_->jobs().empty());
  {
    Scripted above(port_, "../../x", 7, "n0");
    EXPECT_TRUE(above.Await(v1::ToCollector::kWelcome).has_welcome());
  }
  ASSERT_EQ(server_->jobs().size(), 1u);
  EXPECT_EQ(server_->jobs()[0].folder, base_ + "/sessions/job.._.._x");
}

TEST_F(FleetServerTest, OtherVersionsAreRefusedByName) {
  FleetOptions options;
  options.gordian_version = "9.8.7";
  Start(options);
  Scripted node(port_, "j", 7, "n0");
  const std::string why = node.Await(v1::ToCollector::kRefused).refused().why();
  EXPECT_NE(why.find("9.8.7"), std::string::npos) << why;
  EXPECT_NE(why.find(kVersion), std::string::npos) << why;
  EXPECT_TRUE(server_->jobs().empty());
}

TEST_F(FleetServerTest, TwoServersDoNotShareAFolder) {
  Start();
  FleetServer second;
  FleetOptions options;
  options.listen = "127.0.0.1:0";
  options.sessions_dir = base_ + "/sessions";
  EXPECT_EQ(second.Start(options).code(), StatusCode::kAlreadyExists);
}

// Real links, a server that comes and goes, at random times.
TEST_F(FleetServerTest, LinksDeliverExactlyOnceAcrossRestarts) {
  Start();
  std::vector<std::unique_ptr<collector::FleetLink>> links;
  for (int node = 0; node < 2; ++node) {
    collector::FleetLink::Options options;
    options.make_channel = [this] {  // wherever the server is by now
      return grpc::CreateChannel(Address(), grpc::InsecureChannelCredentials());
    };
    options.hello.set_protocol(kIngestProtocol);
    options.hello.set_gordian_version(kVersion);
    options.hello.set_job("j");
    options.hello.set_node("n" + std::to_string(node));
    options.spool_dir = base_ + "/spool" + std::to_string(node);
    options.window_bytes = 20'000;
    links.push_back(std::make_unique<collector::FleetLink>(std::move(options)));
    links.back()->Start();
  }
  uint32_t number = 0;
  for (int life = 0; life < 4; ++life) {
    for (int i = 0; i < 300; ++i) {
      ++number;
      for (uint32_t node = 0; node < 2; ++node) {
        v1::EventBatch batch;
        *batch.add_events() = Mod(node * 1'000'000 + number);
        ASSERT_TRUE(links[node]->Send(std::move(batch)));
      }
      if (i == 150 && life > 0) {  // in the middle of it
        server_.reset();
        usleep(20'000);
      }
    }
    if (server_ == nullptr) Start();
    for (auto& link : links) {
      const uint64_t end = MonoNs() + 20 * kNsPerSecond;
      while (link->stats().connections <= static_cast<uint64_t>(life) && MonoNs() < end) {
        usleep(1000);
      }
    }
  }
  for (auto& link : links) {
    v1::EventBatch batch;
    *batch.add_events() = End();
    ASSERT_TRUE(link->Send(std::move(batch)));
  }
  std::thread other([&] { EXPECT_TRUE(links[1]->Finish(20 * kNsPerSecond).ok()); });
  const Status status = links[0]->Finish(20 * kNsPerSecond);
  other.join();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_GE(links[0]->stats().connections, 4u);
  EXPECT_TRUE(links[0]->stats().has_clock);
  EXPECT_FALSE(fs::exists(base_ + "/spool0"));
  server_->Stop();
  const Seen seen = Trace("j");
  EXPECT_EQ(seen.modules.size(), 2u * number);
  EXPECT_EQ(std::set<uint64_t>(seen.modules.begin(), seen.modules.end()).size(), 2u * number);
  std::map<bool, uint64_t> last;
  for (const uint64_t module : seen.modules) {  // each node's in order
    uint64_t& before = last[module > 1'000'000];
    EXPECT_GT(module, before);
    before = module;
  }
  EXPECT_EQ(seen.ended, 1u);
  EXPECT_EQ(seen.lost, 0u);
}

}  // namespace
}  // namespace gordian::analyzer
