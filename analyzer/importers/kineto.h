// Reads traces of PyTorch's profiler (Kineto): the calls of collectives that one rank made while it
// was profiled.
//
// Facts of the format: libkineto/src/output_json.cpp, torch/csrc/profiler/util.cpp (saveNcclMeta)
// and torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp. A trace is JSON in Chrome's Trace Event
// Format. Later releases of PyTorch 2 describe each call in an event `record_param_comms`:
// collective, sizes, type, process group, and, later, `Seq`, by which all members know it. NCCL's
// kernels carry the call's `External id`. PyTorch gives a call inside of a batch the number of the
// next call, cuts a list of more than 30 ranks, and records replays of CUDA graphs as kernels
// alone.
#ifndef GORDIAN_ANALYZER_IMPORTERS_KINETO_H_
#define GORDIAN_ANALYZER_IMPORTERS_KINETO_H_

#include "analyzer/importers/packed_input.h"
#include "analyzer/importers/rank_trace.h"
#include "common/status.h"

namespace gordian::importers {

// Parses one trace, however large: only calls of collectives stay in memory. Errors name the byte
// or the event, not the file. Refuses Chrome traces that gordian exported.
StatusOr<RankTrace> ParseKinetoTrace(const Pull& pull);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_KINETO_H_
