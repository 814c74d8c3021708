// Compares the traces of a job's ranks: where the sequences of collectives on a process group part
// from each other.
#ifndef GORDIAN_ANALYZER_IMPORTERS_RANK_TRACES_H_
#define GORDIAN_ANALYZER_IMPORTERS_RANK_TRACES_H_

#include <string>
#include <vector>

#include "analyzer/importers/rank_trace.h"
#include "analyzer/importers/sources.h"
#include "analyzer/model/verdict/verdict.h"
#include "common/status.h"

namespace gordian::importers {

// Finds the rank that a file's name ends in: "step10.3.et" for Chakra, "trace_rank3.json" for
// PyTorch's. -1: it names none.
int RankOfTraceName(const std::string& path, TraceFormat format);

// Reads one trace for each rank, sorted by rank. Errors name the file: it is no such trace, names
// no rank, is a second one of its rank, or tells of a job of another size; or all of them together
// hold no collective, or too many.
StatusOr<std::vector<RankTrace>> ReadRankTraces(const SourceFiles& files);

// Reports a mismatch when members recorded different operations, sizes or types under one number.
// Claims no more: profiles begin and end at different places at each rank, and hold only calls that
// were made. Names without blame who recorded nothing of what others did last. Without numbers it
// only says where the orders part.
model::Verdict DecideRankTraces(std::vector<RankTrace> traces);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_RANK_TRACES_H_
