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
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/exporters/stream_order.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/waits/wait_drawing.h"
#include "analyzer/session/analysis.h"

namespace gordian::exporters {

struct LoggedGroup {
  std::string name;              // as reports name the communicator
  std::vector<int> ranks;        // of the job, by member
  std::set<int> seen;            // those that made it
  std::vector<bool> known;       // by member: its rank is seen, and not taken from the communicator
  std::vector<uint64_t> called;  // by member: its collectives so far
  std::string given;             // NCCL's name for it; empty: none
  bool unsure = false;           // not all of its operations can be followed
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

// Takes what is logged as it becomes known, for formats that must not hold a whole job. References
// are valid during the call only.
class OperationSink {
 public:
  virtual ~OperationSink() = default;
  // As TraceObserver's.
  virtual void OnRecord(const model::CallRecord& record) = 0;
  virtual void OnEvent(const v1::Event& event) = 0;
  // An operation whose fate is known; of a stream in the order of calls. Without its site's text.
  virtual void OnOperation(const LoggedOperation& operation) = 0;
  // After the last operations, which are the unfinished ones.
  virtual void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) = 0;
};

// What a format asks for beside the operations.
enum class Wants : uint8_t { kNoMore, kWaitForGraph, kStreamOrder, kVerdictSites };

class OperationLog final : public analyzer::TraceObserver {
 public:
  // `keep` operations of each rank at most, its last ones, and all that are unfinished; 0: all.
  // sink: gets the operations instead of ranks(); may be null.
  OperationLog(size_t keep, Wants wants, OperationSink* sink = nullptr)
      : keep_(keep), wants_(wants), sink_(sink) {}

  void OnRecord(const model::JobModel& model, const model::CallRecord& record) override;
  void OnEvent(const model::JobModel& model, const v1::Event& event) override;
  void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) override;

  // Valid after AtEnd.
  const std::vector<LoggedGroup>& groups() const { return groups_; }
  const std::map<int, LoggedRank>& ranks() const { return ranks_; }  // with a sink, no operations
  // What waits at the round that brought the verdict; without a problem, at the last round.
  const model::WaitDrawing& waits() const { return waits_; }
  const StreamOrder& stream_order() const { return stream_order_; }
  // The sites of the verdict's findings, by their short form. Of two with the same one neither has
  // a file.
  const std::map<std::string, analyzer::CallSite>& verdict_sites() const { return verdict_sites_; }
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
  // An entry, whose place may have been given to another one since.
  struct Handle {
    size_t place = 0;
    uint64_t order = 0;
  };
  struct Caller {                  // a thread
    std::optional<Handle> open;    // the operation that it is in
    std::vector<Handle> in_group;  // those of its ncclGroup
    uint32_t group = 0;
    uint32_t batch = 0;
  };
  static PartKey KeyOf(const model::PartRef& part) {
    return {static_cast<int>(part.kind), part.comm, part.rank, part.peer, part.sequence};
  }

  void OnOperation(const model::JobModel& model, const model::CallRecord& record);
  void OnEnd(const model::CallRecord& record);
  void Refuse(const model::CallRecord& by, const Handle& handle);
  size_t Place(Entry entry);
  // Hands settled entries, which are no longer open, to the sink.
  void HandOver(std::vector<size_t>* settled);
  void Settle(const model::JobModel& model);
  void Draw(const model::JobModel& model, uint64_t now_ns);
  void AddUnlogged(const model::JobModel& model);
  void ResolveVerdict(const model::Verdict& verdict, analyzer::CallSites* sites);
  void Hand(const model::JobModel& model, analyzer::CallSites* sites);

  const size_t keep_;
  const Wants wants_;
  OperationSink* const sink_;
  std::vector<Entry> entries_;
  std::vector<size_t> free_;                                      // places in it, with a sink
  std::map<model::ProcessId, std::deque<LoggedOperation>> last_;  // with a sink: the `keep_` last
  std::vector<size_t> open_;  // places of those that are not known to be done
  std::map<std::pair<model::ProcessId, model::ThreadId>, Caller> callers_;
  std::map<model::ProcessId, uint32_t> pids_;
  uint64_t captured_ = 0, unplaced_ = 0, refused_ = 0;
  uint64_t first_ns_ = 0, last_ns_ = 0;

  std::vector<LoggedGroup> groups_;
  std::map<int, LoggedRank> ranks_;
  model::WaitDrawing waits_;
  StreamOrder stream_order_;
  std::map<std::string, analyzer::CallSite> verdict_sites_;
  bool drawn_problem_ = false, drawn_proof_ = false;
  std::vector<std::string> notes_;
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_OPERATION_LOG_H_
