// Makes incidents of verdicts: opens, continues and ends them, keeps them in a store, and alerts.
//
// An incident opens at the first verdict that says trouble, suspected or confirmed. It ends when a
// verdict says that there is none, when its deadlock is disproved, or with the job. A verdict that
// cannot say (inconclusive) ends none. A target gets at most one alert of each kind of an incident,
// also across a restart: alerts are in the store before they are sent.
//
// Trouble with the store is said once (on_line); incidents are then in memory alone, and alerts are
// sent all the same.
#ifndef GORDIAN_ANALYZER_INCIDENTS_INCIDENT_BOOK_H_
#define GORDIAN_ANALYZER_INCIDENTS_INCIDENT_BOOK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/incidents/alert_sender.h"
#include "analyzer/incidents/incident_store.h"
#include "analyzer/session/analysis.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::incidents {

struct BookOptions {
  // The store's folder; called once an hour at most, on the book's thread, until it succeeds.
  std::function<StatusOr<OwnedFolder>()> open_folder;
  StoreOptions store;
  Writer writer;
  std::string node;  // of culprits whose node is not known
  std::vector<AlertTarget> targets;
  bool alert_suspected = false;
  AlertSenderOptions sender;  // its targets and on_done are the book's
  // Whether a writer on this host still runs, for incidents that a killed one left open. Empty: no
  // other writes into the store, and what it left is continued (Resume).
  std::function<bool(const Writer&)> runs;
  std::string sessions_dir;  // before an incident's session, in alerts; empty: it is a whole path
  std::function<void(const std::string&)> on_line;  // for people; any thread
};

// What the book wants to know of a job at one moment.
struct JobNews {
  std::string job;
  std::string session;  // as Incident::session; no other job has it at the same time
  uint64_t revision = 0;
  bool job_ended = false;
  bool killed_by_gordian = false;
  // The user sent a signal that ends jobs: that processes have ended is no trouble.
  bool interrupted = false;
};

// Thread-safe.
class IncidentBook {
 public:
  explicit IncidentBook(BookOptions options);
  ~IncidentBook();  // Stop()
  IncidentBook(const IncidentBook&) = delete;
  IncidentBook& operator=(const IncidentBook&) = delete;

  // Opens the store now instead of at the first trouble.
  void OpenStore();

  // The address of the page, for alerts from here on.
  void SetPage(const std::string& address);

  // Quick: what it costs is paid on the book's thread.
  void OnVerdict(const JobNews& news, const model::Verdict& verdict);

  // After a restart, before OnVerdict of that job: goes on with the incident that an earlier process
  // left open. A verdict without trouble ends nothing here: it may not know all yet.
  void Resume(const JobNews& news, const model::Verdict& verdict);
  // After all Resume: ends what no resumed job has, and sends alerts that are still to be sent.
  void Resumed();

  // All is in the store, and no alert waits.
  bool Idle() const;
  size_t unsent() const;  // alerts

  // gordian.incidents.v1 of one session, or of all (""). "": there is no store.
  std::string Json(const std::string& session) const;

  // As IncidentStore::Acknowledge, of an incident of this session, or of any (""). May take long.
  // Errors also: kNotFound, no incident is kept here; as of IncidentStore::Open.
  StatusOr<std::string> Acknowledge(const std::string& session, const std::string& id,
                                    const Acknowledgement& by);

  // Differs once an incident, an alert's state or an acknowledgement has changed, here or by another
  // process; 0: none did.
  uint64_t changes() const;

  // Writes all that it was told. Alerts that wait stay in the store as such; `give_up`: as given up.
  void Stop(bool give_up = false);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_INCIDENT_BOOK_H_
