// Finds collectives whose members recorded different operations, sizes or types under one number.
//
// Pure.
#ifndef GORDIAN_ANALYZER_IMPORTERS_FLIGHT_MISMATCH_H_
#define GORDIAN_ANALYZER_IMPORTERS_FLIGHT_MISMATCH_H_

#include <functional>
#include <string>
#include <vector>

#include "analyzer/importers/flight_calls.h"

namespace gordian::importers {

struct FlightMismatch {
  FlightOperation operation;
  const char* check = "";     // "mismatch-kind", "mismatch-count" or "mismatch-type"
  std::string disagree;       // "rank 0 has all_reduce; rank 1 has broadcast"
  std::vector<int> culprits;  // the smaller sides; without a largest side, all
};

// Whether a rank's entry of this operation may be compared with those of others.
using Comparable = std::function<bool(int rank, const FlightOperation& operation)>;

// Finds the first mismatch of each group: its later ones follow from that. Sends and receives are
// not compared. The result refers to `calls`.
std::vector<FlightMismatch> FindFlightMismatches(const FlightCalls& calls,
                                                 const Comparable& comparable);

// The operation of NCCL behind one of PyTorch's names: "all_gather" for "_all_gather_base". Of other
// names the name itself.
std::string_view FlightKind(std::string_view operation);
// Whether all members must pass equal sizes to the operation of this name.
bool TakesEqualSizes(std::string_view operation);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_MISMATCH_H_
