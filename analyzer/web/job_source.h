// The jobs of one gordian, for its page and for metrics.
#ifndef GORDIAN_ANALYZER_WEB_JOB_SOURCE_H_
#define GORDIAN_ANALYZER_WEB_JOB_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/web/page_document.h"
#include "common/status.h"

namespace gordian::web {

struct JobSummary {
  std::string job;  // names it in addresses, so no two of a source have one
  model::Finding main;
  uint64_t revision = 0;
  uint64_t changes = 0;  // differs when anything but times has changed
  bool job_ended = false;
  bool live = false;
  double since_progress_s = -1;
  std::string started;             // UTC; empty: not known
  std::vector<std::string> nodes;  // for the search; of very many the first
};

// Thread-safe.
class JobSource {
 public:
  virtual ~JobSource() = default;
  // The oldest first. Quick.
  virtual std::vector<JobSummary> Jobs() = 0;
  // May take long. Error: there is no such job.
  virtual StatusOr<PageParts> Look(const std::string& job) = 0;
  // Its status alone, for metrics; "": it has none.
  virtual std::string StatusJson(const std::string& job) = 0;
  // gordian.incidents.v1; "": this source keeps none. May take long.
  virtual std::string IncidentsJson() { return ""; }
  // Differs once IncidentsJson does; quick. Nothing: there is none to show.
  virtual std::optional<uint64_t> IncidentChanges() { return std::nullopt; }
  // Returns the incident's whole id. May take long. Errors: kNotFound, there is no such incident;
  // kInvalidArgument, several ids begin so; others: it cannot be kept.
  virtual StatusOr<std::string> Acknowledge(const std::string& id, const std::string&,
                                            const std::string&) {
    return Status::NotFound("no incident has the id " + id);
  }
};

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_JOB_SOURCE_H_
