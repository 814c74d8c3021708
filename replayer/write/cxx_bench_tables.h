// Makes a benchmark replay's tables of operations in C++: the kinds whose results it checks, and
// the calls that it times, by rank. Implementation of cxx_writer.h.
#ifndef GORDIAN_REPLAYER_WRITE_CXX_BENCH_TABLES_H_
#define GORDIAN_REPLAYER_WRITE_CXX_BENCH_TABLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

// `timed`: each rank's calls, as WriteCxxBenchRank() gives them.
std::string CxxBenchTables(const Schedule& schedule,
                           const std::vector<std::vector<const Op*>>& timed);

// The part that all benchmarks share: checks and times, and main() in place of kCxxMain. The first
// goes between the tables and the ranks' functions.
extern const std::string_view kCxxBenchBeforeRanks, kCxxBenchMain;

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_CXX_BENCH_TABLES_H_
