// Which recorded calls belong to what a job has not finished. Implementation of unfinished.h.
#ifndef GORDIAN_REPLAYER_NEEDED_CALLS_H_
#define GORDIAN_REPLAYER_NEEDED_CALLS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "replayer/unfinished.h"

namespace gordian::replayer {

struct NeededCall {
  const RecordedCall* call = nullptr;
  bool witness = false;  // the verdict names it
  int graph = -1;        // captured operations: place in RecordedProcess::graphs
};

struct NeededCalls {
  std::map<graph::ProcessId, std::map<uint64_t, NeededCall>> by_process;  // by order
  std::set<int> comms;            // that they are about: indices into Matcher::comms()
  std::set<std::string> refused;  // why they cannot be replayed
  // What a thread outside of all calls polls: an event, or a stream.
  struct Poll {
    uint64_t event = 0;
    graph::StreamId stream = 0;
  };
  std::map<std::pair<graph::ProcessId, graph::ThreadId>, Poll> polls;

  bool Has(graph::ProcessId process, uint64_t order) const {
    const auto calls = by_process.find(process);
    return calls != by_process.end() && calls->second.contains(order);
  }
};

NeededCalls FindNeededCalls(const JobFacts& facts);

// The communicator that a call is about, as an index into Matcher::comms(); -1: none, or not known.
int CommOf(const JobFacts& facts, graph::ProcessId process, uint32_t comm);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_NEEDED_CALLS_H_
