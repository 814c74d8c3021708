// What each rank is doing and how far each communicator has got, for people who watch a live job.
// Plain data from the model; decides nothing.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_JOB_SNAPSHOT_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_JOB_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/model/facts/event.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

class ExecutionGraph;
class Matcher;
class Names;

enum class RankState : uint8_t { kRunning, kInCall, kStopped, kEnded };

const char* Name(RankState);  // "in_call"

struct RankSnapshot {
  int rank = -1;  // -1: not known
  ProcessId process = 0;
  uint32_t pid = 0;
  int incarnation = 1;  // 2: restarted once
  RankState state = RankState::kRunning;
  uint16_t call_id = 0;   // the call it is in; of several threads' calls the longest
  std::string call;       // a name if call_id is unknown; "": in no call
  std::string operation;  // the oldest unfinished one: "AllReduce #3 on dp"
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
  std::vector<int> ranks;  // of the job, ascending: the members that gordian saw
  int ranks_seen = 0;
  int made_by = -1;  // the rank that `made_at` is of; -1: that call was not seen
  Site made_at;
  bool destroyed = false;  // by every member that gordian saw
  // The last collective that the slowest and the fastest member have called; -1: none yet.
  int64_t sequence_min = -1, sequence_max = -1;
  std::vector<int> behind;         // ranks that have not called sequence_max
  std::vector<int64_t> behind_by;  // how many calls each of them lacks
};

struct JobSnapshot {
  std::vector<RankSnapshot> ranks;          // by rank
  std::vector<CommSnapshot> communicators;  // by first appearance
  uint64_t last_progress_ns = 0;            // of any rank
  uint64_t now_ns = 0;                      // time of the latest fact
};

// As in the snapshot: the lowest rank of each process that has one.
std::map<ProcessId, int> RanksNow(const ExecutionGraph&, const Names&);

// The process that holds each of these ranks now. A rank that several claim names none of them.
std::map<int, ProcessId> HoldersOf(const ExecutionGraph&, const Names&, const std::set<int>& ranks);
std::vector<ProcessId> ProcessesOf(const ExecutionGraph&, const Names&, const std::set<int>& ranks);

JobSnapshot TakeSnapshot(const ExecutionGraph&, const Matcher&, uint64_t now_ns);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_JOB_SNAPSHOT_H_
