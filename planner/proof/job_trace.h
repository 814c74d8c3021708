// A recorded job for the planner: for each process, in order, the calls that order or time its
// work. Pure: the reader of the trace feeds it model::CallRecords.
#ifndef GORDIAN_PLANNER_PROOF_JOB_TRACE_H_
#define GORDIAN_PLANNER_PROOF_JOB_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/model/facts/event.h"

namespace gordian::planner {

struct JobCall {
  model::ThreadId thread = 0;
  uint64_t order = 0;  // of its begin, among all of the process
  uint64_t end_order = 0;
  uint64_t begin_ns = 0, end_ns = 0;  // equal for a call that cannot block
  model::Call call = model::Call::kOther;
  model::WorkKind work = model::WorkKind::kNoWork;
  model::WaitKind wait = model::WaitKind::kNoWait;
  int comm = -1;  // index into JobTrace::comms
  model::StreamId stream = 0;
  uint64_t event = 0;
  uint64_t ordinal = 0;  // on its stream
  uint64_t count = 0;
  uint64_t sequence = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  int32_t root_or_peer = -1;
  uint32_t group = 0;  // 0: in none
};

struct JobComm {
  model::CommUid uid = 0;
  int color = -1;
  std::string name;                         // may be empty
  int size = 0;                             // as its members report it
  std::map<int, model::ProcessId> members;  // rank in it -> process
};
std::string NameOf(const JobComm& comm, int index);

struct JobProcess {
  model::ProcessId process = 0;
  int rank = -1;                                // in the job
  std::map<model::StreamId, uint32_t> streams;  // flags
  std::vector<JobCall> calls;                   // sorted by order
  bool memory_waits = false;                    // a stream of it waits for values in memory
  bool signal_waits = false;                    // or for signals of other ranks (RMA)
  bool graphs = false;                          // it launches CUDA graphs
  std::map<model::CommId, int> comm_of;
};

// Feed records in any order that keeps each thread's own order; then call Finish().
class JobTrace {
 public:
  void OnProcess(model::ProcessId process, int env_rank);
  void OnRecord(const model::CallRecord& record);
  // Sorts the calls and assigns ranks: from the environment if all processes have one, else from
  // the largest communicator.
  void Finish();

  const std::map<model::ProcessId, JobProcess>& processes() const { return processes_; }
  const std::vector<JobComm>& comms() const { return comms_; }

 private:
  JobProcess& Process(model::ProcessId process);
  void OnCommInit(JobProcess& process, const model::CallRecord& record);

  std::map<model::ProcessId, JobProcess> processes_;
  std::vector<JobComm> comms_;
  std::map<std::pair<model::CommUid, int>, int> by_uid_;
  std::map<std::pair<model::ProcessId, model::ThreadId>, size_t> open_;
  std::map<std::pair<model::ProcessId, model::CommId>, ring::CommInitPayload> inits_;
  std::map<std::pair<model::ProcessId, model::CommId>, std::string>
      names_;  // of communicators whose init has not ended
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_JOB_TRACE_H_
