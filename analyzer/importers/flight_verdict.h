// Decides what Flight Recorder dumps of a job prove, by the wait model's rules W1 (rendezvous), W5
// (not called) and W8 (order on one communicator); for the other rules the dumps hold nothing.
//
// A rank that has an operation open waits for every member that has not called it. The waiting ends
// at a rank that waits for no other and has not called an operation that others wait for; if it
// ends nowhere, the ranks wait in a cycle. Dumps hold no device progress, so every finding is a
// suspicion.
#ifndef GORDIAN_ANALYZER_IMPORTERS_FLIGHT_VERDICT_H_
#define GORDIAN_ANALYZER_IMPORTERS_FLIGHT_VERDICT_H_

#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::importers {

model::Verdict DecideFlightDumps(const std::vector<FlightDump>& dumps);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_VERDICT_H_
