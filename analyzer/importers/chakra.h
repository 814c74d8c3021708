// Reads execution traces of MLCommons Chakra (`.et`): the collectives of one rank.
//
// Facts of the format: schema/protobuf/et_def.proto, the converter and the feeder of
// github.com/mlcommons/chakra. A file is a GlobalMetadata and then Nodes, each behind its length.
// Members of a collective find each other by pg_name and order alone; traces that gordian exports
// also number them.
#ifndef GORDIAN_ANALYZER_IMPORTERS_CHAKRA_H_
#define GORDIAN_ANALYZER_IMPORTERS_CHAKRA_H_

#include "analyzer/importers/packed_input.h"
#include "analyzer/importers/rank_trace.h"
#include "common/status.h"

namespace gordian::importers {

// Parses one trace, however large: only collectives stay in memory. Errors name the byte and the
// node, not the file.
StatusOr<RankTrace> ParseChakraTrace(const Pull& pull);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_CHAKRA_H_
