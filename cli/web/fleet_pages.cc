#include "cli/web/fleet_pages.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/report/report.h"
#include "analyzer/report/verdict_json.h"
#include "analyzer/session/session_files.h"
#include "common/clock.h"
#include "common/owned_folder.h"

namespace gordian::cli {
namespace {

std::string NameOf(const std::string& folder) {
  return std::filesystem::path(folder).filename().string();
}

web::JobSummary Summarize(const std::string& folder, analyzer::Analysis& analysis) {
  const analyzer::Analysis::Stats stats = analysis.stats();
  web::JobSummary summary{.job = NameOf(folder),
                          .main = analysis.Current().main,
                          .revision = stats.revision,
                          .changes = stats.records,
                          .job_ended = stats.job_ended,
                          .live = true};
  if (const uint64_t now = MonoNs(); stats.last_progress_ns > 0 && !stats.job_ended) {
    summary.since_progress_s =
        now > stats.last_progress_ns ? static_cast<double>(now - stats.last_progress_ns) / 1e9 : 0;
  }
  return summary;
}

// Sources are left out: they are on the nodes.
web::PageParts PartsOf(const std::string& folder, analyzer::Analysis& analysis) {
  web::PageParts parts;
  parts.job = NameOf(folder);
  parts.session = folder;
  parts.live = !analysis.stats().job_ended;
  parts.verdict_json = analysis.CurrentJson(nullptr);
  parts.status_json = analysis.StatusJson(nullptr);
  parts.text = analyzer::ExplainText(analysis.Current(), analysis.sites(), {.session = folder});
  return parts;
}

}  // namespace

FleetPages::FleetPages(analyzer::FleetServer* fleet, std::function<std::string()> incidents_json)
    : fleet_(fleet), incidents_json_(std::move(incidents_json)), writer_([this] { Run(); }) {}

FleetPages::~FleetPages() { Stop(); }

void FleetPages::Stop() {
  {
    const std::lock_guard lock(wanted_mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (writer_.joinable()) writer_.join();
}

std::string FleetPages::FolderOf(const std::string& job) const {
  for (const analyzer::FleetServer::JobStatus& status : fleet_->jobs()) {
    if (NameOf(status.folder) == job) return status.folder;
  }
  return "";
}

const web::JobSummary& FleetPages::ReadOver(const std::string& folder) {
  const auto [found, is_new] = over_.try_emplace(folder);
  web::JobSummary& over = found->second;
  if (!is_new) return over;
  over.job = NameOf(folder);
  over.job_ended = true;
  StatusOr<analyzer::VerdictDocument> document =
      analyzer::ReadVerdictFile(folder + "/" + analyzer::kVerdictFile);
  if (document.ok()) over.main = std::move(document->verdict.main);
  return over;
}

std::vector<web::JobSummary> FleetPages::Jobs() {
  std::vector<web::JobSummary> all;
  for (const analyzer::FleetServer::JobStatus& status : fleet_->jobs()) {
    std::optional<web::JobSummary> live;
    if (status.live) {
      fleet_->LookAt(status.folder, [&](analyzer::Analysis& analysis) {
        live = Summarize(status.folder, analysis);
      });
    }
    const std::lock_guard lock(mutex_);
    (live ? over_.erase(status.folder) : history_.erase(status.folder));
    all.push_back(live ? *std::move(live) : ReadOver(status.folder));
  }
  return all;
}

StatusOr<web::PageParts> FleetPages::Look(const std::string& job) {
  const std::string folder = FolderOf(job);
  if (folder.empty()) return Status::NotFound("no job of this name is here");
  std::optional<web::PageParts> parts;
  bool trouble = false;
  uint64_t revision = 0;
  fleet_->LookAt(folder, [&](analyzer::Analysis& analysis) {
    parts = PartsOf(folder, analysis);
    trouble = model::SaysTrouble(analysis.Current().main.verdict);
    revision = analysis.stats().revision;
  });
  if (!parts) {
    std::string note;
    StatusOr<web::PageParts> recorded = RecordedPage(folder, &note);
    if (recorded.ok()) recorded->sources.clear();
    return recorded;
  }
  if (trouble) {
    std::shared_ptr<HistoryOfTrace> history;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<HistoryOfTrace>& known = history_[folder];
      if (known == nullptr) known = std::make_shared<HistoryOfTrace>();
      history = known;
    }
    parts->history_json = history->At(revision, folder + "/" + analyzer::kTraceFile);
  }
  return *std::move(parts);
}

std::string FleetPages::StatusJson(const std::string& job) {
  const std::string folder = FolderOf(job);
  std::string status;
  if (fleet_->LookAt(
          folder, [&](analyzer::Analysis& analysis) { status = analysis.StatusJson(nullptr); })) {
    return status;
  }
  return "";  // what is over has no present state
}

void FleetPages::WriteSoon(const std::string& folder) {
  const std::lock_guard lock(wanted_mutex_);
  wanted_.insert(folder);
  wake_.notify_all();
}

void FleetPages::Run() {
  std::unique_lock lock(wanted_mutex_);
  while (!stopping_) {
    wake_.wait(lock, [this] { return stopping_ || !wanted_.empty(); });
    const std::set<std::string> folders = std::exchange(wanted_, {});
    lock.unlock();
    for (const std::string& folder : folders) Write(folder);
    lock.lock();
  }
}

void FleetPages::Write(const std::string& folder) {
  std::optional<web::PageParts> parts;
  model::Finding main;
  fleet_->LookAt(folder, [&](analyzer::Analysis& analysis) {
    main = analysis.Current().main;
    parts = PartsOf(folder, analysis);
  });
  if (!parts) return;  // closed meanwhile; its last page stays
  const bool ended = !parts->live;
  const StatusOr<OwnedFolder> held = OwnedFolder::Open(folder);
  const Status written =
      held.ok() ? on_disk_[folder].Write(*held, main, *std::move(parts)) : held.status();
  if (!written.ok()) spdlog::warn("page: {}", written.message());
  if (ended) on_disk_.erase(folder);  // a further start reads what was kept
}

}  // namespace gordian::cli
