// A server for many nodes in this process, and collectors that do as they are told.
#ifndef GORDIAN_TESTS_UNIT_ANALYZER_FLEET_FLEET_SERVER_FIXTURE_H_
#define GORDIAN_TESTS_UNIT_ANALYZER_FLEET_FLEET_SERVER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/fleet/fleet_server.h"
#include "analyzer/ingest/job_ingest.h"
#include "common/log.h"
#include "common/trace_file.h"
#include "common/version.h"
#include "gordian/v1/analysis.grpc.pb.h"
#include "gordian/v1/ingest.grpc.pb.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::analyzer {

inline v1::ToAnalyzer HelloOf(const std::string& job, uint64_t incarnation) {
  v1::ToAnalyzer message;
  v1::Hello* const hello = message.mutable_hello();
  hello->set_protocol(kIngestProtocol);
  hello->set_gordian_version(kVersion);
  hello->set_host("h");
  hello->set_session("s");
  hello->set_job(job);
  hello->set_incarnation(incarnation);
  return message;
}

// A collector that does as it is told. One stream.
class Scripted {
 public:
  Scripted(int port, const std::string& job, uint64_t incarnation, const std::string& node,
           uint64_t backlog = 0, uint32_t nodes = 0)
      : stub_(v1::Ingest::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                      grpc::InsecureChannelCredentials()))),
        stream_(stub_->Collect(&context_)) {
    v1::ToAnalyzer message = HelloOf(job, incarnation);
    v1::Hello* const hello = message.mutable_hello();
    hello->set_node(node);
    hello->set_backlog(backlog);
    hello->set_nodes_expected(nodes);
    stream_->Write(message);
  }
  ~Scripted() {
    context_.TryCancel();
    v1::ToCollector message;
    while (stream_->Read(&message)) {
    }
    (void)stream_->Finish();
  }
  bool Read(v1::ToCollector* message) { return stream_->Read(message); }
  // Reads up to the first message of this kind.
  v1::ToCollector Await(v1::ToCollector::MessageCase kind) {
    v1::ToCollector message;
    while (stream_->Read(&message) && message.message_case() != kind) {
    }
    return message;
  }
  bool Send(uint64_t number, const std::vector<v1::Event>& events) {
    v1::ToAnalyzer message;
    message.mutable_batch()->set_number(number);
    for (const v1::Event& event : events) *message.mutable_batch()->add_events() = event;
    return stream_->Write(message);
  }
  void AwaitAck(uint64_t number) {
    while (Await(v1::ToCollector::kAck).ack().number() < number) {
    }
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAnalyzer, v1::ToCollector>> stream_;
};

inline v1::Event Mod(uint32_t number) {  // an event that says which one it is
  v1::Event event;
  event.mutable_module()->set_process(1);
  event.mutable_module()->set_start(number);
  event.mutable_module()->set_path(std::string(200, 'm'));
  return event;
}

class FleetServerTest : public ::testing::Test {
 protected:
  FleetServerTest() {
    SilenceLog();
    std::string pattern = ::testing::TempDir() + "/fleet.XXXXXX";
    base_ = mkdtemp(pattern.data());
  }
  ~FleetServerTest() override {
    server_.reset();
    std::filesystem::remove_all(base_);
  }

  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }
  void AwaitNoStream() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (server_->streams() > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(server_->streams(), 0u);
  }
  uint64_t Revision(const std::string& job) const {
    auto stub =
        v1::Analysis::NewStub(grpc::CreateChannel(Address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::GetVerdictRequest request;
    request.set_job(job);
    v1::GetVerdictResponse response;
    EXPECT_TRUE(stub->GetVerdict(&context, request, &response).ok());
    return response.revision();
  }

  void Start(FleetOptions options = {}) {
    options.listen = "127.0.0.1:0";
    options.sessions_dir = base_ + "/sessions";
    server_ = std::make_unique<FleetServer>();
    const Status status = server_->Start(std::move(options));
    ASSERT_TRUE(status.ok()) << status.ToString();
    port_ = server_->port();
  }

  struct Seen {
    std::vector<uint64_t> modules;  // of all nodes, as Mod numbers them
    std::map<uint32_t, std::vector<uint64_t>> marks;
    uint64_t away = 0, back = 0, lost = 0, joined = 0, ended = 0;
    std::string ending;
  };
  Seen Trace(const std::string& job) {
    Seen seen;
    auto reader = TraceReader::Open(base_ + "/sessions/" + job + "/trace.gtrace");
    if (!reader.ok()) {
      ADD_FAILURE() << reader.status().ToString();
      return seen;
    }
    while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
      for (const v1::Event& event : chunk->events()) {
        if (event.has_module()) seen.modules.push_back(event.module().start());
        if (event.has_batch_mark()) {
          seen.marks[event.batch_mark().node()].push_back(event.batch_mark().number());
        }
        seen.joined += event.has_node_joined();
        seen.ended += event.has_job_ended();
        seen.away += event.node_state().kind() == v1::NODE_STATE_KIND_AWAY;
        seen.back += event.node_state().kind() == v1::NODE_STATE_KIND_BACK;
        seen.lost += event.node_state().lost_batches();
      }
    }
    seen.ending = (*reader)->Describe();
    return seen;
  }

  static v1::Event End() {
    v1::Event event;
    event.mutable_job_ended()->set_kind(v1::EXIT_KIND_CODE);
    return event;
  }

  std::string base_;
  std::atomic<int> port_ = 0;  // of the server that runs now, another one after each Start
  std::unique_ptr<FleetServer> server_;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_TESTS_UNIT_ANALYZER_FLEET_FLEET_SERVER_FIXTURE_H_
