// The jobs of `gordian serve` for its page: those in memory, and the folders of those that are over.
#ifndef GORDIAN_CLI_WEB_FLEET_PAGES_H_
#define GORDIAN_CLI_WEB_FLEET_PAGES_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/fleet/fleet_server.h"
#include "analyzer/incidents/incident_book.h"
#include "analyzer/web/gateway.h"
#include "cli/web/recorded_page.h"
#include "cli/web/session_page.h"

namespace gordian::cli {

// Thread-safe. A job's name is that of its folder, which no other job of the server has.
class FleetPages final : public web::JobSource {
 public:
  // Both must outlive this object. A null `book`: no incidents are kept.
  explicit FleetPages(analyzer::FleetServer* fleet, incidents::IncidentBook* book = nullptr);
  ~FleetPages() override;

  std::vector<web::JobSummary> Jobs() override;
  StatusOr<web::PageParts> Look(const std::string& job) override;
  std::string StatusJson(const std::string& job) override;
  std::string IncidentsJson() override { return book_ == nullptr ? "" : book_->Json(""); }
  std::optional<uint64_t> IncidentChanges() override;
  StatusOr<std::string> Acknowledge(const std::string& id, const std::string& by,
                                    const std::string& note) override;

  // A verdict of the job in this folder has changed: writes its report.html soon, on a thread of its
  // own. Quick; any thread.
  void WriteSoon(const std::string& folder);

  // Writes no more. Call it before the fleet's.
  void Stop();

 private:
  std::string FolderOf(const std::string& job) const;  // "": there is no such job
  // With mutex_ held.
  const web::JobSummary& ReadOver(const std::string& folder);
  void AddManifest(const std::string& folder, web::JobSummary* summary);
  void Write(const std::string& folder);
  void Run();

  analyzer::FleetServer* const fleet_;
  incidents::IncidentBook* const book_;
  std::mutex mutex_;
  std::map<std::string, web::JobSummary> over_;  // of jobs that are over, by folder, and so
  struct Manifest {
    std::pair<int64_t, int64_t> written;  // when the file was
    std::string started;
    std::vector<std::string> nodes;
  };
  std::map<std::string, Manifest> manifests_;
  std::map<std::string, std::shared_ptr<HistoryOfTrace>> history_;  // of those in trouble

  std::mutex wanted_mutex_;
  std::condition_variable wake_;
  std::set<std::string> wanted_;
  bool stopping_ = false;
  std::map<std::string, SessionPage> on_disk_;  // by folder; of the writer
  std::thread writer_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_FLEET_PAGES_H_
