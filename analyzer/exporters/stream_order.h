// Which operations of a process an operation was put behind: by its stream's order, by CUDA events
// that its stream waited for, and by the host, which waited before it called. For formats that keep
// such an order. What CUDA orders without being asked, with the legacy stream, is left out.
#ifndef GORDIAN_ANALYZER_EXPORTERS_STREAM_ORDER_H_
#define GORDIAN_ANALYZER_EXPORTERS_STREAM_ORDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "analyzer/model/facts/event.h"

namespace gordian::exporters {

// Not thread-safe. Grows with the records that it takes.
class StreamOrder {
 public:
  void OnRecord(const model::CallRecord& record);

  // By the order (CallRecord::order) of each operation in `operations`: the orders of those among
  // them that it follows at once, ascending. It leaves out all others.
  using Edges = std::map<uint64_t, std::vector<uint64_t>>;
  Edges Of(model::ProcessId process, const std::set<uint64_t>& operations) const;

 private:
  enum class Step : uint8_t {
    kOperation,
    kRecord,
    kForget,
    kWait,
    kHostStream,
    kHostEvent,
    kHostAll
  };
  struct Fact {
    uint64_t order = 0;
    Step step = Step::kOperation;
    model::ThreadId thread = 0;
    model::StreamId stream = 0;
    uint64_t event = 0;
  };
  std::map<model::ProcessId, std::vector<Fact>> facts_;
  // Host waits that have begun, by process and thread: what a wait's end lets go on.
  std::map<std::pair<model::ProcessId, model::ThreadId>, Fact> waiting_;
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_STREAM_ORDER_H_
