#include "analyzer/web/gateway.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "analyzer/http/gzip.h"
#include "analyzer/metrics/prometheus_text.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/web/http_server.h"
#include "common/json_text.h"
#include "common/version.h"

namespace gordian::web {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

// Changes that come so close together are one event.
constexpr milliseconds kGather(50);
constexpr char kJobPath[] = "/api/v1/jobs/";
constexpr std::string_view kIncidentPath = "/api/v1/incidents/", kAcknowledge = "/acknowledge";
constexpr char kIncidentsKey[] = "";  // no job has this name
constexpr char kJsonType[] = "application/json; charset=utf-8";

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool AcknowledgesAt(std::string_view path) {
  return path.starts_with(kIncidentPath) && path.ends_with(kAcknowledge) &&
         path.size() > kIncidentPath.size() + kAcknowledge.size();
}

HttpResponse Refusal(int status, const std::string& why) {
  return {.status = status, .body = std::to_string(status) + ": " + why + "\n"};
}

}  // namespace

class Gateway::Impl {
 public:
  Status Start(GatewayOptions options) {
    options_ = std::move(options);
    if (options_.metrics == nullptr) options_.metrics = std::make_shared<JobMetrics>(options_.jobs);
    LookAround();  // before the first viewer
    HttpOptions http;
    http.listen = options_.listen;
    http.tls = options_.tls;
    http.may_view = options_.may_view;
    http.any_host = options_.any_host;
    http.takes_post = AcknowledgesAt;
    http.answer = [this](const HttpRequest& request) { return Answer(request); };
    http.on_refused = options_.on_refused;
    GORDIAN_RETURN_IF_ERROR(http_.Start(std::move(http)));
    looker_ = std::thread([this] { Run(); });
    return Status::Ok();
  }

  int port() const { return http_.port(); }

  metrics::HttpMetrics Http() const {
    HttpServer::Stats stats = http_.stats();
    return {.viewers = stats.viewers, .answers = std::move(stats.answers)};
  }

  void Wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    wake_.notify_all();
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_all();
    }
    if (looker_.joinable()) {
      looker_.join();
      LookAround();  // tells viewers how it ended
    }
    http_.Stop();
  }

 private:
  // What was said of a job.
  struct Said {
    uint64_t version = 0;
    uint64_t revision = 0;
    uint64_t changes = 0;
    bool live = false;
    ordered_json json;
  };
  struct Document {
    std::mutex making;  // held while it is made; guards the rest
    uint64_t version = 0;
    std::string text, packed;
  };

  void Run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      wake_.wait_for(lock, options_.look_every, [this] { return woken_ || stopping_; });
      const bool woken = std::exchange(woken_, false);
      lock.unlock();
      if (woken || http_.stats().viewers > 0) LookAround();
      lock.lock();
      if (woken && !stopping_) wake_.wait_for(lock, kGather, [this] { return stopping_; });
    }
  }

  // Publishes the jobs that have changed.
  void LookAround() {
    const std::lock_guard lock(said_mutex_);
    const std::vector<JobSummary> jobs = options_.metrics->Jobs();
    std::set<std::string> there;
    for (const JobSummary& job : jobs) {
      there.insert(job.job);
      Said& said = said_[job.job];
      const bool same = said.version > 0 && said.revision == job.revision &&
                        said.changes == job.changes && said.live == job.live;
      if (same && !job.live) continue;  // of the jobs of a long list most are over
      if (!same) ++said.version;
      said.revision = job.revision;
      said.changes = job.changes;
      said.live = job.live;
      said.json = {{"job", job.job},
                   {"verdict", model::Name(job.main.verdict)},
                   {"confidence", model::Name(job.main.confidence)},
                   {"check", job.main.check},
                   {"summary", job.main.summary},
                   {"revision", job.revision},
                   {"version", said.version},
                   {"job_ended", job.job_ended},
                   {"live", job.live},
                   {"ranks", job.main.evidence.ranks_seen},
                   {"since_progress_s", job.since_progress_s},
                   {"started", job.started},
                   {"nodes", job.nodes}};
      if (!same) http_.Publish(job.job, "job", Dump(said.json));
    }
    if (const auto changes = options_.jobs->IncidentChanges(); changes != said_incidents_) {
      said_incidents_ = changes;
      http_.Publish(kIncidentsKey, "incidents", Dump({{"changes", changes.value_or(0)}}));
    }
    std::erase_if(said_, [&](const auto& entry) {
      if (there.contains(entry.first)) return false;
      http_.Forget(entry.first);
      return true;
    });
  }

  HttpResponse Answer(const HttpRequest& request) {
    const std::string& path = request.path;
    const auto file = [](std::string_view text, const char* type) {
      return HttpResponse{.type = type, .body = std::string(text)};
    };
    const PageFiles& files = options_.files;
    if (path == "/") return file(files.index_html, "text/html; charset=utf-8");
    if (path == "/app.js")
      return Packed(request, file(files.app_js, "text/javascript; charset=utf-8"));
    if (path == "/app.css") return Packed(request, file(files.app_css, "text/css; charset=utf-8"));
    if (path == "/healthz") return {.body = "ok\n"};
    if (path == "/metrics") return Packed(request, Metrics(request));
    if (path == "/api/v1/jobs") {
      return Packed(request, {.type = kJsonType, .body = Jobs(request.token)});
    }
    if (request.post) return Acknowledge(request);
    if (path == "/api/v1/incidents") {
      std::string incidents = options_.jobs->IncidentsJson();
      if (incidents.empty()) return {.status = 404, .body = "404: no incidents are kept here\n"};
      return Packed(request, {.type = kJsonType, .body = std::move(incidents)});
    }
    if (path.starts_with(kJobPath)) return OneJob(request, path.substr(sizeof kJobPath - 1));
    return {.status = 404};
  }

  static HttpResponse Packed(const HttpRequest& request, HttpResponse response) {
    constexpr size_t kWorthPacking = 1024;
    if (!request.gzip || response.body.size() < kWorthPacking) return response;
    response.body = http::Gzip(response.body);
    response.gzip = true;
    return response;
  }

  // A viewer with this token is asking. It goes on with the events after "last_event", so that it is
  // not sent all jobs once more: of very many that would be more than the server holds for a viewer.
  std::string Jobs(const std::string& token) {
    const std::string last_event = http_.last_event();
    LookAround();
    const bool may_acknowledge =
        !token.empty() && options_.may_change && options_.may_change(token).ok();
    ordered_json list = ordered_json::array();
    const std::lock_guard lock(said_mutex_);
    for (const auto& [job, said] : said_) list.push_back(said.json);
    return Dump({{"schema", "gordian.jobs.v1"},
                 {"gordian_version", kVersion},
                 {"last_event", last_event},
                 {"has_incidents", said_incidents_.has_value()},
                 {"may_acknowledge", may_acknowledge},
                 {"jobs", std::move(list)}});
  }

  HttpResponse Acknowledge(const HttpRequest& request) {
    if (request.token.empty()) {
      return Refusal(401,
                     "to acknowledge an incident takes an admin's token; gordian token --role "
                     "admin DIR prints it");
    }
    const Status may = options_.may_change ? options_.may_change(request.token)
                                           : Status::PermissionDenied("nobody may change anything");
    if (!may.ok()) {
      HttpResponse refusal = Refusal(403, may.message());
      refusal.wrong_token = true;
      return refusal;
    }
    const auto body = ParseJson<ordered_json>(request.body);
    const auto text = [&body](const char* key) -> std::optional<std::string> {
      const auto found = body.find(key);
      if (found == body.end()) return "";
      if (!found->is_string()) return std::nullopt;
      return found->get<std::string>();
    };
    const auto by = body.is_object() ? text("by") : std::nullopt;
    const auto note = body.is_object() ? text("note") : std::nullopt;
    if (!by || by->empty() || !note) {
      return Refusal(400,
                     R"(the body is to be {"by": "WHO", "note": "TEXT"}; "note" may be missing)");
    }
    const std::string id = request.path.substr(
        kIncidentPath.size(), request.path.size() - kIncidentPath.size() - kAcknowledge.size());
    const StatusOr<std::string> whole = options_.jobs->Acknowledge(id, *by, *note);
    if (!whole.ok()) {
      const StatusCode code = whole.status().code();
      return Refusal(code == StatusCode::kNotFound          ? 404
                     : code == StatusCode::kInvalidArgument ? 409
                                                            : 503,
                     whole.status().message());
    }
    Wake();  // tells other viewers
    return {.type = kJsonType, .body = Dump({{"acknowledged", *whole}})};
  }

  // Makes a document once for all who ask for the same version of it.
  HttpResponse OneJob(const HttpRequest& request, const std::string& job) {
    uint64_t version = 0;
    {
      const std::lock_guard lock(said_mutex_);
      const auto said = said_.find(job);
      if (said == said_.end()) return {.status = 404, .body = "404: no job of this name is here\n"};
      version = said->second.version;
    }
    const std::shared_ptr<Document> document = DocumentOf(job);
    const std::lock_guard lock(document->making);
    if (document->text.empty() || document->version < version) {
      const StatusOr<PageParts> parts = options_.jobs->Look(job);
      if (!parts.ok()) {
        return {.status = 404, .body = "404: " + parts.status().message() + "\n"};
      }
      document->version = version;
      document->text = PageDocument(*parts);
      document->packed = http::Gzip(document->text);
    }
    return {.type = kJsonType,
            .body = request.gzip ? document->packed : document->text,
            .gzip = request.gzip};
  }

  // Documents of large jobs take megabytes, so those of a few jobs are kept.
  std::shared_ptr<Document> DocumentOf(const std::string& job) {
    constexpr size_t kMostDocuments = 16;
    const std::lock_guard lock(documents_mutex_);
    std::shared_ptr<Document>& document = documents_[job];
    if (document == nullptr) document = std::make_shared<Document>();
    const std::shared_ptr<Document> found = document;
    for (auto one = documents_.begin(); documents_.size() > kMostDocuments;) {
      one = one->first == job ? std::next(one) : documents_.erase(one);
    }
    return found;
  }

  HttpResponse Metrics(const HttpRequest& request) {
    const std::vector<metrics::MetricFamily> families = options_.metrics->Now(Http());
    const bool open = request.accept.find("application/openmetrics-text") != std::string::npos;
    return {.type = open ? metrics::kOpenMetricsType : metrics::kMetricsTextType,
            .body = metrics::PrometheusText(families, open ? metrics::PrometheusFormat::kOpenMetrics
                                                           : metrics::PrometheusFormat::kText)};
  }

  GatewayOptions options_;
  HttpServer http_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
  bool stopping_ = false;
  std::thread looker_;

  std::mutex said_mutex_;
  std::map<std::string, Said> said_;
  std::optional<uint64_t> said_incidents_;

  std::mutex documents_mutex_;
  std::map<std::string, std::shared_ptr<Document>> documents_;
};

Gateway::Gateway() : impl_(std::make_unique<Impl>()) {}
Gateway::~Gateway() { Stop(); }
Status Gateway::Start(GatewayOptions options) { return impl_->Start(std::move(options)); }
int Gateway::port() const { return impl_->port(); }
metrics::HttpMetrics Gateway::Http() const { return impl_->Http(); }
void Gateway::Wake() { impl_->Wake(); }
void Gateway::Stop() { impl_->Stop(); }

}  // namespace gordian::web
