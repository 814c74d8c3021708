// What PyTorch calls NCCL for, by the name of the operation in its dumps.
//
// Pure.
#ifndef GORDIAN_ANALYZER_MERGE_NCCL_KIND_H_
#define GORDIAN_ANALYZER_MERGE_NCCL_KIND_H_

#include <string_view>

#include "analyzer/importers/flight_mismatch.h"

namespace gordian::merge {

// FlightKind, and PyTorch's barrier is an all-reduce.
inline std::string_view NcclKind(std::string_view operation) {
  return operation == "all_reduce_barrier" ? "all_reduce" : importers::FlightKind(operation);
}

// Whether PyTorch calls NCCL once for an operation of this kind. It makes others of several, or of
// sends.
inline bool IsOneOfNccl(std::string_view kind) {
  return kind == "all_reduce" || kind == "all_gather" || kind == "reduce_scatter" ||
         kind == "broadcast" || kind == "reduce";
}

}  // namespace gordian::merge

#endif  // GORDIAN_ANALYZER_MERGE_NCCL_KIND_H_
