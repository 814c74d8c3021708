#include "cli/web/fleet_pages.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analyzer/fleet/job_folders.h"
#include "analyzer/ingest/live_job.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/report/verdict_json.h"
#include "analyzer/session/session_files.h"
#include "cli/web/live_page.h"
#include "common/clock.h"
#include "common/owned_folder.h"

namespace gordian::cli {
namespace {

// That the list of jobs names of one: it goes to each viewer, with those of all other jobs.
constexpr size_t kMostNodes = 64;

}  // namespace

FleetPages::FleetPages(analyzer::FleetServer* fleet, incidents::IncidentBook* book)
    : fleet_(fleet), book_(book), writer_([this] { Run(); }) {}

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
    if (analyzer::LeafOf(status.folder) == job) return status.folder;
  }
  return "";
}

const web::JobSummary& FleetPages::ReadOver(const std::string& folder) {
  const auto [found, is_new] = over_.try_emplace(folder);
  web::JobSummary& over = found->second;
  if (!is_new) return over;
  over.job = analyzer::LeafOf(folder);
  over.job_ended = true;
  StatusOr<analyzer::VerdictDocument> document =
      analyzer::ReadVerdictFile(folder + "/" + analyzer::kVerdictFile);
  if (document.ok()) over.main = std::move(document->verdict.main);
  AddManifest(folder, &over);
  manifests_.erase(folder);
  return over;
}

// A manifest is written again when a node comes, and only then read again.
void FleetPages::AddManifest(const std::string& folder, web::JobSummary* summary) {
  struct stat about {};
  if (stat((folder + "/" + analyzer::kManifestFile).c_str(), &about) != 0) return;
  Manifest& known = manifests_[folder];
  const std::pair<int64_t, int64_t> written(about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
  if (known.written != written) {
    StatusOr<analyzer::JobManifest> manifest = analyzer::ReadJobManifest(folder);
    if (!manifest.ok()) return;
    manifest->nodes.resize(std::min(manifest->nodes.size(), kMostNodes));
    known = {written, std::move(manifest->started), std::move(manifest->nodes)};
  }
  summary->started = known.started;
  summary->nodes = known.nodes;
}

std::vector<web::JobSummary> FleetPages::Jobs() {
  std::vector<web::JobSummary> all;
  for (const analyzer::FleetServer::JobStatus& status : fleet_->jobs()) {
    std::optional<web::JobSummary> live;
    if (status.live) {
      fleet_->LookAt(status.folder, [&](analyzer::Analysis& analysis) {
        live = SummaryOf(analyzer::LeafOf(status.folder), analysis);
        live->live = true;  // the server still has it
      });
    }
    const std::lock_guard lock(mutex_);
    (live ? over_.erase(status.folder) : history_.erase(status.folder));
    if (live) AddManifest(status.folder, &*live);
    all.push_back(live ? *std::move(live) : ReadOver(status.folder));
  }
  return all;
}

StatusOr<web::PageParts> FleetPages::Look(const std::string& job) {
  const std::string folder = FolderOf(job);
  if (folder.empty()) return Status::NotFound("no job of this name is here");
  std::optional<LivePage> page;
  fleet_->LookAt(folder,
                 [&](analyzer::Analysis& analysis) { page = LookNow(job, folder, &analysis); });
  if (!page) {
    std::string note;
    return RecordedPage(folder, &note);
  }
  if (model::SaysTrouble(page->verdict.main.verdict)) {
    std::shared_ptr<HistoryOfTrace> history;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<HistoryOfTrace>& known = history_[folder];
      if (known == nullptr) known = std::make_shared<HistoryOfTrace>();
      history = known;
    }
    page->parts.history_json = history->At(page->revision, folder + "/" + analyzer::kTraceFile);
  }
  return std::move(page->parts);
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

std::optional<uint64_t> FleetPages::IncidentChanges() {
  return book_ == nullptr ? std::nullopt : std::optional(book_->changes());
}

StatusOr<std::string> FleetPages::Acknowledge(const std::string& id, const std::string& by,
                                              const std::string& note) {
  if (book_ == nullptr) return JobSource::Acknowledge(id, by, note);
  return book_->Acknowledge("", id, {.time_ns = RealNs(), .who = by, .note = note});
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
  std::optional<LivePage> page;
  fleet_->LookAt(folder, [&](analyzer::Analysis& analysis) {
    page = LookNow(analyzer::LeafOf(folder), folder, &analysis);
  });
  if (!page) return;  // closed meanwhile; its last page stays
  const bool ended = !page->parts.live;
  const StatusOr<OwnedFolder> held = OwnedFolder::Open(folder);
  const Status written =
      held.ok() ? on_disk_[folder].Write(*held, page->verdict.main, std::move(page->parts))
                : held.status();
  if (!written.ok()) spdlog::warn("page: {}", written.message());
  if (ended) on_disk_.erase(folder);  // a further start reads what was kept
}

}  // namespace gordian::cli
