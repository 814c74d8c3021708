// Keeps incidents in a SQLite file, incidents.db of a folder. Several processes may use one file at
// once. The file is reached through the folder's descriptor, is made with mode 0600, and is never
// followed if it is a link.
//
// Tables: jobs; nodes (those that culprits were on); incidents; revisions; acknowledgements; alerts.
#ifndef GORDIAN_ANALYZER_INCIDENTS_INCIDENT_STORE_H_
#define GORDIAN_ANALYZER_INCIDENTS_INCIDENT_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/incidents/incident.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::incidents {

inline constexpr char kStoreFile[] = "incidents.db";

struct StoreOptions {
  bool read_only = false;                             // makes no file
  uint64_t keep_ns = 90ull * 24 * 3600 * 1000000000;  // after its last revision
  uint64_t most_bytes = 256ull << 20;
  int busy_ms = 5000;  // how long a call waits for other writers
};

// Who writes a job's incidents, to know later whether it still does.
struct Writer {
  std::string host;
  int64_t pid = 0;
  uint64_t start = 0;  // as /proc says it

  friend bool operator==(const Writer&, const Writer&) = default;
};

struct IncidentRecord {
  Incident incident;
  std::vector<std::string> nodes;
  std::vector<Revision> revisions;  // ascending
  std::vector<Acknowledgement> acknowledgements;
  std::vector<Alert> alerts;  // without documents
  Writer writer;
};

struct Query {
  std::string job, session;  // empty: all
  uint64_t since_ns = 0;     // last revision, or end, not before
  bool open_only = false;
  size_t most = 1000;  // the latest
};

// Thread compatible. Methods wait for other writers and for the disk. After an error the store can
// be used on: a disk may have room again.
class IncidentStore {
 public:
  // Makes the tables, unless they are there, and applies the retention. `folder` must outlive this
  // object. Errors name the file: kNewerVersion, a newer gordian made it; kDataLoss, it is damaged
  // or no file of gordian's; kPermissionDenied, it is a link, another user's, or not writable.
  static StatusOr<std::unique_ptr<IncidentStore>> Open(const OwnedFolder& folder,
                                                       const StoreOptions& options = {});
  ~IncidentStore();
  IncidentStore(const IncidentStore&) = delete;
  IncidentStore& operator=(const IncidentStore&) = delete;

  // Writes the incident, the revision unless null, and alerts that it does not hold yet, all or
  // nothing.
  Status Write(const Incident& incident, const Writer& writer, const Revision* revision,
               std::span<const Alert> alerts);
  Status SetAlertState(const Alert& alert, const std::string& state);

  // The latest incident of the session.
  StatusOr<std::optional<Incident>> Latest(const std::string& session);
  // All alerts of an incident, with documents.
  StatusOr<std::vector<Alert>> AlertsOf(const std::string& incident);
  // Those that wait to be sent, with documents, the oldest first.
  StatusOr<std::vector<Alert>> Pending();

  // The latest first.
  StatusOr<std::vector<IncidentRecord>> List(const Query& query);

  // `id`: an incident's id, or how it begins. Texts are made printable, and cut to what a person
  // writes. Returns the whole id. Errors: kNotFound; kInvalidArgument, several ids begin so.
  StatusOr<std::string> Acknowledge(const std::string& id, const Acknowledgement& by);

  // Forgets what is too old, and the oldest incidents of a file that is too large; call it hourly.
  Status Retain(uint64_t now_ns);

 private:
  class Impl;
  explicit IncidentStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_INCIDENT_STORE_H_
