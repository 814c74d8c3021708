// Judges, of each NCCL communicator of a recorded job, whether --on-verdict recover could take it
// from NCCL (docs/recovery.md), by the calls that the job has made so far, whether it hangs or not.
//
// The records show neither whether a pool will have room nor the cycle that may come: a judgement
// holds for the calls that the records have.
#ifndef GORDIAN_CLI_DOCTOR_RECOVERY_OUTLOOK_H_
#define GORDIAN_CLI_DOCTOR_RECOVERY_OUTLOOK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/recovery.h"
#include "analyzer/session/analysis.h"

namespace gordian::cli {

struct CommOutlook {
  struct Hindrance {
    model::RecoveryCondition condition = model::RecoveryCondition::kHold;
    std::string why;          // "Broadcast can be finished at one end alone"
    uint64_t operations = 0;  // it is of so many, and others could be recovered; 0: of all
    int rank = -1;            // of the first of them; -1: none
    std::string site;         // its line; empty: none
  };
  std::string name;
  std::vector<int> ranks;  // of the job, those seen
  int size = 0;
  uint64_t operations = 0;
  uint64_t in_place = 0;    // those that need a copy of their input
  uint64_t copy_bytes = 0;  // the largest copy
  std::vector<Hindrance> hindrances;

  bool None() const;  // of the communicator, no operation could be recovered
};

class RecoveryOutlook final : public analyzer::TraceObserver {
 public:
  void OnRecord(const model::JobModel& model, const model::CallRecord& record) override;
  void OnEvent(const model::JobModel&, const v1::Event&) override {}
  void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) override;

  // In the order in which the job made them. Valid after AtEnd.
  const std::vector<CommOutlook>& communicators() const { return communicators_; }

 private:
  struct Found {
    uint64_t operations = 0;
    model::ProcessId process = 0;  // of the first
    uint64_t site = 0;
  };
  struct Seen {
    uint64_t operations = 0, in_place = 0, copy_bytes = 0;
    std::map<std::pair<model::RecoveryCondition, std::string>, Found> found;
  };
  void Judge(const model::JobModel& model, const model::Names& names, int index,
             analyzer::CallSites* sites);

  std::map<int, Seen> seen_;  // by index into Matcher::comms()
  std::set<std::pair<model::ProcessId, model::CommId>> registered_;
  std::vector<CommOutlook> communicators_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_DOCTOR_RECOVERY_OUTLOOK_H_
