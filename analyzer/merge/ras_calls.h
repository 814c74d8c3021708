// What reports of NCCL RAS add to the calls that sessions and dumps show: how many collectives
// ranks have launched of which neither tells.
//
// Pure.
#ifndef GORDIAN_ANALYZER_MERGE_RAS_CALLS_H_
#define GORDIAN_ANALYZER_MERGE_RAS_CALLS_H_

#include <set>
#include <string>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "analyzer/importers/ras.h"

namespace gordian::merge {

struct RasCalls {
  std::vector<importers::FlightDump> dumps;  // of ranks that `held` lacks
  std::set<int> confirmed;                   // ranks of `held` with the same counts in a report
  std::vector<std::string> matched;          // communicators, for people, one line each
  std::vector<std::string> unclear;
  std::vector<std::string> contradictions;
  std::set<int> contradicted;  // ranks that those are about
  // No count differs between two reports of different times. Else a rank that is behind may have
  // been on its way.
  bool stands = false;
};

// A communicator of the report is a group if it has as many members and, at each one that `held`
// has, as many launches as that has called collectives: then both are of one moment and count
// alike. Where several fit, none is taken. A rank of which some communicator cannot be matched, and
// is ahead of others there, may wait there: it is left out.
RasCalls CallsOfRas(std::vector<importers::RasReport> reports,
                    const std::vector<importers::FlightDump>& held);

}  // namespace gordian::merge

#endif  // GORDIAN_ANALYZER_MERGE_RAS_CALLS_H_
