// The calls of a session in the form of Flight Recorder dumps, so that they can be decided together
// with the dumps of ranks that the session has not seen.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_ANALYZER_MERGE_SESSION_CALLS_H_
#define GORDIAN_ANALYZER_MERGE_SESSION_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/exporters/formats.h"
#include "analyzer/importers/flight_recorder.h"

namespace gordian::merge {

// Operations that a session is asked for, of each rank: as many as PyTorch's recorder holds.
inline constexpr size_t kSessionOperations = 2000;

struct SessionGroup {
  importers::FlightGroup group;   // by member; kUnknownMember: the session has not seen it
  std::string name;               // as reports name the communicator
  std::string given;              // the program's name for it; empty: none
  std::set<int> seen;             // ranks of the job
  std::map<int, int64_t> called;  // by rank: the number of its last collective, 0: none
  bool unsure = false;            // not all of its operations can be followed
  bool transfers = false;         // it has sends or receives
  // They are counted from the first one on, so that their numbers are those of PyTorch.
  bool all_transfers = true;
};

struct SessionCalls {
  std::vector<importers::FlightDump> dumps;    // by rank
  std::map<std::string, SessionGroup> groups;  // by FlightGroup::Key()
  int world = 0;                               // ranks of the job, as far as the session tells
  uint64_t lost = 0;                           // records
};

// Numbers collectives of a communicator as ProcessGroupNCCL does, from 1. Sends and receives are
// entries of a group of their own, "... transfers", but for communicators of two that have nothing
// else: their numbers count the calls of a rank, and a batch once.
SessionCalls CallsOfSession(const exporters::Job& job);

}  // namespace gordian::merge

#endif  // GORDIAN_ANALYZER_MERGE_SESSION_CALLS_H_
