// Reads what PyTorch's ExecutionTraceObserver writes: the calls of collectives that one rank made
// while it was registered, each with the number by which all members of the group know it.
//
// Facts of the format (1.1.1-chakra.0.0.4, of PyTorch 2.11):
// torch/csrc/profiler/standalone/execution_trace_observer.cpp and RECORD_PARAM_COMMS of
// torch/csrc/distributed/c10d/ParamCommsUtils.hpp. It is JSON, not Chakra's protobuf: a list of
// nodes, one for each call that has returned, in this order. PyTorch writes some nodes at a time,
// and the list's end when the observer is taken away: a process that was ended before leaves a list
// without its last nodes and without an end.
// Barriers have no number, and take one.
#ifndef GORDIAN_ANALYZER_IMPORTERS_EXECUTION_TRACE_H_
#define GORDIAN_ANALYZER_IMPORTERS_EXECUTION_TRACE_H_

#include "analyzer/importers/packed_input.h"
#include "analyzer/importers/rank_trace.h"
#include "common/status.h"

namespace gordian::importers {

// Parses one trace, however large: one node at a time is in memory, of 16 MiB at most. Errors name
// the byte or the node, not the file. A list that ends between two nodes is `cut`, and no error.
StatusOr<RankTrace> ParseExecutionTrace(const Pull& pull);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_EXECUTION_TRACE_H_
