// Makes names for people: of ranks, communicators, operations.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_NAMES_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_NAMES_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/facts/incarnations.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/comm_names.h"

namespace gordian::model {

const char* Name(Call);       // "AllReduce"
const char* TorchName(Call);  // of torch.distributed: "all_reduce"
const char* Name(const InitCall&);
const char* Name(WaitKind);  // "cudaStreamSynchronize"

// A snapshot of all names, made at the first question of a report (most rounds ask none). Its
// sources must not change while it exists. Not thread-safe.
//
// A rank is the environment's if every process has one and none holds two members of one
// communicator; else the rank of the (process, device) in its largest, then oldest, communicator,
// or, if those ranks are not unique, its position among all of them by process id. Two processes
// with one rank that share no communicator, directly or through others, are of two jobs, which keep
// their ranks.
class Names {
 public:
  Names(const ExecutionGraph& execution, const Matcher& matcher)
      : execution_(execution), matcher_(matcher) {}

  int Rank(ProcessId, int device = -1) const;  // -1: unknown
  int MemberRank(int comm, int rank) const;    // falls back to the rank itself
  int LaunchRank(const Launch&) const;
  std::vector<int> AllRanks(ProcessId) const;

  MemberRanks Members(int comm) const;
  std::string Comm(int comm) const;  // see comm_names.h; with the size where members are left out
  const std::string& CommName(int comm) const;
  std::string Operation(Call, const PartRef&) const;  // "AllReduce #3 on dp", "Send #0 to 1 on pp"
  // As the library names it that the communicator belongs to.
  const char* OperationName(Call, int comm) const;
  std::string Captured(Call, const PartRef&) const;  // "AllReduce (captured) on dp"
  std::string NameOf(const Launch&) const;  // of its first operation; "WaitSignal from 1 on pair"
  std::string Signal(int comm, int destination, uint64_t number) const;  // "signal #2 to 0 on pair"
  std::string Init(const InitCall&) const;                               // "CommSplit of dp"
  std::string RankOf(ProcessId) const;                                   // "rank 1", "process 4711"
  // What of the process is out of sight: "records of rank 1 were lost", or what else it is.
  std::string Lost(const Process&) const;
  // All of that, a text each: "12 records of rank 1".
  std::vector<std::string> AllLost(const Process&) const;

  // Several jobs run, or ran, under one gordian: a rank's number alone does not say whose it is.
  bool several_jobs() const { return Known().several_jobs || incarnations().JobsBefore(); }
  // The processes that share communicators with this one, directly or through others; itself.
  std::set<ProcessId> JobOf(ProcessId) const;

  const Incarnations& incarnations() const { return Known().incarnations; }
  // The communicator is of an earlier start of the job: Incarnations::Past of its members.
  bool OfEarlierStart(int comm) const;
  int seen() const { return Known().seen; }
  // At least so many ranks have made a communicator out of gordian's sight.
  int unseen() const { return Known().unseen; }
  int expected() const { return Known().expected; }

 private:
  std::string OfPart(std::string text, const PartRef&) const;
  struct Ranks {
    Ranks(const ExecutionGraph&, const Matcher&);

    const Incarnations incarnations;
    bool by_environment = false;
    bool several_jobs = false;
    std::map<std::pair<ProcessId, int>, int> by_device;
    int seen = 0, expected = 0, unseen = 0;
  };
  const Ranks& Known() const {
    if (!ranks_) ranks_.emplace(execution_, matcher_);
    return *ranks_;
  }

  const ExecutionGraph& execution_;
  const Matcher& matcher_;
  mutable std::optional<Ranks> ranks_;
  mutable std::optional<std::vector<std::string>> comm_names_;
};

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 2"; upper: "Rank", "Ranks".
std::string RankList(const std::vector<int>& ranks, bool upper = false);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_NAMES_H_
