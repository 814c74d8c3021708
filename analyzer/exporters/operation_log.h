// The operations of a recorded job, rank by rank, for those who write them down in another format:
// which operation, with what arguments, and how far it got. Made while a trace is analyzed.
//
// An operation is done as of the round that found it so: rounds come every 100 ms at best. Left
// out, and counted: operations that NCCL refused, those whose records were lost, and completed ones
// of CUDA graphs. The model knows the unfinished ones of the last two: these are there.
#ifndef GORDIAN_ANALYZER_EXPORTERS_OPERATION_LOG_H_
#define GORDIAN_ANALYZER_EXPORTERS_OPERATION_LOG_H_

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/collective.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/session/analysis.h"

namespace gordian::exporters {

struct LoggedGroup {
  std::string name;        // as reports name the communicator
  std::vector<int> ranks;  // of the job, by member
  std::set<int> seen;      // those that made it
};

enum class Progress : uint8_t {
  kCalled,   // something unfinished stands before it at its rank
  kStarted,  // nothing does
  kDone,
  kAborted,
};
const char* Name(Progress);  // "called"

struct LoggedOperation {
  model::Call call = model::Call::kOther;
  int group = -1;  // index into OperationLog::groups()
  int member = -1;
  int root_or_peer = -1;  // member; of collectives without a root -1
  uint64_t sequence = 0;  // as in proto/ring/record.h
  uint64_t count = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  uint32_t stream = 0;
  uint32_t thread = 0;
  uint32_t batch = 0;      // of its thread: the same for operations of one ncclGroup; 0: none
  uint32_t process = 0;    // model::ProcessId
  uint64_t order = 0;      // among the calls of its process
  uint64_t called_ns = 0;  // monotonic
  uint64_t done_ns = 0;    // 0: it is not
  Progress progress = Progress::kCalled;
  uint64_t site_address = 0;
  analyzer::CallSite site;

  bool IsTransfer() const { return model::IsTransfer(call); }
};

struct LoggedRank {
  uint32_t pid = 0;
  std::vector<LoggedOperation> operations;  // in the order of the calls
};

class OperationLog final : public analyzer::TraceObserver {
 public:
  // `keep` operations of each rank at most, its last ones, and all that are unfinished; 0: all.
  // wait_for_graph: wants wait_for_dot().
  OperationLog(size_t keep, bool wait_for_graph) : keep_(keep), want_dot_(wait_for_graph) {}

  void OnRecord(const model::JobModel& model, const model::CallRecord& record) override;
  void OnEvent(const model::JobModel& model, const v1::Event& event) override;
  void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) override;

  // Valid after AtEnd.
  const std::vector<LoggedGroup>& groups() const { return groups_; }
  const std::map<int, LoggedRank>& ranks() const { return ranks_; }
  // What waits at the round that brought the verdict; without a problem, at the last round.
  const std::string& wait_for_dot() const { return dot_; }
  uint64_t first_ns() const { return first_ns_; }  // of the first and the last fact
  uint64_t last_ns() const { return last_ns_; }
  // What is left out, for people; one line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Entry {
    LoggedOperation operation;
    model::PartRef part;
    bool seen = false;     // the model knew it
    bool refused = false;  // by NCCL
  };
  struct PartKey {
    int kind, comm, rank, peer;
    uint64_t sequence;
    auto operator<=>(const PartKey&) const = default;
  };
  struct Caller {                  // a thread
    size_t open = 0;               // the place + 1 of the operation that it is in
    std::vector<size_t> in_group;  // places of those of its ncclGroup
    uint32_t group = 0;
    uint32_t batch = 0;
  };
  static PartKey KeyOf(const model::PartRef& part) {
    return {static_cast<int>(part.kind), part.comm, part.rank, part.peer, part.sequence};
  }

  void OnOperation(const model::JobModel& model, const model::CallRecord& record);
  void OnEnd(const model::CallRecord& record);
  void Settle(const model::JobModel& model);
  void Draw(const model::JobModel& model, uint64_t now_ns);
  void AddUnlogged(const model::JobModel& model);
  void Hand(const model::JobModel& model, analyzer::CallSites* sites);

  const size_t keep_;
  const bool want_dot_;
  std::vector<Entry> entries_;
  std::vector<size_t> open_;  // places of those that are not known to be done
  std::map<std::pair<model::ProcessId, model::ThreadId>, Caller> callers_;
  std::map<model::ProcessId, uint32_t> pids_;
  uint64_t captured_ = 0, unplaced_ = 0, refused_ = 0;
  uint64_t first_ns_ = 0, last_ns_ = 0;

  std::vector<LoggedGroup> groups_;
  std::map<int, LoggedRank> ranks_;
  std::string dot_;
  bool drawn_problem_ = false, drawn_proof_ = false;
  std::vector<std::string> notes_;
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_OPERATION_LOG_H_
