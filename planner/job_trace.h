// A recorded job as the planner reads it: for each process the calls that order or time its work,
// in the order in which they were made. Pure; whoever reads trace files feeds it
// graph::CallRecords.
#ifndef GORDIAN_PLANNER_JOB_TRACE_H_
#define GORDIAN_PLANNER_JOB_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/graph/event.h"

namespace gordian::planner {

struct JobCall {
  graph::ThreadId thread = 0;
  uint64_t order = 0;  // of its begin, among all of the process
  uint64_t end_order = 0;
  uint64_t begin_ns = 0, end_ns = 0;  // equal for what cannot block
  graph::Call call = graph::Call::kOther;
  graph::WorkKind work = graph::WorkKind::kNone;
  graph::WaitKind wait = graph::WaitKind::kNone;
  int comm = -1;  // index into JobTrace::comms
  graph::StreamId stream = 0;
  uint64_t event = 0;
  uint64_t ordinal = 0;  // on its stream
  uint64_t count = 0;
  uint64_t sequence = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  int32_t root_or_peer = -1;
  uint32_t group = 0;  // 0: in none
};

inline bool IsOperation(graph::Call call) {
  return call >= graph::Call::kAllReduce && call <= graph::Call::kRecv;
}

struct JobComm {
  graph::CommUid uid = 0;
  int color = -1;
  std::string name;                         // may be empty
  int size = 0;                             // as its members say
  std::map<int, graph::ProcessId> members;  // rank in it -> process
};
std::string NameOf(const JobComm& comm, int index);

struct JobProcess {
  graph::ProcessId process = 0;
  int rank = -1;                                // in the job
  std::map<graph::StreamId, uint32_t> streams;  // flags
  std::vector<JobCall> calls;                   // by order
  bool memory_waits = false;                    // a stream of it waits for values in memory
  bool signal_waits = false;                    // or for signals of other ranks (RMA)
  bool graphs = false;                          // it launches CUDA graphs
  std::map<graph::CommId, int> comm_of;
};

// Feed records in any order that keeps each process's own order by thread; then Finish().
class JobTrace {
 public:
  void OnProcess(graph::ProcessId process, int env_rank);
  void OnRecord(const graph::CallRecord& record);
  // Sorts calls, and gives ranks: those of the environment where all have one, else those in the
  // largest communicator.
  void Finish();

  const std::map<graph::ProcessId, JobProcess>& processes() const { return processes_; }
  const std::vector<JobComm>& comms() const { return comms_; }

 private:
  JobProcess& Process(graph::ProcessId process);
  void OnCommInit(JobProcess& process, const graph::CallRecord& record);

  std::map<graph::ProcessId, JobProcess> processes_;
  std::vector<JobComm> comms_;
  std::map<std::pair<graph::CommUid, int>, int> by_uid_;
  std::map<std::pair<graph::ProcessId, graph::ThreadId>, size_t> open_;
  std::map<std::pair<graph::ProcessId, graph::CommId>, graph::CallRecord> inits_;
  std::map<std::pair<graph::ProcessId, graph::CommId>, std::string>
      names_;  // told before the init's end
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_JOB_TRACE_H_
