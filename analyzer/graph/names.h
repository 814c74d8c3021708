// Names for people: ranks, communicators, operations.
#ifndef GORDIAN_ANALYZER_GRAPH_NAMES_H_
#define GORDIAN_ANALYZER_GRAPH_NAMES_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/graph/execution_graph.h"
#include "analyzer/graph/incarnations.h"
#include "analyzer/graph/matcher.h"

namespace gordian::graph {

const char* Name(Call);      // "AllReduce"
const char* Name(WaitKind);  // "cudaStreamSynchronize"

// A snapshot: made anew whenever something is reported.
//
// A rank is the environment's when every process has one and none holds two members of one
// communicator; else the rank in the largest, then oldest, communicator of the (process, device),
// or its place among all of them by process id where those ranks are not unique.
class Names {
 public:
  Names(const ExecutionGraph&, const Matcher&);

  int Rank(ProcessId, int device = -1) const;  // -1: not known
  int MemberRank(int comm, int rank) const;    // falls back to the rank itself
  int KernelRank(const Kernel&) const;
  std::vector<int> AllRanks(ProcessId) const;

  std::string Comm(int comm) const;                   // "dp", "comm A (4 ranks)"
  std::string CommName(int comm) const;               // "dp", "comm A"
  std::string Operation(Call, const PartRef&) const;  // "AllReduce #3 on dp", "Send #0 to 1 on pp"
  std::string Init(const InitCall&) const;            // "CommSplit of dp"
  std::string RankOf(ProcessId) const;                // "rank 1", "process 4711"

  const Incarnations& incarnations() const { return incarnations_; }
  int seen() const { return seen_; }
  int expected() const { return expected_; }

 private:
  const ExecutionGraph& execution_;
  const Matcher& matcher_;
  const Incarnations incarnations_;
  bool by_environment_ = false;
  std::map<std::pair<ProcessId, int>, int> by_device_;
  int seen_ = 0, expected_ = 0;
};

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 2"; upper: "Rank", "Ranks".
std::string RankList(const std::vector<int>& ranks, bool upper = false);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_NAMES_H_
