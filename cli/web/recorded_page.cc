#include "cli/web/recorded_page.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "analyzer/exporters/operation_log.h"
#include "analyzer/report/report.h"
#include "analyzer/report/verdict_json.h"
#include "analyzer/session/session_files.h"
#include "analyzer/web/source_lines.h"
#include "cli/analyze/recorded.h"
#include "cli/web/predictions.h"
#include "cli/web/session_page.h"

namespace gordian::cli {
namespace {

// Of each rank. The page draws what is near the stall.
constexpr size_t kKeep = 64;
// A larger trace takes seconds, and a page's reader has other things to see meanwhile.
constexpr uint64_t kMostTraceBytes = 64 << 20;

// The operations before the stall, and the source lines of the verdict's call sites.
class DetailsObserver final : public analyzer::TraceObserver {
 public:
  void OnRecord(const model::JobModel& model, const model::CallRecord& record) override {
    log_.OnRecord(model, record);
  }
  void OnEvent(const model::JobModel& model, const v1::Event& event) override {
    log_.OnEvent(model, event);
    book_.OnEvent(event);
  }
  void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) override {
    log_.AtEnd(model, sites);
    const model::Verdict verdict = model.Current();
    details_.history_json = web::HistoryJson(log_, verdict.main.stalled_at_ns);
    details_.sources = web::FindSourceLines(verdict, sites, book_);
  }

  TraceDetails Take() { return std::move(details_); }

 private:
  analyzer::SourceBook book_;
  exporters::OperationLog log_{kKeep, exporters::Wants::kNoMore};
  TraceDetails details_;
};

Status FitsAPage(const std::string& trace) {
  struct stat about {};
  if (stat(trace.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return Status::NotFound("cannot read " + trace);
  }
  if (static_cast<uint64_t>(about.st_size) > kMostTraceBytes) {
    return Status::Unavailable(
        trace + " is too large for a page: " + std::to_string(about.st_size) + " bytes");
  }
  return Status::Ok();
}

}  // namespace

StatusOr<TraceDetails> ReadTraceDetails(const std::string& trace) {
  GORDIAN_RETURN_IF_ERROR(FitsAPage(trace));
  DetailsObserver observer;
  analyzer::AnalysisOptions options;
  options.observer = &observer;
  options.still_written = true;
  options.want_status = true;
  StatusOr<analyzer::AnalysisResult> result = analyzer::AnalyzeTrace(trace, options);
  GORDIAN_RETURN_IF_ERROR(result.status());
  TraceDetails details = observer.Take();
  details.status_json = std::move(result->status_json);
  return details;
}

std::string HistoryOfTrace::At(uint64_t revision, const std::string& trace) {
  const std::lock_guard lock(mutex_);
  if (revision_ != revision) {
    StatusOr<TraceDetails> details = ReadTraceDetails(trace);
    if (!details.ok()) spdlog::info("page: {}", details.status().message());
    history_ = details.ok() ? std::move(details->history_json) : "";
    revision_ = revision;
  }
  return history_;
}

StatusOr<web::PageParts> RecordedPage(const std::string& path, std::string* note) {
  StatusOr<RecordedVerdict> recorded = AsDecided(path);
  GORDIAN_RETURN_IF_ERROR(recorded.status());
  *note = recorded->note;
  web::PageParts parts;
  parts.session = recorded->session.empty() ? path : recorded->session;
  parts.job = std::filesystem::path(parts.session).lexically_normal().filename().string();
  if (parts.job.empty() || parts.job == ".") parts.job = parts.session;
  parts.verdict_json = analyzer::VerdictToText(recorded->verdict, recorded->sites);
  parts.text =
      analyzer::ExplainText(recorded->verdict, recorded->sites, {.session = recorded->session});
  DetailsObserver observer;
  std::string trace_note;
  const StatusOr<analyzer::AnalysisResult> traced = AnalyzeRecorded(path, &observer, &trace_note);
  if (traced.ok()) {  // else a verdict without a trace, or dumps
    TraceDetails details = observer.Take();
    parts.history_json = std::move(details.history_json);
    parts.sources = std::move(details.sources);
    if (note->empty()) *note = std::move(trace_note);
  }
  const std::string trace =
      recorded->session.empty() ? path : recorded->session + "/" + analyzer::kTraceFile;
  if (recorded->verdict.main.verdict == model::VerdictKind::kFinished && FitsAPage(trace).ok()) {
    parts.predictions_json = PredictionsJson(recorded->session.empty() ? path : recorded->session);
  }
  if (!recorded->session.empty()) {
    parts.status_json = KeptStatus(recorded->session);
  }
  if (parts.status_json.empty()) {
    StatusOr<RecordedStatus> status = StatusAsRecorded(path);
    if (status.ok()) parts.status_json = std::move(status->json);
  }
  return parts;
}

}  // namespace gordian::cli
