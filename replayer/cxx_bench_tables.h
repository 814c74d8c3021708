// What a replay that is a benchmark knows of its operations, as tables of C++: those whose results
// are checked, each kind once, and what is timed, by rank. Implementation of cxx_writer.h.
#ifndef GORDIAN_REPLAYER_CXX_BENCH_TABLES_H_
#define GORDIAN_REPLAYER_CXX_BENCH_TABLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "replayer/schedule.h"

namespace gordian::replayer {

// `timed`: of each rank, as WriteCxxBenchRank() gives it.
std::string CxxBenchTables(const Schedule& schedule,
                           const std::vector<std::vector<const Op*>>& timed);

// The part that is the same in all of them: checks, times, and in place of kCxxMain main(). The
// first stands behind the tables and before the ranks' functions.
extern const std::string_view kCxxBenchBeforeRanks, kCxxBenchMain;

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_CXX_BENCH_TABLES_H_
