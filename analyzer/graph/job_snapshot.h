// What each rank is doing and how far each communicator has got, for people who look at a job that
// lives. Plain data, taken from the model; it decides nothing.
#ifndef GORDIAN_ANALYZER_GRAPH_JOB_SNAPSHOT_H_
#define GORDIAN_ANALYZER_GRAPH_JOB_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/graph/event.h"
#include "analyzer/graph/verdict.h"

namespace gordian::graph {

class ExecutionGraph;
class Matcher;
class Names;

enum class RankState : uint8_t { kRunning, kInCall, kStopped, kEnded };

const char* Name(RankState);  // "in_call"

struct RankSnapshot {
  int rank = -1;  // -1: not known
  ProcessId process = 0;
  uint32_t pid = 0;
  int incarnation = 1;  // 2: it was started again once
  RankState state = RankState::kRunning;
  uint16_t call_id = 0;   // of the call that it is in, longest if several threads are in one
  std::string call;       // a name for it when call_id is unknown; "": in none
  std::string operation;  // the oldest that it has not finished: "AllReduce #3 on dp"
  std::string ending;     // "exited with code 3"
  uint64_t since_ns = 0;  // in this state; 0: not known
  Site site;              // of the call
  uint64_t nccl_calls = 0;
};

struct CommSnapshot {
  std::string name;
  CommUid uid = 0;
  int color = 0;
  int size = 0;
  int ranks_seen = 0;
  bool destroyed = false;  // by every member that was seen
  // The last collective that the slowest and the fastest member have called; -1: none yet.
  int64_t sequence_min = -1, sequence_max = -1;
  std::vector<int> behind;  // ranks that have not called sequence_max
};

struct JobSnapshot {
  std::vector<RankSnapshot> ranks;          // by rank
  std::vector<CommSnapshot> communicators;  // in the order in which they were first seen
  uint64_t last_progress_ns = 0;            // of any rank
  uint64_t now_ns = 0;                      // time of the latest fact
};

// As in the snapshot: the lowest rank of each process that has one.
std::map<ProcessId, int> RanksNow(const ExecutionGraph&, const Names&);

JobSnapshot TakeSnapshot(const ExecutionGraph&, const Matcher&, uint64_t now_ns);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_JOB_SNAPSHOT_H_
