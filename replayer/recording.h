// The calls of a recorded job, each begun and ended call as one, kept small: a trace of a million
// records is held whole while it is not yet known which of them matter. Pure; whoever reads the
// trace feeds it what the wait model is fed.
#ifndef GORDIAN_REPLAYER_RECORDING_H_
#define GORDIAN_REPLAYER_RECORDING_H_

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "analyzer/graph/event.h"

namespace gordian::replayer {

struct RecordedCall {
  uint64_t order = 0;      // of its begin, among all records of the process
  uint64_t end_order = 0;  // 0: it has not returned
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
  int32_t content = -1;  // launches of graphs: place in RecordedProcess::graphs; -1: no operations
  int32_t result = 0;
  uint16_t call_id = 0;
  graph::Call call = graph::Call::kOther;
  graph::WorkKind work = graph::WorkKind::kNone;
  graph::WaitKind wait = graph::WaitKind::kNone;
  uint8_t flags = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;

  bool IsOperation() const {
    return call >= graph::Call::kAllReduce && call <= graph::Call::kRecv;
  }  // of NCCL, on a communicator
  bool Returned() const { return end_order != 0; }
  bool InGroup() const { return (flags & graph::kInGroup) != 0; }
  bool Captured() const { return (flags & graph::kCapturing) != 0; }
};

struct RecordedProcess {
  std::vector<RecordedCall> calls;  // of each thread in its order; by `order` after Finish()
  // What executable graphs held when they were launched: orders of the captured operations.
  std::vector<std::vector<uint64_t>> graphs;
  std::map<graph::StreamId, uint32_t> streams;  // flags

  // The call that began with this record; null: none did. After Finish().
  const RecordedCall* Find(uint64_t order) const;
};

// Not thread-safe. Records of a thread must come in their order.
class Recording {
 public:
  void OnRecord(const graph::CallRecord& record);
  void Finish();

  const std::map<graph::ProcessId, RecordedProcess>& processes() const { return processes_; }
  // Calls of NCCL's operations, those in graphs once.
  uint64_t operations() const { return operations_; }

 private:
  struct Graphs {  // by handle: place in RecordedProcess::graphs
    std::unordered_map<uint64_t, std::vector<uint64_t>> captures;
    std::unordered_map<uint64_t, int32_t> graphs, execs;
  };
  void OnGraphCall(graph::ProcessId id, const graph::CallRecord& record);

  std::map<graph::ProcessId, RecordedProcess> processes_;
  std::map<graph::ProcessId, Graphs> graphs_;
  std::map<std::pair<graph::ProcessId, graph::ThreadId>, size_t> open_;  // the call that it is in
  uint64_t operations_ = 0;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORDING_H_
