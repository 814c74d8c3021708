// Turns traces of PyTorch's profiler, one for each rank, into a schedule for a benchmark: the
// collectives that every member of their process group recorded, in the order of each rank's calls.
// Traces name no roots, operators, streams or waits in a form that gordian reads; their
// replacements are guesses, and each guess is a line of Origin::notes.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_REPLAYER_RECORD_FROM_RANK_TRACES_H_
#define GORDIAN_REPLAYER_RECORD_FROM_RANK_TRACES_H_

#include <string>
#include <vector>

#include "analyzer/importers/rank_trace.h"
#include "replayer/record/extract.h"

namespace gordian::replayer {

// `source` names the folder or file, for people. Refuses traces that hold no operation as a whole.
Extracted ScheduleRankTraces(const std::vector<importers::RankTrace>& traces,
                             const std::string& source);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_FROM_RANK_TRACES_H_
