// Ranks that come back: which processes were, one after the other, the same rank, as an elastic
// launcher starts it again with the same RANK.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_INCARNATIONS_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_INCARNATIONS_H_

#include <set>
#include <unordered_map>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

// A snapshot: made anew whenever something is reported.
//
// A process is replaced when it has ended and another with its rank (of the environment) made its
// first NCCL call after that; or when one that began so late belongs to a job too small for that
// rank: a launcher may go on with fewer. A worker that inherits its rank's environment is no
// successor: it calls no NCCL, or began to while the rank lived. Where all ranks have ended well,
// what replaces them is another job, not a restart.
class Incarnations {
 public:
  explicit Incarnations(const ExecutionGraph&);

  bool Replaced(ProcessId) const;
  // It has called no NCCL, and another process of its rank has, which is not replaced: a worker of
  // that, or about to take its place.
  bool Beside(ProcessId) const;
  // All of them have ended, and some other process has taken the place of one: what was between them
  // is history.
  bool Past(const std::set<ProcessId>&) const;
  int Number(ProcessId) const;  // from 1
  // Ranks have ended well and others have taken their numbers: several jobs, one after the other.
  bool JobsBefore() const { return jobs_before_; }
  // What the report says of it; empty while no rank has come back.
  Restarts Summary() const;

 private:
  void CountJobs();

  struct Incarnation {
    const Process* process = nullptr;
    int number = 1;
    bool replaced = false;
    bool beside = false;
  };
  // Holds the processes that have a rank. The constructor leaves it empty where each rank has one
  // living process.
  std::unordered_map<ProcessId, Incarnation> all_;
  bool jobs_before_ = false;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_INCARNATIONS_H_
