// What Flight Recorder dumps of a job prove, by the wait model's rules W1 (rendezvous), W5 (not
// called) and W8 (order on one communicator); the dumps hold nothing for the others.
//
// An operation that a rank has open waits for every member that has not called it. A rank that
// waits for nobody, and has not called what others wait for, is where the waiting ends. If the
// waiting ends nowhere, it goes in a circle. Device progress is not in the dumps: every finding is
// a suspicion.
#ifndef GORDIAN_ANALYZER_IMPORTERS_FLIGHT_VERDICT_H_
#define GORDIAN_ANALYZER_IMPORTERS_FLIGHT_VERDICT_H_

#include <vector>

#include "analyzer/graph/verdict.h"
#include "analyzer/importers/flight_recorder.h"

namespace gordian::importers {

graph::Verdict DecideFlightDumps(const std::vector<FlightDump>& dumps);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_VERDICT_H_
