// The ingest service with a scripted collector on the other end of its in-process channel.
#include "analyzer/ingest/ingest_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <filesystem>
#include <mutex>
#include <thread>

#include "analyzer/report/verdict_json.h"
#include "common/log.h"
#include "common/read_file.h"
#include "common/trace_file.h"
#include "common/version.h"
#include "gordian/v1/analysis.grpc.pb.h"
#include "gordian/v1/ingest.grpc.pb.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::analyzer {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

v1::ToAnalyzer Hello(const std::string& host = "node0") {
  v1::ToAnalyzer message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol(kIngestProtocol);
  hello->set_gordian_version(kVersion);
  hello->set_host(host);
  hello->set_session("s");
  hello->set_command_line("./train --steps 10");
  hello->set_now_mono_ns(123);
  return message;
}

class FakeCollector {
 public:
  explicit FakeCollector(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::Ingest::NewStub(channel)), stream_(stub_->Collect(&context_)) {}

  bool Write(const v1::ToAnalyzer& message) { return stream_->Write(message); }
  bool Read(v1::ToCollector* message) { return stream_->Read(message); }

  bool Send(const std::vector<v1::Event>& events) {
    v1::ToAnalyzer message;
    message.mutable_batch()->set_number(++batch_);
    for (const v1::Event& event : events) *message.mutable_batch()->add_events() = event;
    return stream_->Write(message);
  }
  void SkipBatches(uint64_t count) { batch_ += count; }
  void RepeatLast() { --batch_; }

  // Answers the next `count` round requests from the job's books.
  int AnswerRounds(testing::RecordedJob* job, int count) {
    v1::ToCollector message;
    int answered = 0;
    while (answered < count && stream_->Read(&message)) {
      if (message.has_ack()) acked_ = message.ack().number();
      if (!message.has_round()) continue;
      ++answered;
      if (!Send({job->RoundEvent(message.round().round())})) break;
    }
    return answered;
  }

  grpc::Status Finish() {
    stream_->WritesDone();
    v1::ToCollector message;
    while (stream_->Read(&message)) {
      if (message.has_ack()) acked_ = message.ack().number();
    }
    return stream_->Finish();
  }
  void Cancel() { context_.TryCancel(); }
  uint64_t acked() const { return acked_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAnalyzer, v1::ToCollector>> stream_;
  uint64_t batch_ = 0;
  uint64_t acked_ = 0;
};

class IngestServiceTest : public ::testing::Test {
 protected:
  IngestServiceTest() {
    SilenceLog();
    std::string pattern = ::testing::TempDir() + "/ingest.XXXXXX";
    session_ = mkdtemp(pattern.data());
  }
  ~IngestServiceTest() override {
    server_.Stop();  // it writes into the folder
    fs::remove_all(session_);
  }

  void Start(ServerOptions options = {}) {
    options.analysis.session_dir = session_;
    options.analysis.on_verdict = [this](const VerdictUpdate& update) {
      std::lock_guard lock(mutex_);
      if (update.verdict.main.verdict == model::VerdictKind::kDeadlock && !deadlock_seen_) {
        deadlock_seen_ = true;
        deadlock_in_file_ = fs::exists(session_ + "/verdict.json");
        seconds_ = update.seconds_to_verdict;
      }
    };
    const Status status = server_.Start(std::move(options));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  bool DeadlockSeen() {
    std::lock_guard lock(mutex_);
    return deadlock_seen_;
  }

  static uint64_t NowMonoNs() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }

  std::string session_;
  EmbeddedServer server_;
  std::mutex mutex_;
  bool deadlock_seen_ = false;
  bool deadlock_in_file_ = false;
  double seconds_ = 0;
};

TEST_F(IngestServiceTest, AHangIsProvenSoon) {
  Start();
  FakeCollector collector(server_.InProcessChannel());
  ASSERT_TRUE(collector.Write(Hello()));
  testing::RecordedJob job = testing::TwoRanks(true);
  const Clock::time_point begin = Clock::now();
  ASSERT_TRUE(collector.Send(job.Take()));
  int rounds = 0;
  while (!DeadlockSeen() && rounds < 12) rounds += collector.AnswerRounds(&job, 1);
  // The last answer may still be on its way through the analyzer.
  while (!DeadlockSeen() && Clock::now() - begin < milliseconds(5000)) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(DeadlockSeen());
  EXPECT_TRUE(deadlock_in_file_);
  EXPECT_LT(Clock::now() - begin, milliseconds(4000));  // far below what makes a suspicion
  EXPECT_GE(rounds, 2);

  // People get the same bytes that the file has.
  auto stub = v1::Analysis::NewStub(server_.InProcessChannel());
  grpc::ClientContext context;
  v1::GetVerdictResponse response;
  ASSERT_TRUE(stub->GetVerdict(&context, {}, &response).ok());
  StatusOr<VerdictDocument> file = ReadVerdictFile(session_ + "/verdict.json");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(response.verdict_json(), *ReadWholeFile(session_ + "/verdict.json"));
  EXPECT_EQ(file->closed, false);
  EXPECT_GE(response.revision(), 1u);

  job.EndJob(1);
  ASSERT_TRUE(collector.Send(job.Take()));
  EXPECT_TRUE(collector.Finish().ok());
  EXPECT_GE(collector.acked(), 3u);
  server_.Stop();

  // What was sent is in the trace, in order, rounds included; it replays to the same verdict.
  StatusOr<AnalysisResult> replayed = AnalyzeTrace(session_);
  ASSERT_TRUE(replayed.ok()) << replayed.status().ToString();
  EXPECT_TRUE(replayed->complete);
  EXPECT_EQ(replayed->header.command_line(), "./train --steps 10");
  file = ReadVerdictFile(session_ + "/verdict.json");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(VerdictToText(replayed->verdict, replayed->sites()),
            VerdictToText(file->verdict, file->sites()));
}

TEST_F(IngestServiceTest, RoundsNeverOverlap) {
  ServerOptions options;
  options.pace = {.busy = milliseconds(20),
                  .confirming = milliseconds(20),
                  .idle = milliseconds(20),
                  .round_timeout = milliseconds(5000)};
  Start(options);
  FakeCollector collector(server_.InProcessChannel());
  ASSERT_TRUE(collector.Write(Hello()));
  testing::RecordedJob job = testing::TwoRanks(true);
  ASSERT_TRUE(collector.Send(job.Take()));
  Clock::time_point answered = Clock::now() - milliseconds(1000);
  uint64_t last = 0;
  v1::ToCollector message;
  for (int rounds = 0; rounds < 8;) {
    ASSERT_TRUE(collector.Read(&message));
    if (!message.has_round()) continue;
    ++rounds;
    EXPECT_EQ(message.round().round(), last + 1);
    EXPECT_GE(Clock::now() - answered, milliseconds(20));
    last = message.round().round();
    std::this_thread::sleep_for(milliseconds(60));  // longer than the pace: it must wait for us
    answered = Clock::now();
    ASSERT_TRUE(collector.Send({job.RoundEvent(last)}));
  }
  EXPECT_FALSE(collector.Finish().error_code() == grpc::StatusCode::INTERNAL);
}

TEST_F(IngestServiceTest, AHealthyJobFinishesWithItsVerdictInPlace) {
  Start();
  FakeCollector collector(server_.InProcessChannel());
  ASSERT_TRUE(collector.Write(Hello()));
  testing::RecordedJob job = testing::TwoRanks(false);
  ASSERT_TRUE(collector.Send(job.Take()));
  collector.AnswerRounds(&job, 2);
  for (int rank : {0, 1}) job.EndProcess(rank, 0);
  job.EndJob(0);
  ASSERT_TRUE(collector.Send(job.Take()));
  EXPECT_TRUE(collector.Finish().ok());
  // The end of the stream is the promise: nobody has to wait for Stop.
  StatusOr<VerdictDocument> document = ReadVerdictFile(session_ + "/verdict.json");
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  EXPECT_EQ(document->verdict.main.verdict, model::VerdictKind::kFinished);
  EXPECT_TRUE(document->verdict.main.evidence.not_visible.empty());
  server_.Stop();
}

TEST_F(IngestServiceTest, RefusesAnotherProtocolInOneLine) {
  Start();
  FakeCollector collector(server_.InProcessChannel());
  v1::ToAnalyzer hello = Hello("node\n7");
  hello.mutable_hello()->set_protocol(kIngestProtocol + 1);
  ASSERT_TRUE(collector.Write(hello));
  v1::ToCollector message;
  ASSERT_TRUE(collector.Read(&message));
  ASSERT_TRUE(message.has_refused());
  EXPECT_NE(message.refused().why().find("protocol"), std::string::npos);
  EXPECT_EQ(message.refused().why().find('\n'), std::string::npos);
  const grpc::Status status = collector.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(IngestServiceTest, RefusesAStreamWithoutHello) {
  Start();
  FakeCollector collector(server_.InProcessChannel());
  ASSERT_TRUE(collector.Send({}));
  v1::ToCollector message;
  ASSERT_TRUE(collector.Read(&message));
  EXPECT_TRUE(message.has_refused());
  EXPECT_FALSE(collector.Finish().ok());
}

TEST_F(IngestServiceTest, RefusesTheSameNodeTwiceAndAnotherVersion) {
  Start();
  FakeCollector first(server_.InProcessChannel());
  ASSERT_TRUE(first.Write(Hello()));
  testing::RecordedJob job(1);
  ASSERT_TRUE(first.Send(job.Take()));
  v1::ToCollector message;
  ASSERT_TRUE(first.Read(&message));  // it is in

  FakeCollector same(server_.InProcessChannel());
  ASSERT_TRUE(same.Write(Hello()));
  ASSERT_TRUE(same.Read(&message));
  EXPECT_TRUE(message.has_refused());
  EXPECT_FALSE(same.Finish().ok());

  FakeCollector older(server_.InProcessChannel());
  v1::ToAnalyzer hello = Hello("node1");
  hello.mutable_hello()->set_gordian_version("0.0.1");
  ASSERT_TRUE(older.Write(hello));
  ASSERT_TRUE(older.Read(&message));
  ASSERT_TRUE(message.has_refused());
  EXPECT_NE(message.refused().why().find("0.0.1"), std::string::npos);
  EXPECT_FALSE(older.Finish().ok());
}

TEST_F(IngestServiceTest, NodesWithTheSameProcessNumbersAreKeptApart) {
  Start();
  FakeCollector a(server_.InProcessChannel()), b(server_.InProcessChannel());
  testing::RecordedJob job_a(1), job_b(1);
  ASSERT_TRUE(a.Write(Hello("node0")));
  ASSERT_TRUE(a.Send(job_a.Take()));
  ASSERT_TRUE(b.Write(Hello("node1")));
  ASSERT_TRUE(b.Send(job_b.Take()));
  v1::ToCollector message;
  while (b.Read(&message) && !message.has_ack()) {
  }
  while (a.Read(&message) && !message.has_ack()) {
  }
  job_a.EndJob(0);
  job_b.EndJob(0);
  EXPECT_EQ(server_.analysis()->stats().dropped_events, 0u);
  ASSERT_TRUE(a.Send(job_a.Take()));
  EXPECT_TRUE(a.Finish().ok());
  EXPECT_FALSE(server_.analysis()->stats().job_ended);  // not on all nodes
  ASSERT_TRUE(b.Send(job_b.Take()));
  EXPECT_TRUE(b.Finish().ok());
  EXPECT_TRUE(server_.analysis()->stats().job_ended);
  EXPECT_EQ(server_.analysis()->stats().dropped_events, 0u);
  server_.Stop();
}

TEST_F(IngestServiceTest, ACollectorThatDiesIsNamed) {
  Start();
  {
    FakeCollector collector(server_.InProcessChannel());
    ASSERT_TRUE(collector.Write(Hello()));
    testing::RecordedJob job = testing::TwoRanks(true);
    ASSERT_TRUE(collector.Send(job.Take()));
    collector.AnswerRounds(&job, 1);
    collector.Cancel();
    collector.Finish();
  }
  server_.Stop();
  StatusOr<VerdictDocument> document = ReadVerdictFile(session_ + "/verdict.json");
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  ASSERT_FALSE(document->verdict.main.evidence.not_visible.empty());
  bool named = false;
  for (const std::string& what : document->verdict.main.evidence.not_visible) {
    named |= what.find("collector on node0 went away") != std::string::npos;
  }
  EXPECT_TRUE(named);
}

TEST_F(IngestServiceTest, RepeatedBatchesAreSkippedAndMissingOnesNamed) {
  Start();
  FakeCollector collector(server_.InProcessChannel());
  ASSERT_TRUE(collector.Write(Hello()));
  testing::RecordedJob job = testing::TwoRanks(false);
  const std::vector<v1::Event> events = job.Take();
  ASSERT_TRUE(collector.Send(events));
  collector.RepeatLast();
  ASSERT_TRUE(collector.Send(events));
  collector.SkipBatches(2);
  job.EndJob(0);
  ASSERT_TRUE(collector.Send(job.Take()));
  EXPECT_TRUE(collector.Finish().ok());
  EXPECT_EQ(server_.analysis()->stats().events, events.size() + 1);
  const std::vector<std::string> not_visible =
      server_.analysis()->Current().main.evidence.not_visible;
  ASSERT_FALSE(not_visible.empty());
  EXPECT_NE(not_visible[0].find("2 batches"), std::string::npos) << not_visible[0];
}

TEST_F(IngestServiceTest, StopsWithStreamsOpenAndInAnyState) {
  Start();
  auto collector = std::make_unique<FakeCollector>(server_.InProcessChannel());
  ASSERT_TRUE(collector->Write(Hello()));
  testing::RecordedJob job = testing::TwoRanks(true);
  ASSERT_TRUE(collector->Send(job.Take()));
  v1::ToCollector message;
  while (collector->Read(&message) && !message.has_round()) {  // asked, and never answers
  }
  const Clock::time_point begin = Clock::now();
  server_.Stop(milliseconds(100));
  EXPECT_LT(Clock::now() - begin, milliseconds(2000));
  EXPECT_EQ(server_.InProcessChannel(), nullptr);
  EXPECT_FALSE(collector->Finish().ok());
  // The trace is closed in order all the same.
  StatusOr<AnalysisResult> result = AnalyzeTrace(session_);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_TRUE(result->complete);
}

TEST_F(IngestServiceTest, ListensWhereItIsTold) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  Start(options);
  ASSERT_GT(server_.port(), 0);
  const std::string address = "127.0.0.1:" + std::to_string(server_.port());
  FakeCollector collector(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  ASSERT_TRUE(collector.Write(Hello()));
  testing::RecordedJob job(1);
  job.EndJob(0);
  ASSERT_TRUE(collector.Send(job.Take()));
  EXPECT_TRUE(collector.Finish().ok());

  EmbeddedServer second;
  ServerOptions taken;
  taken.listen = "not an address";
  const Status status = second.Start(taken);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("not an address"), std::string::npos);
}

// An analyzer with nothing to do must not take time from the job: it shares its cores.
TEST_F(IngestServiceTest, CostsNextToNothingWhenIdle) {
  Start();
  FakeCollector collector(server_.InProcessChannel());
  ASSERT_TRUE(collector.Write(Hello()));
  testing::RecordedJob job = testing::TwoRanks(false);
  ASSERT_TRUE(collector.Send(job.Take()));
  auto cpu_ns = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
  };
  collector.AnswerRounds(&job, 1);
  const long long before = cpu_ns();
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(collector.AnswerRounds(&job, 2), 2);  // one every 500 ms
  const auto wall = Clock::now() - begin;
  EXPECT_GE(wall, milliseconds(900));
  EXPECT_LT(cpu_ns() - before, 100'000'000) << "of " << wall / milliseconds(1) << " ms";
}

}  // namespace
}  // namespace gordian::analyzer
