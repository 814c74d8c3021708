#include "cli/web/run_page.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/access/access_key.h"
#include "analyzer/metrics/otlp_push.h"
#include "analyzer/metrics/prometheus_text.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/session/session_files.h"
#include "analyzer/web/gateway.h"
#include "cli/job/job_identity.h"
#include "cli/web/live_page.h"
#include "cli/web/page_address.h"
#include "cli/web/recorded_page.h"
#include "cli/web/session_page.h"
#include "common/clock.h"
#include "common/json_text.h"
#include "dashboard/page_files.h"

namespace gordian::cli {
namespace {

// Makes the parts of the one job of an analysis in this process. Thread-safe.
class OneJob final : public web::JobSource {
 public:
  explicit OneJob(RunPageOptions options) : options_(std::move(options)) {}

  std::vector<web::JobSummary> Jobs() override {
    return {SummaryOf(options_.job, *options_.analysis)};
  }

  std::string StatusJson(const std::string&) override {
    return options_.analysis->StatusJson(nullptr);
  }

  std::string IncidentsJson() override { return options_.incidents->Json(); }

  std::optional<uint64_t> IncidentChanges() override {
    const uint64_t changes = options_.incidents->changes();
    return changes == 0 ? std::nullopt : std::optional(changes);
  }

  StatusOr<std::string> Acknowledge(const std::string& id, const std::string& by,
                                    const std::string& note) override {
    return options_.incidents->Acknowledge(id, {.time_ns = RealNs(), .who = by, .note = note});
  }

  StatusOr<web::PageParts> Look(const std::string& job) override {
    if (job != options_.job) return Status::NotFound("no job of this name is here");
    LivePage page = Now();
    if (model::SaysTrouble(page.verdict.main.verdict) && options_.session_folder != nullptr) {
      page.parts.history_json = history_.At(page.revision, TracePath());
    }
    return std::move(page.parts);
  }

  LivePage Now() const { return LookNow(options_.job, options_.session_dir, options_.analysis); }

  // By the folder's descriptor, whatever its path has come to mean.
  std::string TracePath() const {
    return "/proc/self/fd/" + std::to_string(options_.session_folder->fd()) + "/" +
           analyzer::kTraceFile;
  }

  const RunPageOptions& options() const { return options_; }

 private:
  const RunPageOptions options_;
  HistoryOfTrace history_;
};

class PageOfRun final : public RunPage {
 public:
  explicit PageOfRun(const RunPageOptions& options)
      : job_(std::make_shared<OneJob>(options)),
        metrics_(std::make_shared<web::JobMetrics>(job_)) {}
  ~PageOfRun() override {
    push_.reset();
    gateway_.Stop();
  }

  StatusOr<std::string> Serve(const std::string& listen, const PageTls& tls,
                              std::function<void(const std::string&)> on_line) override {
    web::GatewayOptions options;
    options.listen = listen;
    options.files = dashboard::EmbeddedPage();
    options.jobs = job_;
    options.metrics = metrics_;
    options.tls = {.cert = tls.cert, .key = tls.key, .ca = tls.ca};
    options.on_refused = std::move(on_line);
    if (job_->options().session_folder != nullptr) {
      options.may_change = [job = job_](std::string_view shown) {
        return MayChange(*job->options().session_folder, job->options().session_dir, shown);
      };
    }
    std::string token;
    if (!IsLoopback(listen)) {
      if (job_->options().session_folder == nullptr) {
        return Status::Unavailable("--http beyond this machine needs a session for its token");
      }
      const StatusOr<access::AccessKey> key =
          access::AccessKey::Open(*job_->options().session_folder);
      GORDIAN_RETURN_IF_ERROR(key.status());
      token = key->ViewerToken();
      options.may_view = [key = *key](std::string_view shown) { return key.MayView(shown); };
    }
    const bool with_tls = options.tls.on();
    GORDIAN_RETURN_IF_ERROR(gateway_.Start(std::move(options)));
    serving_ = true;
    return PageAddress(listen, gateway_.port(), with_tls, token);
  }

  void OnVerdict() override {
    if (serving_) gateway_.Wake();
    if (push_ != nullptr) push_->Wake();
  }

  void WriteReport() override { Write(/*last=*/false); }
  void WriteLastReport() override { Write(/*last=*/true); }

  std::string Metrics() override {
    return metrics::PrometheusText(metrics_->Now(std::nullopt), metrics::PrometheusFormat::kText);
  }

  void PushMetrics(metrics::OtlpTarget target,
                   std::function<void(const std::string&)> on_line) override {
    metrics::OtlpPushOptions options;
    options.target = std::move(target);
    options.collect = [this] {
      return metrics_->Now(serving_ ? std::optional(gateway_.Http()) : std::nullopt);
    };
    options.on_line = std::move(on_line);
    push_ = std::make_unique<metrics::OtlpPush>(std::move(options));
  }

  void PushLastMetrics() override {
    if (push_ != nullptr) push_->Finish();
  }
  bool MetricsPushed() const override { return push_ == nullptr || push_->Finished(); }

 private:
  void Write(bool last) {
    const OwnedFolder* const folder = job_->options().session_folder.get();
    if (folder == nullptr) return;
    LivePage page = job_->Now();
    const model::Finding& main = page.verdict.main;
    if (last && model::SaysTrouble(main.verdict)) {
      StatusOr<TraceDetails> details = ReadTraceDetails(job_->TracePath());
      if (details.ok()) page.parts.history_json = std::move(details->history_json);
    }
    const Status written = on_disk_.Write(*folder, main, std::move(page.parts));
    if (!written.ok()) spdlog::warn("page: {}", written.message());
  }

  const std::shared_ptr<OneJob> job_;
  const std::shared_ptr<web::JobMetrics> metrics_;
  web::Gateway gateway_;
  bool serving_ = false;
  SessionPage on_disk_;
  std::unique_ptr<metrics::OtlpPush> push_;  // null: metrics are not pushed
};

}  // namespace

std::unique_ptr<RunPage> MakePageOfRun(const RunPageOptions& options) {
  return std::make_unique<PageOfRun>(options);
}

}  // namespace gordian::cli
