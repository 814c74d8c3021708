// Selects the recorded calls that belong to the unfinished part of a job. Implementation of
// unfinished.h.
#ifndef GORDIAN_REPLAYER_RECORD_NEEDED_CALLS_H_
#define GORDIAN_REPLAYER_RECORD_NEEDED_CALLS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replayer/record/unfinished.h"

namespace gordian::replayer {

struct NeededCall {
  const RecordedCall* call = nullptr;
  bool witness = false;  // the verdict names it
  int graph = -1;        // captured operations: index into RecordedProcess::graphs
};

struct NeededCalls {
  std::map<model::ProcessId, std::map<uint64_t, NeededCall>> by_process;  // by order
  std::set<int> comms;            // indices into Matcher::comms()
  std::set<std::string> refused;  // why they cannot be replayed
  // The calls stand alone: what others have connected, and on which streams they were, is not noted.
  bool alone = false;
  // The event or stream that a thread outside of all calls polls.
  struct Poll {
    uint64_t event = 0;
    model::StreamId stream = 0;
  };
  std::map<std::pair<model::ProcessId, model::ThreadId>, Poll> polls;

  bool Has(model::ProcessId process, uint64_t order) const {
    const auto calls = by_process.find(process);
    return calls != by_process.end() && calls->second.contains(order);
  }
};

NeededCalls FindNeededCalls(const JobFacts& facts);

// The communicator of a call, as an index into Matcher::comms(); -1: none, or unknown.
int CommOf(const JobFacts& facts, model::ProcessId process, uint32_t comm);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_NEEDED_CALLS_H_
