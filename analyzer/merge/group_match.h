// Which process group of Flight Recorder dumps is which communicator of a session.
//
// Pure.
#ifndef GORDIAN_ANALYZER_MERGE_GROUP_MATCH_H_
#define GORDIAN_ANALYZER_MERGE_GROUP_MATCH_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "analyzer/merge/session_calls.h"

namespace gordian::merge {

struct GroupMatch {
  std::string session, dumps;  // FlightGroup::Key() of both
  std::string by;              // for people: "members", "members and name", "members and calls"
  bool verified = false;       // an operation of one number is the same one in both
};

struct GroupMatches {
  std::vector<GroupMatch> matches;
  // Why communicators that may be the same are not taken together; one line each.
  std::vector<std::string> unclear;         // nothing tells which is which
  std::vector<std::string> contradictions;  // the sources say different things
  std::set<int> contradicted;               // ranks that those are about
};

// A communicator is a process group if it has as many members and the session's ranks among these
// are those that made it. Where several have, the name that the program gave (NCCL's, or the
// group's name or description) decides, and then what was called; else none is taken. Sources that
// agree in members and differ in what is done contradict each other: they are not taken together
// either, since numbers of calls that do not correspond would blame the innocent.
GroupMatches MatchGroups(const SessionCalls& session,
                         const std::vector<importers::FlightDump>& dumps);

}  // namespace gordian::merge

#endif  // GORDIAN_ANALYZER_MERGE_GROUP_MATCH_H_
