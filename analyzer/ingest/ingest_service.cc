#include "analyzer/ingest/ingest_service.h"

#include <errno.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "analyzer/ingest/ingest_stream.h"
#include "analyzer/ingest/job_ingest.h"
#include "analyzer/ingest/round_driver.h"
#include "common/version.h"
#include "gordian/v1/analysis.grpc.pb.h"

namespace gordian::analyzer {
namespace {

// Every collector belongs to the one job.
grpc::Status Collect(JobIngest* job, StreamGuard* guard, grpc::ServerContext* context,
                     IngestStream* stream) {
  StreamGuard::Place place(guard, context);
  if (!place.refused().empty()) return Refuse(stream, place.refused());
  v1::ToAnalyzer message;
  std::string why;
  if (!ReadHello(stream, &place, kVersion, &message, &why)) return grpc::Status::OK;
  JobIngest::Node* node = nullptr;
  if (why.empty()) node = job->Admit(message.hello(), context, &why);
  if (node == nullptr) return Refuse(stream, why);
  return job->Serve(stream, node, &place);
}

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

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    uint64_t revision = 0;
    response->set_status_json(analysis_->StatusJson(&revision));
    response->set_revision(revision);
    return grpc::Status::OK;
  }

 private:
  const Analysis* const analysis_;
};

// Tried beforehand: gRPC would take one address that fails for a failure of all.
bool CanListenOn(const OwnedFolder& folder, const std::string& name, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound =
      fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!bound) {
    spdlog::info("no socket for gordian status: {}/{}: {}", folder.path(), name, strerror(errno));
  }
  if (fd >= 0) close(fd);
  if (bound) folder.RemoveFile(name);
  return bound;
}

}  // namespace

class EmbeddedServer::Impl {
 public:
  ~Impl() { Stop(std::chrono::milliseconds(0)); }

  Status Start(ServerOptions options) {
    options.analysis.on_stacks_wanted = [this](const v1::StacksRequest& request) {
      job_->AskForStacks(request);
    };
    const std::shared_ptr<const OwnedFolder> folder = options.analysis.folder;
    analysis_ = std::make_unique<Analysis>(std::move(options.analysis));
    rounds_ = std::make_unique<RoundDriver>(analysis_.get(), options.pace);
    job_ = std::make_unique<JobIngest>(analysis_.get(), JobIngest::Options{});
    job_->Start(rounds_.get());
    guard_ = std::make_unique<StreamGuard>(options.streams);
    ingest_ = std::make_unique<RawIngestService>(
        [this](grpc::ServerContext* context, IngestStream* stream) {
          return Collect(job_.get(), guard_.get(), context, stream);
        });
    service_ = std::make_unique<AnalysisService>(analysis_.get());
    int port = 0;
    grpc::ServerBuilder builder;
    if (!options.listen.empty()) {
      builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
    }
    // The folder by its descriptor: what its path leads to later gets no socket and loses none.
    folder_ = folder;
    const std::string path =
        folder == nullptr ? ""
                          : "/proc/self/fd/" + std::to_string(folder->fd()) + "/" + options.socket;
    if (folder != nullptr && !options.socket.empty() &&
        CanListenOn(*folder, options.socket, path)) {
      socket_ = options.socket;
      builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    }
    builder.RegisterService(ingest_.get());
    builder.RegisterService(service_.get());
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    // One queue and one thread that waits on it: streams get a thread each while they live.
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 1);
    {
      // The socket takes other users' data as well as it answers questions: they may do neither.
      const mode_t before = umask(0177);
      server_ = builder.BuildAndStart();
      umask(before);
    }
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
    // Rounds go on during the grace: a last one may be on its way. But no round waits for it longer.
    server->Shutdown(std::chrono::system_clock::now() + grace);
    rounds_->Stop();
    server->Wait();
    server.reset();
    if (!socket_.empty()) folder_->RemoveFile(socket_);
    analysis_->Finish();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Analysis> analysis_;
  std::unique_ptr<RoundDriver> rounds_;
  std::unique_ptr<JobIngest> job_;
  std::unique_ptr<StreamGuard> guard_;
  std::unique_ptr<RawIngestService> ingest_;
  std::unique_ptr<AnalysisService> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::shared_ptr<const OwnedFolder> folder_;
  std::string socket_;  // in folder_
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

}  // namespace gordian::analyzer
