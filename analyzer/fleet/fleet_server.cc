#include "analyzer/fleet/fleet_server.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "analyzer/access/access_key.h"
#include "analyzer/fleet/job_folders.h"
#include "analyzer/ingest/ingest_stream.h"
#include "analyzer/ingest/live_job.h"
#include "analyzer/session/session_files.h"
#include "common/clock.h"
#include "common/owned_folder.h"
#include "common/utf8.h"
#include "common/version.h"
#include "gordian/v1/analysis.grpc.pb.h"

namespace gordian::analyzer {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

// Memory that gRPC may use for all streams together: near its end gRPC resets streams, so it must
// be enough for the windows and buffers of as many as there may be.
constexpr size_t kTransportBytes = 256u << 20;
constexpr size_t kStreamBytes = 256u << 10;
// A stream's window, which gRPC otherwise enlarges up to megabytes for a peer that sends fast. At a
// round trip of 1 ms it lets 64 MiB a second through.
constexpr int kWindowBytes = 64 << 10;
// The keepalive finds a vanished peer after about the sum of these. A busy server reads the answer
// late, and must not take that for a peer that has vanished.
constexpr int kKeepaliveMs = 5000;
constexpr int kKeepaliveTimeoutMs = 15000;
constexpr int kLeastPingGapMs = 500;  // the fastest pings that a collector may send
constexpr std::chrono::milliseconds kHousekeeping(500);
constexpr size_t kMostJobs = 4096;  // known at once, in memory or by their folders
// Threads besides one per stream: for queries, and for streams that the server refuses.
constexpr int kFurtherThreads = 64;
constexpr size_t kMaxNameBytes = 200;

struct JobEntry {
  std::string name;
  std::string folder;
  bool closed = false;                 // for good
  std::vector<uint64_t> incarnations;  // of a job that is not in memory
  int streams = 0;                     // streams in Serve, or about to be
  SteadyClock::time_point idle_since = SteadyClock::now();

  std::mutex opening;  // held while `live` is made from the trace; precedes the server's mutex
  std::unique_ptr<LiveJob> live;
};

}  // namespace

class FleetServer::Impl final {
 public:
  ~Impl() { Stop(); }

  Status Start(FleetOptions options) {
    options_ = std::move(options);
    if (options_.gordian_version.empty()) options_.gordian_version = kVersion;
    std::error_code error;
    fs::create_directories(options_.sessions_dir, error);
    if (error) {
      return Status::Unavailable("cannot make the folder " + options_.sessions_dir + ": " +
                                 error.message());
    }
    // From here on by its descriptor, whatever its path leads to.
    StatusOr<OwnedFolder> held = OwnedFolder::Adopt(options_.sessions_dir);
    GORDIAN_RETURN_IF_ERROR(held.status());
    sessions_ = std::move(held).value();
    GORDIAN_RETURN_IF_ERROR(LockFolder());
    // gRPC says nothing of a file that it cannot use.
    if (options_.tls.on()) {
      GORDIAN_RETURN_IF_ERROR(access::MakeTlsContext(options_.tls).status());
    }
    guard_ = std::make_unique<StreamGuard>(options_.streams);
    FindOldJobs();

    grpc::ServerBuilder builder;
    int port = 0;
    // With SO_REUSEPORT two servers on one port would each get half of the nodes.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kLeastPingGapMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
    builder.AddListeningPort(options_.listen, Credentials(), &port);
    builder.RegisterService(&ingest_);
    builder.RegisterService(&analysis_);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetResourceQuota(
        grpc::ResourceQuota("gordian")
            .Resize(kTransportBytes + kStreamBytes * options_.streams.most)
            .SetMaxThreads(static_cast<int>(options_.streams.most) + kFurtherThreads));
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 1);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      server_.reset();
      entries_.clear();
      return Status::Unavailable("cannot listen on " + options_.listen);
    }
    port_ = port;
    housekeeper_ = std::thread([this] { Housekeep(); });
    return Status::Ok();
  }

  int port() const { return port_; }
  size_t streams() const { return guard_ == nullptr ? 0 : guard_->streams(); }

  std::vector<JobStatus> jobs() const {
    const std::lock_guard lock(mutex_);
    std::vector<JobStatus> all;
    for (const auto& entry : entries_) {
      JobStatus& status = all.emplace_back(JobStatus{.name = entry->name, .folder = entry->folder});
      if (entry->live == nullptr) continue;
      const Analysis::Stats stats = entry->live->analysis().stats();
      status.live = true;
      status.records = stats.records;
      status.dropped_events = stats.dropped_events;
    }
    return all;
  }

  bool LookAt(const std::string& folder, const std::function<void(Analysis&)>& look) {
    JobEntry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& one : entries_) {
        if (one->folder == folder && one->live != nullptr && !stopping_) entry = one.get();
      }
      if (entry == nullptr) return false;
      ++entry->streams;  // keeps the job in memory: resolving call sites may take long
    }
    look(entry->live->analysis());
    const std::lock_guard lock(mutex_);
    --entry->streams;
    wake_.notify_all();
    return true;
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(stopping_, true)) return;
      wake_.notify_all();
    }
    if (housekeeper_.joinable()) housekeeper_.join();
    if (server_ != nullptr) {
      // Shutdown waits for all streams, and a stream's answer waits for the end of its round.
      std::vector<LiveJob*> live;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& entry : entries_) {
          if (entry->live != nullptr) live.push_back(entry->live.get());
        }
      }
      for (LiveJob* const job : live) job->StopRounds();
      // No grace period: collectors keep what the server did not acknowledge, and connect to the
      // next one.
      server_->Shutdown(std::chrono::system_clock::now());
      server_->Wait();
      server_.reset();
    }
    for (const auto& entry : entries_) {
      if (entry->live != nullptr) entry->live->Close(entry->live->ingest().Over());
    }
    entries_.clear();
    if (folder_lock_ >= 0) close(std::exchange(folder_lock_, -1));
  }

 private:
  class AnalysisService final : public v1::Analysis::Service {
   public:
    explicit AnalysisService(Impl* server) : server_(server) {}
    grpc::Status GetVerdict(grpc::ServerContext* context, const v1::GetVerdictRequest* request,
                            v1::GetVerdictResponse* response) override {
      if (const std::string why = server_->RefusesViewer(*context, request->job()); !why.empty()) {
        return {grpc::StatusCode::UNAUTHENTICATED, why};
      }
      return server_->GetVerdict(*request, response);
    }
    grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                           v1::GetStatusResponse* response) override {
      if (const std::string why = server_->RefusesViewer(*context, request->job()); !why.empty()) {
        return {grpc::StatusCode::UNAUTHENTICATED, why};
      }
      return server_->GetStatus(*request, response);
    }

   private:
    Impl* const server_;
  };

  std::shared_ptr<grpc::ServerCredentials> Credentials() const {
    if (!options_.tls.on()) return grpc::InsecureServerCredentials();
    constexpr unsigned kRenewSeconds = 5;
    auto files = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        options_.tls.key, options_.tls.cert, options_.tls.ca, kRenewSeconds);
    grpc::experimental::TlsServerCredentialsOptions tls(std::move(files));
    tls.watch_identity_key_cert_pairs();
    if (!options_.tls.ca.empty()) {
      tls.watch_root_certs();
      tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    }
    return grpc::experimental::TlsServerCredentials(tls);
  }

  // "10.0.0.3" of "ipv4:10.0.0.3:41234".
  static std::string AddressOf(const grpc::ServerContext& context) {
    const std::string peer = context.peer();
    const size_t begin = peer.find(':'), end = peer.rfind(':');
    return begin == std::string::npos || begin == end ? peer
                                                      : peer.substr(begin + 1, end - begin - 1);
  }

  // Why the token that the peer shows is not enough; "": it is.
  std::string Refuses(const grpc::ServerContext& context,
                      const std::function<bool(std::string_view)>& may) {
    const std::string address = AddressOf(context);
    const auto shown = context.client_metadata().find("authorization");
    constexpr std::string_view kScheme = "Bearer ";
    std::string_view token;
    if (shown != context.client_metadata().end()) {
      token = {shown->second.data(), shown->second.size()};
    }
    if (!token.starts_with(kScheme)) {
      return "this analyzer wants a token: gordian token on its machine, then --token-file here";
    }
    if (may(token.substr(kScheme.size()))) return "";
    if (wrong_.Note(address) == access::WrongTokens::kMany) {
      Warn("many wrong tokens from " + address);
    }
    return "the token of this side does not let it do that";
  }

  // The first time, as far as remembered, that this address was refused for this job.
  bool IsNews(const std::string& address, const std::string& job) {
    constexpr size_t kMostRefused = 4096;
    const std::lock_guard lock(mutex_);
    if (refused_.size() >= kMostRefused) refused_.clear();
    return refused_.emplace(address, job).second;
  }

  // A node of a job may ask for that job.
  std::string RefusesViewer(const grpc::ServerContext& context, const std::string& job) {
    if (!options_.may_view) return "";
    return Refuses(context, [&](std::string_view token) {
      return options_.may_view(token) ||
             (!job.empty() && options_.may_write && options_.may_write(token, job));
    });
  }

  // The kernel releases the lock when the process ends, however it ends.
  Status LockFolder() {
    const std::string path = options_.sessions_dir + "/.lock";
    folder_lock_ = sessions_->OpenFile(".lock", O_RDWR | O_CREAT | O_NONBLOCK, kFileMode);
    if (folder_lock_ < 0) return Status::FromErrno(errno, "cannot write " + path);
    if (flock(folder_lock_, LOCK_EX | LOCK_NB) == 0) return Status::Ok();
    return Status::AlreadyExists("another gordian serve uses the folder " + options_.sessions_dir +
                                 "; name another one");
  }

  // Brings the job into memory, from its trace if it has one.
  StatusOr<std::unique_ptr<LiveJob>> OpenJob(const JobEntry& entry, bool resume_only) {
    StatusOr<OwnedFolder> held = sessions_->OpenFolder(LeafOf(entry.folder));
    GORDIAN_RETURN_IF_ERROR(held.status());
    const bool traced = faccessat(held->fd(), kTraceFile, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (!traced && resume_only) return std::unique_ptr<LiveJob>();
    LiveJobOptions options =
        OptionsOf(entry, std::make_shared<const OwnedFolder>(std::move(held).value()));
    return traced ? LiveJob::Resume(std::move(options)) : LiveJob::Create(std::move(options));
  }

  LiveJobOptions OptionsOf(const JobEntry& entry, std::shared_ptr<const OwnedFolder> held) {
    return {.name = entry.name,
            .folder = entry.folder,
            .held = std::move(held),
            .model = options_.model,
            .pace = options_.pace,
            .gordian_version = options_.gordian_version,
            .process_start = options_.process_start,
            .on_verdict = [this, name = entry.name,
                           folder = entry.folder](const VerdictUpdate& update) {
              if (options_.on_verdict) {
                options_.on_verdict({.job = name, .folder = folder, .update = update});
              }
            }};
  }

  void Warn(const std::string& text) {
    spdlog::warn("{}", text);
    if (options_.on_warning) options_.on_warning(text);
  }

  void FindOldJobs() {
    std::vector<std::string> folders;
    if (const Status status = ListFolders(options_.sessions_dir, &folders); !status.ok()) {
      Warn(status.message() + ": gordian serve does not continue the jobs in it");
    }
    for (const std::string& folder : folders) {
      StatusOr<JobManifest> manifest = ReadJobManifest(folder);
      if (!manifest.ok()) continue;  // not a folder of gordian's
      auto entry = std::make_unique<JobEntry>();
      entry->name = Printable(manifest->name);
      entry->folder = folder;
      entry->closed = manifest->closed;
      entry->incarnations = std::move(manifest->incarnations);
      if (!entry->closed) {
        StatusOr<std::unique_ptr<LiveJob>> live = OpenJob(*entry, /*resume_only=*/true);
        if (live.ok()) {
          entry->live = std::move(live).value();
        } else {
          Warn("job " + Shown(entry->name) + ": " + live.status().message() +
               "; gordian serve leaves it as it is");
          entry->closed = true;
          entry->incarnations.clear();
        }
      }
      entries_.push_back(std::move(entry));
    }
  }

  grpc::Status Collect(grpc::ServerContext* context, IngestStream* stream) {
    StreamGuard::Place place(guard_.get(), context);
    if (!place.refused().empty()) return Refuse(stream, place.refused());
    v1::ToAnalyzer message;
    std::string why;
    if (!ReadHello(stream, &place, options_.gordian_version, &message, &why)) {
      return grpc::Status::OK;
    }
    if (why.empty() && message.hello().gordian_version() != options_.gordian_version) {
      why = fmt::format(
          "this analyzer is gordian {}, the collector on {} is gordian {}: use the same gordian on "
          "both sides",
          options_.gordian_version, Shown(message.hello().host()),
          Shown(message.hello().gordian_version()));
    }
    const v1::Hello& hello = message.hello();
    if (why.empty() &&
        (hello.job().empty() || hello.job().size() > kMaxNameBytes || hello.incarnation() == 0)) {
      why = "a collector must name its job (gordian run --job NAME) and itself";
    }
    if (why.empty() && options_.may_write) {
      why = Refuses(*context,
                    [&](std::string_view token) { return options_.may_write(token, hello.job()); });
      // A node tries again and again.
      if (!why.empty() && IsNews(AddressOf(*context), hello.job())) {
        Warn("refused the node " + Shown(hello.node().empty() ? hello.host() : hello.node()) +
             " of job " + Shown(hello.job()) + " at " + AddressOf(*context) + ": " + why);
      }
    }
    // Reports show the name on terminals.
    if (why.empty() && Printable(hello.job()) != hello.job()) {
      why = "a job's name must not hold control characters: " + Shown(hello.job());
    }
    if (!why.empty()) return Refuse(stream, why);
    JobEntry* const entry = Find(hello, &why);
    if (entry == nullptr) return Refuse(stream, why);
    JobIngest& ingest = entry->live->ingest();
    JobIngest::Node* const node = ingest.Admit(hello, context, &why);
    grpc::Status status = grpc::Status::OK;
    if (node != nullptr) {
      entry->live->WriteManifest();
      status = ingest.Serve(stream, node, &place);
      entry->live->WriteManifest();
    } else {
      status = Refuse(stream, why);
    }
    const std::lock_guard lock(mutex_);
    entry->idle_since = SteadyClock::now();
    --entry->streams;
    wake_.notify_all();
    return status;
  }

  // Finds or makes the collector's job in memory and counts the stream. Returns null, with the
  // reason in *why, if the server takes no more.
  JobEntry* Find(const v1::Hello& hello, std::string* why) {
    JobEntry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) {
        *why = "this analyzer is shutting down";
        return nullptr;
      }
      for (const auto& one : entries_) {
        if (one->name == hello.job() && Knows(*one, hello.incarnation())) entry = one.get();
      }
      for (const auto& one : entries_) {
        if (entry != nullptr || one->name != hello.job()) continue;
        if (!one->closed && !(one->live != nullptr && one->live->ingest().Over())) {
          entry = one.get();
        }
      }
      if (entry == nullptr) {
        entry = NewEntryLocked(hello.job(), why);
        if (entry == nullptr) return nullptr;
      }
      ++entry->streams;  // keeps the job in memory
    }
    const std::lock_guard opening(entry->opening);
    if (entry->live != nullptr) return entry;
    StatusOr<std::unique_ptr<LiveJob>> live = OpenJob(*entry, /*resume_only=*/false);
    const std::lock_guard lock(mutex_);
    if (!live.ok()) {
      *why = "the analyzer cannot open this job's session: " + live.status().message();
      --entry->streams;
      return nullptr;
    }
    entry->live = std::move(live).value();
    entry->closed = false;
    return entry;
  }

  static bool Knows(const JobEntry& entry, uint64_t incarnation) {
    if (entry.live != nullptr) return entry.live->ingest().Knows(incarnation);
    return std::find(entry.incarnations.begin(), entry.incarnations.end(), incarnation) !=
           entry.incarnations.end();
  }

  JobEntry* NewEntryLocked(const std::string& job, std::string* why) {
    if (entries_.size() >= kMostJobs) {
      const auto oldest = std::find_if(entries_.begin(), entries_.end(), [](const auto& entry) {
        return entry->live == nullptr && entry->streams == 0;
      });
      if (oldest == entries_.end()) {
        *why = fmt::format("this analyzer already has {} jobs, its limit; start another one",
                           kMostJobs);
        return nullptr;
      }
      entries_.erase(oldest);  // its folder stays
    }
    StatusOr<std::string> name = MakeJobFolder(*sessions_, job);
    if (!name.ok()) {
      *why = "the analyzer cannot make this job's folder: " + name.status().message();
      return nullptr;
    }
    auto entry = std::make_unique<JobEntry>();
    entry->name = job;
    entry->folder = options_.sessions_dir + "/" + *name;
    entries_.push_back(std::move(entry));
    return entries_.back().get();
  }

  grpc::Status GetVerdict(const v1::GetVerdictRequest& request, v1::GetVerdictResponse* response) {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      const bool wanted = request.job().empty() || (*entry)->name == request.job();
      if (!wanted || (*entry)->live == nullptr) continue;
      uint64_t revision = 0;
      response->set_verdict_json((*entry)->live->analysis().CurrentJson(&revision));
      response->set_revision(revision);
      return grpc::Status::OK;
    }
    return {grpc::StatusCode::NOT_FOUND,
            request.job().empty() ? "no job runs here" : "no job of this name runs here"};
  }

  grpc::Status GetStatus(const v1::GetStatusRequest& request, v1::GetStatusResponse* response) {
    std::string folder;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& one : entries_) {
        const bool wanted = request.job().empty() || one->name == request.job();
        if (wanted && one->live != nullptr) folder = one->folder;
      }
    }
    const bool found = !folder.empty() && LookAt(folder, [&](Analysis& analysis) {
      uint64_t revision = 0;
      response->set_status_json(analysis.StatusJson(&revision));
      response->set_revision(revision);
    });
    if (found) return grpc::Status::OK;
    return {grpc::StatusCode::NOT_FOUND,
            request.job().empty() ? "no job runs here" : "no job of this name runs here"};
  }

  void Housekeep() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      wake_.wait_for(lock, kHousekeeping);
      std::vector<std::unique_ptr<LiveJob>> ended;
      for (const auto& entry : entries_) {
        if (entry->live == nullptr) continue;
        const bool over = entry->live->ingest().Over();
        const bool forgotten = SteadyClock::now() - entry->idle_since >= options_.forget_after;
        if (entry->streams == 0 && (over || forgotten)) {
          entry->incarnations.clear();
          for (const NodeStatus& node : entry->live->ingest().nodes()) {
            entry->incarnations.push_back(node.incarnation);
          }
          entry->closed = true;
          // Closes the job before a collector can ask for it again: a trace has one writer and no
          // readers.
          entry->live->StopRounds();
          entry->live->Close(/*for_good=*/true);
          ended.push_back(std::move(entry->live));
        } else {
          entry->live->WriteManifest();
        }
      }
      lock.unlock();
      ended.clear();  // slow, so without the lock
      lock.lock();
    }
  }

  FleetOptions options_;
  std::optional<OwnedFolder> sessions_;
  int folder_lock_ = -1;
  access::WrongTokens wrong_;
  std::set<std::pair<std::string, std::string>> refused_;  // address and job
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<JobEntry>> entries_;
  bool stopping_ = false;
  std::unique_ptr<StreamGuard> guard_;
  RawIngestService ingest_{[this](grpc::ServerContext* context, IngestStream* stream) {
    return Collect(context, stream);
  }};
  AnalysisService analysis_{this};
  std::unique_ptr<grpc::Server> server_;
  std::thread housekeeper_;
  int port_ = 0;
};

FleetServer::FleetServer() : impl_(std::make_unique<Impl>()) {}
FleetServer::~FleetServer() = default;
Status FleetServer::Start(FleetOptions options) { return impl_->Start(std::move(options)); }
int FleetServer::port() const { return impl_->port(); }
std::vector<FleetServer::JobStatus> FleetServer::jobs() const { return impl_->jobs(); }
bool FleetServer::LookAt(const std::string& folder, const std::function<void(Analysis&)>& look) {
  return impl_->LookAt(folder, look);
}
size_t FleetServer::streams() const { return impl_->streams(); }
void FleetServer::Stop() { impl_->Stop(); }

}  // namespace gordian::analyzer
