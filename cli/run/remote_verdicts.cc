#include "cli/run/remote_verdicts.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "analyzer/report/report.h"
#include "analyzer/report/verdict_json.h"
#include "analyzer/session/session_files.h"
#include "collector/uplink/spool.h"
#include "common/clock.h"
#include "common/trace_file.h"

namespace gordian::cli {

RemoteVerdicts::RemoteVerdicts(std::string session_dir, std::shared_ptr<const OwnedFolder> folder,
                               std::function<void(const analyzer::VerdictUpdate&)> tell)
    : session_dir_(std::move(session_dir)), folder_(std::move(folder)), tell_(std::move(tell)) {}

void RemoteVerdicts::OnNews(const v1::VerdictNews& news) {
  if (news.verdict_json().empty()) {
    return;
  }
  const StatusOr<analyzer::VerdictDocument> document = analyzer::ParseVerdict(news.verdict_json());
  if (!document.ok()) {
    spdlog::warn("cannot read a verdict of the analyzer: {}", document.status().message());
    return;
  }
  Keep(document->verdict, document->sites(), news.verdict_json(), news.revision(), news.job_ended(),
       {news.rings().begin(), news.rings().end()});
}

void RemoteVerdicts::Keep(const model::Verdict& verdict, const analyzer::SiteResolver& sites,
                          const std::string& json, uint64_t revision, bool job_ended,
                          const std::vector<std::string>& rings) {
  const std::lock_guard telling(telling_);
  if (folder_ != nullptr) {
    Status status = folder_->ReplaceFile(analyzer::kVerdictFile, json);
    if (status.ok()) {
      status = folder_->ReplaceFile(
          analyzer::kReportFile, analyzer::ReportText(verdict, sites, {.session = session_dir_}));
    }
    const std::lock_guard lock(mutex_);
    if (!status.ok() && problem_.empty()) {
      problem_ = status.message();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    latest_ = verdict;
    rings_ = rings;
  }
  tell_({.verdict = verdict,
         .sites = sites,
         .json = json,
         .revision = revision,
         .job_ended = job_ended,
         .rings = rings,
         .seconds_to_verdict = 0});
}

void RemoteVerdicts::OnUnfinished(bool unfinished) {
  const std::lock_guard lock(mutex_);
  unfinished_ = unfinished;
}

bool RemoteVerdicts::DecideHere(const std::string& spool_dir, const std::string& command_line,
                                const std::string& why, const model::ModelOptions& model) {
  if (folder_ == nullptr || spool_dir.empty()) {
    return false;
  }
  v1::TraceHeader header;
  const ClockPair now = ReadClockPair();
  header.set_command_line(command_line);
  header.set_start_mono_ns(now.mono_ns);
  header.set_start_real_ns(now.real_ns);
  StatusOr<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::Create(*folder_, analyzer::kTraceFile, header);
  if (!writer.ok()) {
    return false;
  }
  Status status;
  const StatusOr<collector::SpoolContents> contents =
      collector::ReadSpool(spool_dir, [&](v1::EventBatch&& batch) {
        for (v1::Event& event : *batch.mutable_events()) {
          const Status appended = (*writer)->Append(std::move(event));
          status = status.ok() ? appended : status;
        }
      });
  const Status closed = (*writer)->Close();
  if (!contents.ok() || contents->batches == 0 || !status.ok() || !closed.ok()) {
    return false;
  }
  analyzer::AnalysisOptions options;
  options.model = model;
  StatusOr<analyzer::AnalysisResult> result =
      analyzer::AnalyzeTrace(session_dir_ + "/" + analyzer::kTraceFile, options);
  if (!result.ok()) {
    return false;
  }
  model::Verdict& verdict = result->verdict;
  const auto note = [&](model::Finding* finding) {
    finding->evidence.not_visible.push_back("the other nodes: " + why);
    if (!contents->whole) {
      finding->evidence.not_visible.push_back(contents->problem);
    }
  };
  note(&verdict.main);
  for (model::Finding& finding : verdict.findings) {
    note(&finding);
  }
  Keep(verdict, result->sites(), analyzer::VerdictToText(verdict, result->sites()), 1, true, {});
  return true;
}

std::optional<model::Verdict> RemoteVerdicts::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

std::vector<std::string> RemoteVerdicts::rings() const {
  const std::lock_guard lock(mutex_);
  return rings_;
}

bool RemoteVerdicts::unfinished() const {
  const std::lock_guard lock(mutex_);
  return unfinished_;
}

std::string RemoteVerdicts::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace gordian::cli
