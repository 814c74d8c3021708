// What clients may do to a server for many nodes, by mistake or not, and what it costs.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>

#include "analyzer/fleet/job_folders.h"
#include "analyzer/ingest/ingest_stream.h"
#include "common/budget.h"
#include "common/compression.h"
#include "common/packed_batch.h"
#include "tests/unit/analyzer/fleet/fleet_server_fixture.h"

namespace gordian::analyzer {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(60);  // of a test, for what must come

// A stream that this test writes to as it likes. Its deadline is what ends a test that would wait
// for ever.
struct Raw {
  explicit Raw(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // its own window stays small
    stub = v1::Ingest::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    stream = stub->Collect(&context);
  }
  grpc::Status Drain() {
    v1::ToCollector message;
    while (stream->Read(&message)) {
    }
    return stream->Finish();
  }
  grpc::ClientContext context;
  std::unique_ptr<v1::Ingest::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAnalyzer, v1::ToCollector>> stream;
};

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// It sends pings and batches, and never reads what comes back.
TEST_F(FleetServerTest, AClientThatNeverReadsCostsAFixedAmount) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "what was freed stays in the sanitizer's quarantine: the process's size says nothing";
#endif
  Start();
  grpc::ClientContext context;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // its own window, in this process, stays small
  auto stub = v1::Ingest::NewStub(
      grpc::CreateCustomChannel(Address(), grpc::InsecureChannelCredentials(), arguments));
  auto stream = stub->Collect(&context);
  ASSERT_TRUE(stream->Write(HelloOf("j", 1)));
  v1::ToAnalyzer ping;
  auto push = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ping.mutable_ping()->set_sent_ns(static_cast<uint64_t>(i));
      if (!stream->Write(ping)) return false;
    }
    return true;
  };
  ASSERT_TRUE(push(100'000));
  const uint64_t before = ResidentBytes();
  ASSERT_TRUE(push(200'000));  // whose answers, each an object of its own, would be more than 20 MB
  const uint64_t after = ResidentBytes();
  EXPECT_LT(after - std::min(before, after), 8u << 20);
  context.TryCancel();
  v1::ToCollector ignored;
  while (stream->Read(&ignored)) {
  }
  (void)stream->Finish();
}

TEST_F(FleetServerTest, AStreamThatNeverSaysHelloIsEnded) {
  FleetOptions options;
  options.streams.patience = milliseconds(200);
  Start(options);
  Raw silent(Address());
  EXPECT_EQ(silent.Drain().error_code(), grpc::StatusCode::CANCELLED);
  // Who has said Hello may be silent for as long as it likes.
  Scripted node(port_, "j", 7, "n0");
  node.Await(v1::ToCollector::kWelcome);
  Raw other(Address());
  EXPECT_EQ(other.Drain().error_code(), grpc::StatusCode::CANCELLED);
  node.Send(1, {Mod(1)});
  node.AwaitAck(1);
}

TEST_F(FleetServerTest, AClientThatStopsHalfwayKeepsNoThread) {
  FleetOptions options;
  options.streams.patience = milliseconds(200);
  Start(options);
  Raw half(Address());
  ASSERT_TRUE(half.stream->Write(HelloOf("j", 7)));
  v1::ToAnalyzer ping;
  for (int i = 0; i < 100'000; ++i) {  // more answers than the way back has room for
    ping.mutable_ping()->set_sent_ns(static_cast<uint64_t>(i));
    ASSERT_TRUE(half.stream->Write(ping));
  }
  ASSERT_TRUE(half.stream->WritesDone());  // and it does not read
  AwaitNoStream();
  half.context.TryCancel();
  (void)half.Drain();
}

// Would not return.
TEST_F(FleetServerTest, ItsEndWaitsForNoClient) {
  Start();  // with patience
  Raw silent(Address()), half(Address());
  ASSERT_TRUE(half.stream->Write(HelloOf("j", 7)));
  ASSERT_TRUE(half.stream->WritesDone());
  const auto end = SteadyClock::now() + kPatience / 2;
  while (server_->jobs().empty() && SteadyClock::now() < end)
    std::this_thread::sleep_for(milliseconds(5));
  const auto begin = SteadyClock::now();
  server_->Stop();
  EXPECT_LT(SteadyClock::now() - begin, StreamLimits().patience);
  EXPECT_FALSE(silent.Drain().ok());
  (void)half.Drain();
}

TEST_F(FleetServerTest, StreamsAboveTheMostAreRefusedByName) {
  FleetOptions options;
  options.streams.most = 2;
  Start(options);
  auto one = std::make_unique<Scripted>(port_, "j", 7, "n0");
  Scripted two(port_, "j", 8, "n1");
  one->Await(v1::ToCollector::kWelcome);
  two.Await(v1::ToCollector::kWelcome);
  {
    Scripted three(port_, "j", 9, "n2");
    const std::string why = three.Await(v1::ToCollector::kRefused).refused().why();
    EXPECT_NE(why.find("2 streams, the most"), std::string::npos) << why;
  }
  one.reset();
  bool welcomed = false;
  const auto end = SteadyClock::now() + kPatience;
  while (!welcomed && SteadyClock::now() < end) {
    Scripted again(port_, "j", 9, "n2");
    v1::ToCollector message;
    welcomed = again.Read(&message) && message.has_welcome();
  }
  EXPECT_TRUE(welcomed);
}

// Two bytes each on the wire, some fifty in memory.
grpc::ByteBuffer EmptyEvents(size_t count) {
  std::string events;
  events.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) events += std::string("\x12\x00", 2);
  v1::ToAnalyzer message;
  message.mutable_batch()->set_number(1);
  std::string batch = message.batch().SerializeAsString() + events;
  std::string wire = "\x12";
  for (size_t length = batch.size();; length >>= 7) {
    wire += static_cast<char>((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
    if (length <= 0x7f) break;
  }
  wire += batch;
  grpc::Slice slice(wire);
  return grpc::ByteBuffer(&slice, 1);
}

TEST(IngestStreamTest, AMessageOfManyEmptyEventsIsNotMadeIntoObjects) {
  v1::ToAnalyzer message;
  std::string why;
  grpc::ByteBuffer large = EmptyEvents((kMaxMessageBytes - 100) / 2);
#ifndef __SANITIZE_ADDRESS__
  const uint64_t before = ResidentBytes();
#endif
  EXPECT_FALSE(ParseMessage(&large, &message, &why));
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(ResidentBytes() - std::min(before, ResidentBytes()), 200u << 20);
#endif
  EXPECT_NE(why.find(std::to_string(kMaxMessageParts) + " parts"), std::string::npos) << why;

  grpc::ByteBuffer most = EmptyEvents(kMaxMessageParts - 1);  // the batch is a part itself
  EXPECT_TRUE(ParseMessage(&most, &message, &why)) << why;
  EXPECT_EQ(static_cast<size_t>(message.batch().events_size()), kMaxMessageParts - 1);

  // Large, and not many: as ever.
  message.Clear();
  message.mutable_batch()->add_events()->mutable_module()->set_path(std::string(4 << 20, 'p'));
  grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer one(&slice, 1);
  EXPECT_TRUE(ParseMessage(&one, &message, &why)) << why;
}

TEST(IngestStreamTest, WhatIsWithinEventsCountsToo) {
  std::string round;  // a round of processes of nothing
  for (size_t i = 0; i < kMaxMessageParts; ++i) round += std::string("\x22\x00", 2);
  v1::Round shape;
  ASSERT_TRUE(shape.ParseFromString(round));
  ASSERT_EQ(static_cast<size_t>(shape.processes_size()), kMaxMessageParts);
  v1::ToAnalyzer message;
  *message.mutable_batch()->add_events()->mutable_round() = shape;
  grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);
  std::string why;
  EXPECT_FALSE(ParseMessage(&bytes, &message, &why));
  EXPECT_NE(why.find("parts"), std::string::npos) << why;
}

bool Parse(const std::string& sent, v1::ToAnalyzer* got, std::string* why) {
  grpc::Slice slice(sent);
  grpc::ByteBuffer bytes(&slice, 1);
  return ParseMessage(&bytes, got, why);
}

bool Parse(const v1::ToAnalyzer& sent, v1::ToAnalyzer* got, std::string* why) {
  return Parse(sent.SerializeAsString(), got, why);
}

TEST(IngestStreamTest, OtherMessagesAndEmptyOnes) {
  v1::ToAnalyzer ping, got, batch;
  std::string why;
  ping.mutable_ping()->set_sent_ns(5);
  EXPECT_TRUE(Parse(ping, &got, &why));
  EXPECT_EQ(got.ping().sent_ns(), 5u);
  EXPECT_TRUE(Parse(std::string(), &got, &why));
  batch.mutable_batch();
  EXPECT_TRUE(Parse(batch, &got, &why));
  EXPECT_TRUE(got.has_batch());
}

// Cut and changed anywhere.
TEST(IngestStreamTest, DamagedMessagesAreTakenWholeOrRefusedByName) {
  v1::ToAnalyzer plain;
  plain.mutable_batch()->set_number(7);
  for (v1::Event& event : testing::TwoRanks(true).Take())
    *plain.mutable_batch()->add_events() = std::move(event);
  std::mt19937 random(20261122);
  size_t taken = 0, refused = 0;
  for (const std::string& whole :
       {plain.SerializeAsString(), PackedMessage(plain).SerializeAsString()}) {
    for (int i = 0; i < 1500; ++i) {
      std::string bytes = whole;
      if (i % 4 == 0) {
        bytes.resize(random() % bytes.size());
      } else {
        bytes[random() % (i % 2 == 0 ? 24 : bytes.size())] = static_cast<char>(random());
      }
      v1::ToAnalyzer got;
      std::string why;
      const bool parsed = Parse(bytes, &got, &why);
      (parsed ? taken : refused) += 1;
      EXPECT_EQ(parsed, why.empty()) << why;
      EXPECT_TRUE(!parsed || got.batch().packed().empty());
    }
  }
  EXPECT_GT(taken, 200u);
  EXPECT_GT(refused, 200u);
}

TEST(IngestStreamTest, PackedBatchesAreTheSameBatches) {
  v1::ToAnalyzer plain;
  plain.mutable_batch()->set_number(7);
  for (v1::Event& event : testing::TwoRanks(true).Take()) {
    *plain.mutable_batch()->add_events() = std::move(event);
  }
  const v1::ToAnalyzer packed = PackedMessage(plain);
  EXPECT_EQ(packed.batch().events_size(), 0);
  EXPECT_LT(packed.ByteSizeLong(), plain.ByteSizeLong());
  v1::ToAnalyzer got;
  std::string why;
  ASSERT_TRUE(Parse(packed, &got, &why)) << why;
  EXPECT_EQ(got.SerializeAsString(), plain.SerializeAsString());
  // Small ones stay as they are.
  v1::ToAnalyzer small;
  small.mutable_batch()->set_number(8);
  small.mutable_batch()->add_events()->mutable_module()->set_path("p");
  EXPECT_EQ(PackedMessage(small).batch().events_size(), 1);
}

TEST(PackedNewsTest, IsTheSameNews) {
  v1::VerdictNews news, small;
  for (int i = 0; i < 200; ++i) news.add_rings("ring-" + std::to_string(i) + ".1234");
  news.set_verdict_json(std::string(5000, ' '));
  news.set_revision(3);
  news.set_job_ended(true);
  small.set_revision(4);
  for (const v1::VerdictNews* const one : {&news, &small}) {
    v1::VerdictNews got = PackedNews(*one);
    EXPECT_EQ(got.packed().empty(), one == &small);
    std::string why;
    ASSERT_TRUE(Unpack(&got, &why)) << why;
    EXPECT_EQ(got.SerializeAsString(), one->SerializeAsString());
  }
  EXPECT_LT(PackedNews(news).ByteSizeLong(), news.ByteSizeLong() / 4);
}

TEST(PackedNewsTest, NonsenseIsNamed) {
  v1::VerdictNews news;
  for (int i = 0; i < 200; ++i) news.add_rings("ring-" + std::to_string(i));
  const std::string good = PackedNews(news).packed();
  // Packed twice, cut, and no frame at all.
  v1::VerdictNews inner;
  inner.set_packed(std::string(1000, 'x'));
  std::string twice;
  ASSERT_TRUE(Compress(inner.SerializeAsString(), &twice).ok());
  for (const std::string& bytes :
       {twice, good.substr(0, good.size() / 2), std::string("no frame"), std::string(1, '\0')}) {
    v1::VerdictNews bad;
    bad.set_packed(bytes);
    std::string why;
    EXPECT_FALSE(Unpack(&bad, &why));
    EXPECT_NE(why, "");
  }
}

TEST(IngestStreamTest, PackedBatchesThatAreNotTakenAreNamed) {
  const auto refusal = [](uint64_t number, std::string_view contents, const auto& change) {
    v1::ToAnalyzer message, got;
    message.mutable_batch()->set_number(number);
    EXPECT_TRUE(Compress(contents, message.mutable_batch()->mutable_packed()).ok());
    change(message.mutable_batch());
    std::string why;
    EXPECT_FALSE(Parse(message, &got, &why));
    return why;
  };
  const auto as_it_is = [](v1::EventBatch*) {};
  v1::EventBatch batch;
  batch.set_number(3);
  batch.add_events()->mutable_module()->set_path("p");
  const std::string good = batch.SerializeAsString();
  // Much out of little.
  EXPECT_NE(refusal(3, std::string(kMaxMessageBytes + 1, 'x'), as_it_is).find("claims"),
            std::string::npos);
  std::string many;
  for (size_t i = 0; i <= kMaxMessageParts; ++i) many += std::string("\x12\x00", 2);
  EXPECT_NE(refusal(3, many, as_it_is).find("claims"), std::string::npos);
  const auto padded = [&](v1::EventBatch* b) {
    Pad(many.size() / kFrameRatio, b->mutable_packed());
  };
  EXPECT_NE(refusal(3, many, padded).find("parts"), std::string::npos);
  EXPECT_NE(refusal(3, std::string(100, '\xff'), as_it_is).find("malformed"), std::string::npos);
  EXPECT_NE(refusal(4, good, as_it_is).find("contradicts"), std::string::npos);
  EXPECT_NE(refusal(3, good, [](v1::EventBatch* b) { b->add_events(); }).find("contradicts"),
            std::string::npos);
  EXPECT_NE(refusal(3, good, [](v1::EventBatch* b) { b->set_packed("plain"); }).find("zstd"),
            std::string::npos);
  // One within the other.
  v1::EventBatch outer;
  outer.set_number(3);
  ASSERT_TRUE(Compress(good, outer.mutable_packed()).ok());
  EXPECT_NE(refusal(3, outer.SerializeAsString(), as_it_is).find("contradicts"), std::string::npos);
  // A frame cut or changed anywhere: refused or not, it is no more than a refusal.
  std::string frame;
  ASSERT_TRUE(Compress(good, &frame).ok());
  for (size_t i = 0; i < frame.size(); ++i) {
    for (const std::string& bad :
         {frame.substr(0, i), frame.substr(0, i) + '\x5a' + frame.substr(i + 1)}) {
      v1::ToAnalyzer message, got;
      message.mutable_batch()->set_number(3);
      message.mutable_batch()->set_packed(bad);
      std::string why;
      if (!Parse(message, &got, &why)) {
        EXPECT_FALSE(why.empty());
      }
    }
  }
}

TEST(IngestStreamTest, NonsenseIsNamed) {
  for (const std::string& text :
       {std::string("\xff\xff"), std::string(2 << 20, '\xff'), std::string(2 << 20, '\x12')}) {
    v1::ToAnalyzer message;
    std::string why;
    EXPECT_FALSE(Parse(text, &message, &why));
    EXPECT_NE(why.find("makes no sense"), std::string::npos) << why;
  }
}

// The manifest names every node and the verdict is about all of them, so neither may be made anew
// for each node that comes or goes.
TEST_F(FleetServerTest, ManyNodesComeAndGoTogether) {
  constexpr size_t kNodes = 300;
  Start();
  const auto nodes = [&] {
    std::ifstream file(base_ + "/sessions/j/manifest.json");
    const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    return json.is_object() ? json["nodes"] : nlohmann::json::array();
  };
  const auto connected = [&] {
    size_t count = 0;
    for (const auto& node : nodes()) count += node["connected"].get<bool>();
    return count;
  };
  const auto await = [&](size_t count) {
    for (int i = 0; i < 12'000 && (nodes().size() != kNodes || connected() != count); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(nodes().size(), kNodes);
    EXPECT_EQ(connected(), count);
  };
  std::vector<v1::Event> events = testing::TwoRanks(true).Take();
  std::vector<std::unique_ptr<Scripted>> all;
  uint32_t asked_to_gather = 0;
  for (size_t i = 0; i < kNodes; ++i) {
    all.push_back(std::make_unique<Scripted>(port_, "j", i + 1, "n" + std::to_string(i)));
    all.back()->Await(v1::ToCollector::kWelcome);
  }
  ASSERT_TRUE(all[0]->Send(1, events));
  await(kNodes);
  // Each batch costs the server a message: the more nodes, the fewer batches of each.
  while (asked_to_gather < kNodes / 2) {
    const v1::ToCollector message = all[1]->Await(v1::ToCollector::kRound);
    ASSERT_TRUE(message.has_round());
    asked_to_gather = message.round().gather_ms();
  }
  const uint64_t before = Revision("j");
  all.clear();
  AwaitNoStream();
  await(0);
  EXPECT_LT(Revision("j") - before, kNodes);
}

TEST_F(FleetServerTest, AMessageThatIsNotTakenIsRefusedByName) {
  Start();
  {
    Scripted node(port_, "j", 7, "n0");
    node.Await(v1::ToCollector::kWelcome);
    node.Send(1, std::vector<v1::Event>(kMaxMessageParts + 1));
    const std::string why = node.Await(v1::ToCollector::kRefused).refused().why();
    EXPECT_NE(why.find("parts"), std::string::npos) << why;
  }
  Scripted node(port_, "j", 7, "n0");  // that stream is over, and nothing else
  EXPECT_EQ(node.Await(v1::ToCollector::kWelcome).welcome().last_batch(), 0u);
}

TEST_F(FleetServerTest, NumbersOfVerdictsDoNotGoBack) {
  uint64_t last = 0;
  for (int life = 0; life < 3; ++life) {
    Start();
    for (uint64_t i = 0; i < 4; ++i) {  // each node that goes is a change
      Scripted node(port_, "j", 7 + i, "n" + std::to_string(i));
      const uint64_t next = node.Await(v1::ToCollector::kWelcome).welcome().last_batch() + 1;
      node.Send(next, next == 1 ? testing::RecordedJob(1).Take() : std::vector<v1::Event>{Mod(1)});
      node.AwaitAck(next);
    }
    AwaitNoStream();
    const uint64_t now = Revision("j");
    EXPECT_GT(now, last);
    if (life == 0) {
      EXPECT_GT(now, 2u);
    }
    last = now;
    server_.reset();
  }
}

TEST_F(FleetServerTest, AThousandRunsOfOneNameAreNotTheMost) {
  fs::create_directories(base_ + "/sessions/j");
  for (int i = 2; i <= 1100; ++i) {
    ASSERT_EQ(mkdir((base_ + "/sessions/j." + std::to_string(i)).c_str(), 0755), 0);
  }
  fs::create_directories(base_ + "/sessions/j.x");
  fs::create_directories(base_ + "/sessions/jj.9999");
  Start();
  Scripted node(port_, "j", 7, "n0");
  EXPECT_TRUE(node.Await(v1::ToCollector::kWelcome).has_welcome());
  ASSERT_EQ(server_->jobs().size(), 1u);
  EXPECT_EQ(server_->jobs()[0].folder, base_ + "/sessions/j.1101");
}

// A folder in the place of the server's, or of a job's, gets no file and loses none.
TEST_F(FleetServerTest, AFolderSwappedForALinkLosesNothing) {
  const std::string victim = base_ + "/victim";
  for (const char* inner : {"/a", "/b"}) {
    fs::create_directories(victim + inner);
    for (const char* name : {"manifest.json", "trace.gtrace", "verdict.json"})
      std::ofstream(victim + inner + "/" + name) << "precious";
  }
  const auto swap = [](const std::string& path, const std::string& target) {
    fs::rename(path, path + ".aside");
    fs::create_directory_symlink(target, path);
  };
  Start();
  {
    Scripted node(port_, "a", 7, "n0");
    node.Await(v1::ToCollector::kWelcome);
    swap(base_ + "/sessions/a", victim + "/a");
    node.Send(1, testing::RecordedJob(1).Take());
    node.AwaitAck(1);
    swap(base_ + "/sessions", victim);
    Scripted other(port_, "b", 7, "n0");
    other.Await(v1::ToCollector::kWelcome);
    other.Send(1, testing::RecordedJob(1).Take());
    other.AwaitAck(1);
  }
  AwaitNoStream();
  server_.reset();
  for (const char* inner : {"/a", "/b"}) {
    EXPECT_EQ(std::distance(fs::directory_iterator(victim + inner), {}), 3);
    for (const char* name : {"manifest.json", "trace.gtrace", "verdict.json"}) {
      std::string text;
      std::ifstream(victim + inner + "/" + name) >> text;
      EXPECT_EQ(text, "precious") << inner << "/" << name;
    }
  }
  EXPECT_TRUE(fs::exists(base_ + "/sessions.aside/a.aside/trace.gtrace"));
  EXPECT_TRUE(fs::exists(base_ + "/sessions.aside/b/trace.gtrace"));
}

TEST(JobFoldersTest, WhatCannotBeReadIsNamed) {
  std::vector<std::string> folders;
  const Status status = ListFolders("/nowhere/at/all", &folders);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/nowhere/at/all"), std::string::npos) << status.message();
  EXPECT_TRUE(folders.empty());
}

TEST(FolderName, IsNoPathAndNoOption) {
  EXPECT_EQ(FolderName("exp7"), "exp7");
  EXPECT_EQ(FolderName("-rf"), "job-rf");
  EXPECT_EQ(FolderName("--help"), "job--help");
  EXPECT_EQ(FolderName("../x"), "job.._x");
  EXPECT_EQ(FolderName(""), "job");
}

}  // namespace
}  // namespace gordian::analyzer
