#include "analyzer/server/ingest_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "analyzer/server/round_driver.h"
#include "common/version.h"
#include "gordian/v1/analysis.grpc.pb.h"
#include "gordian/v1/ingest.grpc.pb.h"

namespace gordian::server {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr uint32_t kMaxNodes = 4096;
// Process numbers are unique at one node. Ours are unique in the job: node k's start at k times
// this.
constexpr uint32_t kProcessesOfNode = 1u << 20;
constexpr size_t kMaxShownText = 200;

std::string Shown(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, kMaxShownText)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out;
}

using Stream = grpc::ServerReaderWriter<v1::ToCollector, v1::ToAnalyzer>;

// What goes to a collector, written by a thread of its own: a write may wait until the other side
// reads, and neither the rounds of other nodes nor the reading of this one may wait for that. Holds
// one request and one number, however slow the other side is.
class Outbox {
 public:
  explicit Outbox(Stream* stream) : stream_(stream), thread_([this] { Run(); }) {}
  ~Outbox() { Finish(); }

  void Request(uint64_t round) {
    std::lock_guard lock(mutex_);
    round_ = round;
    changed_.notify_all();
  }
  void Acknowledge(uint64_t batch) {
    std::lock_guard lock(mutex_);
    acknowledged_ = batch;
    changed_.notify_all();
  }
  // Writes what is left, apart from requests, which nobody would answer.
  void Finish() {
    {
      std::lock_guard lock(mutex_);
      finish_ = true;
      round_ = 0;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    uint64_t written = 0;
    while (true) {
      changed_.wait(lock, [&] { return finish_ || round_ != 0 || acknowledged_ != written; });
      v1::ToCollector message;
      if (round_ != 0) {  // first: time counts
        message.mutable_round()->set_round(std::exchange(round_, 0));
      } else if (acknowledged_ != written) {
        written = acknowledged_;
        message.mutable_ack()->set_number(written);
      } else {
        return;
      }
      lock.unlock();
      stream_->Write(message);  // a failure shows in the reader's Read
      lock.lock();
    }
  }

  Stream* const stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t round_ = 0;
  uint64_t acknowledged_ = 0;
  bool finish_ = false;
  std::thread thread_;
};

// A node for as long as the job lives: a collector that comes back goes on where it was.
struct NodeRecord {
  uint32_t index = 0;
  std::string host;
  uint64_t last_batch = 0;
  bool connected = false;
  bool job_ended = false;
};

class IngestService final : public v1::Ingest::Service {
 public:
  IngestService(Analysis* analysis, RoundDriver* rounds) : analysis_(analysis), rounds_(rounds) {}

  grpc::Status Collect(grpc::ServerContext*, Stream* stream) override {
    v1::ToAnalyzer message;
    if (!stream->Read(&message)) return grpc::Status::OK;  // came and went
    std::string why;
    NodeRecord* node = nullptr;
    if (!message.has_hello()) {
      why = "the first message must be Hello";
    } else {
      node = Admit(message.hello(), &why);
    }
    if (node == nullptr) {
      spdlog::warn("ingest: refused: {}", why);
      v1::ToCollector refusal;
      refusal.mutable_refused()->set_why(why);
      stream->Write(refusal);
      return {grpc::StatusCode::FAILED_PRECONDITION, why};
    }
    Serve(stream, node);
    return grpc::Status::OK;
  }

 private:
  NodeRecord* Admit(const v1::Hello& hello, std::string* why) {
    if (hello.protocol() != kIngestProtocol) {
      *why = fmt::format(
          "this analyzer (gordian {}) speaks protocol {}, the collector on {} (gordian {}) speaks "
          "{}: use the same gordian on both sides",
          kVersion, kIngestProtocol, Shown(hello.host()), Shown(hello.gordian_version()),
          hello.protocol());
      return nullptr;
    }
    std::lock_guard lock(mutex_);
    // Calls are numbered by the version that recorded them.
    if (!version_.empty() && version_ != hello.gordian_version()) {
      *why = fmt::format("the collector on {} is gordian {}, the job's others are gordian {}",
                         Shown(hello.host()), Shown(hello.gordian_version()), Shown(version_));
      return nullptr;
    }
    const auto key = std::make_pair(hello.host(), hello.session());
    auto found = nodes_.find(key);
    if (found != nodes_.end() && found->second.connected) {
      *why = fmt::format("a collector of session \"{}\" on {} is connected already",
                         Shown(hello.session()), Shown(hello.host()));
      return nullptr;
    }
    if (found == nodes_.end()) {
      if (nodes_.size() >= kMaxNodes) {
        *why = fmt::format("{} nodes are the most that one analyzer takes", kMaxNodes);
        return nullptr;
      }
      const auto index = static_cast<uint32_t>(nodes_.size());
      found = nodes_.emplace(key, NodeRecord{.index = index, .host = Shown(hello.host())}).first;
    }
    version_ = hello.gordian_version();
    found->second.connected = true;
    spdlog::info("ingest: node {} is {}, session \"{}\"", found->second.index, found->second.host,
                 Shown(hello.session()));

    v1::TraceHeader header;
    header.set_gordian_version(hello.gordian_version());
    header.set_command_line(hello.command_line());
    header.set_host(hello.host());
    header.set_start_mono_ns(hello.now_mono_ns());
    header.set_start_real_ns(hello.now_real_ns());
    *header.mutable_environment() = hello.environment();
    analysis_->Begin(header);
    return &found->second;
  }

  void Serve(Stream* stream, NodeRecord* node) {
    Outbox outbox(stream);
    rounds_->Join(node->index, [&outbox](uint64_t round) { outbox.Request(round); });
    v1::ToAnalyzer message;
    while (stream->Read(&message)) {
      if (!message.has_batch()) continue;  // of a later version, or a second Hello
      bool news = false;
      if (!TakeBatch(message.mutable_batch(), node, &news)) continue;
      if (news) rounds_->Poke();
      outbox.Acknowledge(node->last_batch);
    }
    rounds_->Leave(node->index);
    outbox.Finish();
    std::lock_guard lock(mutex_);
    node->connected = false;
    if (!node->job_ended) {
      analysis_->AddNotVisible("the collector on " + node->host +
                               " went away before the job ended");
    }
    spdlog::info("ingest: node {} ({}) has left", node->index, node->host);
  }

  // False: a repetition of what a lost connection had delivered already. *news: more than an answer
  // to a round was in it.
  bool TakeBatch(v1::EventBatch* batch, NodeRecord* node, bool* news) {
    if (batch->number() <= node->last_batch) return false;
    if (batch->number() != node->last_batch + 1) {
      analysis_->AddNotVisible(fmt::format("{} batches of events from {} are missing",
                                           batch->number() - node->last_batch - 1, node->host));
    }
    node->last_batch = batch->number();
    for (v1::Event& event : *batch->mutable_events()) {
      if (!MakeUnique(&event, node->index)) continue;
      if (event.event_case() == v1::Event::kRound) {
        rounds_->Answer(node->index, std::move(*event.mutable_round()));
        continue;
      }
      *news = true;
      if (event.event_case() == v1::Event::kJobEnded) {
        if (AllEnded(node, event.job_ended())) {
          *event.mutable_job_ended() = job_ended_;
          analysis_->OnEvent(event);
        }
      } else {
        analysis_->OnEvent(event);
      }
    }
    return true;
  }

  // The job has ended when it has at every node; the first bad end is the job's.
  bool AllEnded(NodeRecord* node, const v1::JobEnded& ended) {
    std::lock_guard lock(mutex_);
    const bool bad = job_ended_.kind() != v1::EXIT_KIND_CODE || job_ended_.exit_value() != 0;
    if (!any_ended_ || !bad) job_ended_ = ended;
    any_ended_ = true;
    node->job_ended = true;
    for (const auto& [key, other] : nodes_) {
      if (other.connected && !other.job_ended) return false;
    }
    return true;
  }

  static bool MakeUnique(uint32_t* process, uint32_t node) {
    if (*process >= kProcessesOfNode) return false;
    *process += node * kProcessesOfNode;
    return true;
  }

  template <typename Message>
  static bool Renumber(Message* message, uint32_t node) {
    uint32_t process = message->process();
    if (!MakeUnique(&process, node)) return false;
    message->set_process(process);
    return true;
  }

  static bool MakeUnique(v1::Event* event, uint32_t node) {
    switch (event->event_case()) {
      case v1::Event::kProcessStarted:
        return Renumber(event->mutable_process_started(), node);
      case v1::Event::kProcessEnded:
        return Renumber(event->mutable_process_ended(), node);
      case v1::Event::kModule:
        return Renumber(event->mutable_module(), node);
      case v1::Event::kRecord:
        return Renumber(event->mutable_record(), node);
      case v1::Event::kRound:
        for (v1::ProcessState& state : *event->mutable_round()->mutable_processes()) {
          if (!Renumber(&state, node)) return false;
        }
        return true;
      default:
        return true;
    }
  }

  Analysis* const analysis_;
  RoundDriver* const rounds_;
  std::mutex mutex_;
  std::string version_;
  std::map<std::pair<std::string, std::string>, NodeRecord> nodes_;  // never erased: stable
  bool any_ended_ = false;
  v1::JobEnded job_ended_;
};

class AnalysisService final : public v1::Analysis::Service {
 public:
  explicit AnalysisService(const Analysis* analysis) : analysis_(analysis) {}

  grpc::Status GetVerdict(grpc::ServerContext*, const v1::GetVerdictRequest*,
                          v1::GetVerdictResponse* response) override {
    uint64_t revision = 0;
    response->set_verdict_json(analysis_->CurrentJson(&revision));
    response->set_revision(revision);
    return grpc::Status::OK;
  }

 private:
  const Analysis* const analysis_;
};

}  // namespace

class EmbeddedServer::Impl {
 public:
  ~Impl() { Stop(std::chrono::milliseconds(0)); }

  Status Start(ServerOptions options) {
    analysis_ = std::make_unique<Analysis>(std::move(options.analysis));
    rounds_ = std::make_unique<RoundDriver>(analysis_.get(), options.pace);
    ingest_ = std::make_unique<IngestService>(analysis_.get(), rounds_.get());
    service_ = std::make_unique<AnalysisService>(analysis_.get());
    grpc::ServerBuilder builder;
    int port = 0;
    if (!options.listen.empty()) {
      builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
    }
    builder.RegisterService(ingest_.get());
    builder.RegisterService(service_.get());
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    // One queue and one thread that waits on it: streams get a thread each while they live.
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 1);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || (!options.listen.empty() && port == 0)) {
      rounds_->Stop();
      server_.reset();
      return Status::Unavailable("cannot listen on " + options.listen);
    }
    port_ = port;
    return Status::Ok();
  }

  std::shared_ptr<grpc::Channel> InProcessChannel() {
    std::lock_guard lock(mutex_);
    if (server_ == nullptr) return nullptr;
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    return server_->InProcessChannel(arguments);
  }

  int port() const { return port_; }
  Analysis* analysis() { return analysis_.get(); }

  void Stop(std::chrono::milliseconds grace) {
    std::unique_ptr<grpc::Server> server;
    {
      std::lock_guard lock(mutex_);
      server = std::move(server_);
    }
    if (server == nullptr) return;
    // Rounds go on during the grace: a last one may be on its way. But nobody waits for it longer.
    server->Shutdown(std::chrono::system_clock::now() + grace);
    rounds_->Stop();
    server->Wait();
    server.reset();
    analysis_->Finish();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Analysis> analysis_;
  std::unique_ptr<RoundDriver> rounds_;
  std::unique_ptr<IngestService> ingest_;
  std::unique_ptr<AnalysisService> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

EmbeddedServer::EmbeddedServer() : impl_(std::make_unique<Impl>()) {}
EmbeddedServer::~EmbeddedServer() = default;
Status EmbeddedServer::Start(ServerOptions options) { return impl_->Start(std::move(options)); }
std::shared_ptr<grpc::Channel> EmbeddedServer::InProcessChannel() {
  return impl_->InProcessChannel();
}
int EmbeddedServer::port() const { return impl_->port(); }
Analysis* EmbeddedServer::analysis() { return impl_->analysis(); }
void EmbeddedServer::Stop(std::chrono::milliseconds grace) { impl_->Stop(grace); }

}  // namespace gordian::server
