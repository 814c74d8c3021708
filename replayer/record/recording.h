// The calls of a recorded job, kept small: each call's begin and end are one entry, so that a trace
// of a million records fits in memory until it is known which ones matter. Pure: the reader of the
// trace feeds it the wait model's input.
#ifndef GORDIAN_REPLAYER_RECORD_RECORDING_H_
#define GORDIAN_REPLAYER_RECORD_RECORDING_H_

#include <boost/container/deque.hpp>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/model/collective.h"
#include "analyzer/model/facts/event.h"

namespace gordian::replayer {

struct RecordedCall {
  uint64_t order = 0;      // of its begin, among all records of the process
  uint64_t end_order = 0;  // 0: it has not returned
  uint64_t time_ns = 0;    // of its begin, by the clock of rounds
  uint64_t site = 0;
  uint64_t count = 0;
  uint64_t event = 0;  // or the executable graph
  uint32_t thread = 0;
  uint32_t comm = 0;
  uint32_t parent = 0;
  uint32_t stream = 0;
  uint32_t group = 0;
  int32_t root_or_peer = -1;
  int32_t color = -1;
  int32_t content =
      -1;  // for graph launches: index into RecordedProcess::graphs; -1: no operations
  int32_t result = 0;
  uint16_t call_id = 0;
  model::Call call = model::Call::kOther;
  model::WorkKind work = model::WorkKind::kNoWork;
  model::WaitKind wait = model::WaitKind::kNoWait;
  uint8_t flags = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;

  bool IsOperation() const { return model::IsOperation(call); }  // of NCCL, on a communicator
  bool Returned() const { return end_order != 0; }
  bool InGroup() const { return (flags & model::kInGroup) != 0; }
  bool Captured() const { return (flags & model::kCapturing) != 0; }
};

struct RecordedProcess {
  // Each thread's calls in order; sorted by `order` after Finish(). In blocks: a vector would copy
  // the calls of a long job again and again while it grows.
  boost::container::deque<RecordedCall, void,
                          boost::container::deque_options_t<boost::container::block_bytes<8192>>>
      calls;
  // The orders of the captured operations that executable graphs held at launch.
  std::vector<std::vector<uint64_t>> graphs;
  std::map<model::StreamId, uint32_t> streams;  // flags

  // Both valid after Finish(). The call that began with this record; null if none did.
  const RecordedCall* Find(uint64_t order) const;
  // The end of the group that holds this call; null if it is not recorded.
  const RecordedCall* GroupEndOf(const RecordedCall& call) const;
};

// Not thread-safe. Feed a thread's records in order.
class Recording {
 public:
  void OnRecord(const model::CallRecord& record);
  void Finish();

  const std::map<model::ProcessId, RecordedProcess>& processes() const { return processes_; }
  // Number of NCCL operations called; captured ones count once.
  uint64_t operations() const { return operations_; }
  // Number of records of torch.distributed without NCCL, which replays do not make.
  uint64_t host_operations() const { return host_operations_; }

 private:
  struct Graphs {  // by handle: index into RecordedProcess::graphs
    std::unordered_map<uint64_t, std::vector<uint64_t>> captures;
    std::unordered_map<uint64_t, int32_t> graphs, execs;
  };
  void OnGraphCall(model::ProcessId id, const model::CallRecord& record);

  std::map<model::ProcessId, RecordedProcess> processes_;
  std::map<model::ProcessId, Graphs> graphs_;
  std::map<std::pair<model::ProcessId, model::ThreadId>, size_t>
      open_;  // the call that each thread is in
  uint64_t operations_ = 0;
  uint64_t host_operations_ = 0;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_RECORDING_H_
