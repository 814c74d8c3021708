// Which deadlocks another order of a run's calls could meet, by a graph alone.
//
// Nodes are the starts and the ends of calls. An arrow says that one could have to wait for the
// other, in the recorded order or in one that the threads are free to take. A cycle that needs at
// least one order that was not the recorded one is a candidate. This is lock-order analysis (K.
// Havelund, Using Runtime Analysis to Guide Model Checking of Java Programs, SPIN 2000, "Goodlock";
// the kernel's lockdep) with ranks in the place of threads and collectives in the place of locks.
// What orders two calls in every run, as a guard does there, leaves no arrow against that order.
//
// Calls are folded where it does not matter which of them is meant: of a thread's calls on a resource
// only the first that may wait has an arrow, since it leads to those behind it; and of a thread's
// calls that fold alike, use the same and are in one component, the graph looks for a cycle until
// the first is found. So time and memory are linear in the calls, by the rank's threads.
//
// The graph stands for one with an arrow for every wait that the job can have. So calls without a
// candidate cannot deadlock; a candidate need not be reachable, which a search (explorer.h)
// decides.
//
// Pure, deterministic.
#ifndef GORDIAN_ANALYZER_EXPLORE_COLLECTIVE_ORDER_GRAPH_H_
#define GORDIAN_ANALYZER_EXPLORE_COLLECTIVE_ORDER_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gordian::explore {

// A call of a recorded run. Resources are numbers: the rank's streams, communicators and events.
struct OrderedCall {
  size_t actor = 0;                 // the host thread
  size_t group = 0;                 // its rank
  uint64_t fold = 0;                // equal for calls that a person would not tell apart
  std::vector<uint32_t> instances;  // of its operations: the same at all members
  std::vector<uint32_t> adds;       // resources that it puts work on
  std::vector<uint32_t> awaits;     // ... whose work until now it, or its work, waits for
  // When it began and returned, by a clock of its rank. Of two calls that overlapped it is not known
  // which one's work came first.
  uint64_t begun = 0, returned = 0;
  bool blocks = false;        // its thread goes on only when what the call waits for is done
  std::vector<size_t> after;  // calls of other threads of the rank that come first in every run
};

// An order that was not the recorded one, or may not have been: both are indices of calls.
using Reversal = std::pair<size_t, size_t>;  // the first is called before the second

struct Candidate {
  std::vector<size_t> calls;          // operations of the cycle, in its order
  std::vector<Reversal> reversals;    // at least one
  std::vector<Reversal> as_recorded;  // orders of free calls that the cycle needs too
};

struct Candidates {
  // The shortest cycle through each reversal that is in one, of arrows that do not contradict it; of
  // reversals whose calls fold alike, only the first.
  std::vector<Candidate> found;
  bool all = true;  // false: there may be more than these
};

// `calls`: each thread's in its order, and those of a rank in the recorded order.
Candidates FindCandidates(const std::vector<OrderedCall>& calls, size_t most = 100);

}  // namespace gordian::explore

#endif  // GORDIAN_ANALYZER_EXPLORE_COLLECTIVE_ORDER_GRAPH_H_
