#include "cli/status/status_source.h"

#include <grpcpp/grpcpp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <utility>

#include "analyzer/report/status_json.h"
#include "cli/analyze/recorded.h"
#include "cli/job/access_options.h"
#include "cli/job/job_identity.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "collector/uplink/analyzer_channel.h"
#include "common/config.h"
#include "common/json_text.h"
#include "gordian/v1/analysis.grpc.pb.h"

namespace gordian::cli {
namespace {

constexpr char kLatest[] = "latest";
constexpr std::chrono::seconds kPatience(5);
constexpr int kMaxMessageBytes = 64 << 20;

// A killed `gordian run` leaves a socket on which no process listens.
bool SomebodyListens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return false;
  }
  memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return false;
  }
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

std::string TextOf(const nlohmann::ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

StatusOr<nlohmann::ordered_json> ParseStatus(const std::string& text) {
  auto json = ParseJson<nlohmann::ordered_json>(text);
  if (!json.is_object() || TextOf(json, "schema") != analyzer::kStatusSchema) {
    return Status::DataLoss(std::string("the answer is not of schema ") + analyzer::kStatusSchema +
                            ": run the same version of gordian here and there");
  }
  return json;
}

// Null if `text` is no verdict, as of an analyzer that has none yet.
std::shared_ptr<const analyzer::VerdictDocument> Parsed(const std::string& text) {
  StatusOr<analyzer::VerdictDocument> document = analyzer::ParseVerdict(text);
  return document.ok()
             ? std::make_shared<const analyzer::VerdictDocument>(std::move(document).value())
             : nullptr;
}

// For a question that the analyzer has to answer soon.
void Prepare(const Access& access, grpc::ClientContext* context) {
  collector::ShowToken(access, context);
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

}  // namespace

void AddStatusOptions(CLI::App* verb, StatusFlags* flags) {
  verb->add_option("session", flags->session, "A session, or a .gtrace file (default: latest)")
      ->type_name("SESSION");
  verb->add_option("--analyzer", flags->analyzer, "Ask the gordian serve at this address instead")
      ->type_name("HOST:PORT");
  verb->add_option("--job", flags->job, "With --analyzer: name of the job (default: the latest)")
      ->type_name("NAME");
  AddAccessOptions(verb, &flags->access);
}

StatusOr<StatusSource> StatusSource::Open(const StatusFlags& flags) {
  StatusSource source;
  source.flags_ = flags;
  source.flags_.access =
      WithOptions(AccessFromEnvironment(ProcessEnvironment()), source.flags_.access);
  if (!flags.analyzer.empty()) {
    if (!flags.session.empty()) {
      return Status::InvalidArgument("give a session or --analyzer, not both");
    }
    GORDIAN_RETURN_IF_ERROR(
        CheckAddress("--analyzer", flags.analyzer, /*zero_port_allowed=*/false));
    source.title_ =
        (flags.job.empty() ? "latest job" : "job " + flags.job) + " at " + flags.analyzer;
    return source;
  }
  if (!flags.job.empty()) {
    return Status::InvalidArgument("--job needs --analyzer HOST:PORT");
  }
  std::string& session = source.flags_.session;
  if (session.empty()) {
    if (access(kLatest, F_OK) != 0) {
      return Status::NotFound("there is no session `latest` in this folder; name a session");
    }
    session = kLatest;
  }
  source.title_ = "session " + session;
  source.session_ = session;
  // The link `latest` may point to another session in a minute.
  char resolved[PATH_MAX];
  if (realpath(session.c_str(), resolved) != nullptr) {
    session = resolved;
  }
  return source;
}

StatusOr<SeenStatus> StatusSource::Look(bool with_verdict) {
  return flags_.analyzer.empty() ? LookAtSession(with_verdict)
                                 : LookAtAnalyzer(flags_.analyzer, flags_.job, with_verdict);
}

std::shared_ptr<const analyzer::VerdictDocument> StatusSource::VerdictAt(uint64_t revision,
                                                                         const Access& access,
                                                                         const std::string& job) {
  if (verdict_ != nullptr && verdict_revision_ == revision) {
    return verdict_;
  }
  grpc::ClientContext context;
  Prepare(access, &context);
  v1::GetVerdictRequest request;
  request.set_job(job);
  v1::GetVerdictResponse response;
  verdict_ = nullptr;
  if (v1::Analysis::NewStub(channel_)->GetVerdict(&context, request, &response).ok()) {
    verdict_ = Parsed(response.verdict_json());
    verdict_revision_ = response.revision();
  }
  return verdict_;
}

StatusOr<SeenStatus> StatusSource::LookAtAnalyzer(const std::string& target, const std::string& job,
                                                  bool with_verdict) {
  Access access;
  if (!target.starts_with("unix:")) {  // a session's own socket is its user's alone
    StatusOr<Access> read = ReadAccess(flags_.access);
    GORDIAN_RETURN_IF_ERROR(read.status());
    access = std::move(read).value();
  }
  if (channel_ == nullptr || channel_target_ != target) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    channel_ = grpc::CreateCustomChannel(target, collector::ChannelCredentials(access), arguments);
    channel_target_ = target;
  }
  grpc::ClientContext context;
  Prepare(access, &context);
  v1::GetStatusRequest request;
  request.set_job(job);
  v1::GetStatusResponse response;
  const grpc::Status answer =
      v1::Analysis::NewStub(channel_)->GetStatus(&context, request, &response);
  if (!answer.ok()) {
    const std::string what = "cannot ask the analyzer at " + target + ": " + answer.error_message();
    return answer.error_code() == grpc::StatusCode::NOT_FOUND ? Status::NotFound(what)
                                                              : Status::Unavailable(what);
  }
  StatusOr<nlohmann::ordered_json> json = ParseStatus(response.status_json());
  GORDIAN_RETURN_IF_ERROR(json.status());
  SeenStatus seen;
  seen.running = !json->contains("job_ended") || (*json)["job_ended"] != true;
  seen.live = true;
  seen.status = std::move(json).value();
  if (with_verdict) {
    seen.verdict = VerdictAt(response.revision(), access, job);
  }
  return seen;
}

StatusOr<SeenStatus> StatusSource::LookAtSession(bool with_verdict) {
  if (folder_ == nullptr) {
    if (StatusOr<OwnedFolder> opened = OwnedFolder::Adopt(flags_.session); opened.ok())
      folder_ = std::make_shared<const OwnedFolder>(std::move(opened).value());
  }
  const std::string socket =
      folder_ == nullptr ? ""
                         : "/proc/self/fd/" + std::to_string(folder_->fd()) + "/" + kStatusSocket;
  if (!socket.empty() && SomebodyListens(socket)) {
    StatusOr<SeenStatus> seen = LookAtAnalyzer("unix:" + socket, "", with_verdict);
    if (seen.ok()) {
      seen->running = true;  // its last status is still to come
      return seen;
    }
  } else if (IsRunning(flags_.session)) {
    const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(flags_.session);
    if (manifest.ok() && !TextOf(*manifest, "analyzer").empty()) {
      StatusOr<SeenStatus> seen =
          LookAtAnalyzer(TextOf(*manifest, "analyzer"), TextOf(*manifest, "job"), with_verdict);
      if (seen.ok()) {
        seen->running = true;
        return seen;
      }
    }
  }
  StatusOr<RecordedStatus> recorded = StatusAsRecorded(flags_.session);
  GORDIAN_RETURN_IF_ERROR(recorded.status());
  StatusOr<nlohmann::ordered_json> json = ParseStatus(recorded->json);
  GORDIAN_RETURN_IF_ERROR(json.status());
  SeenStatus seen;
  seen.status = std::move(json).value();
  seen.running = recorded->running;
  seen.note = recorded->note;
  if (with_verdict) {
    seen.verdict =
        Parsed(analyzer::VerdictToText(recorded->decided.verdict, recorded->decided.sites));
  }
  return seen;
}

}  // namespace gordian::cli
