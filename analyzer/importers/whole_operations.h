// Puts together what the ranks' traces hold of one collective, for those who need all of it: its
// time, its repetition.
#ifndef GORDIAN_ANALYZER_IMPORTERS_WHOLE_OPERATIONS_H_
#define GORDIAN_ANALYZER_IMPORTERS_WHOLE_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/importers/rank_trace.h"
#include "analyzer/model/collective.h"

namespace gordian::importers {

struct WholeOperation {
  std::string group;  // key
  int64_t sequence = 0;
  std::map<int, const FlightEntry*> by_rank;  // at least one; they agree on what was called
};

// Whether all members of its group, and no others, recorded it. False: they are not known.
bool AtAllMembers(const WholeOperation& operation, const FlightGroup& group);

struct WholeOperations {
  std::map<std::string, const FlightGroup*> groups;
  std::vector<WholeOperation> operations;  // by group and number
  size_t left_out = 0;                     // of batches, without a number, or not agreed on
};

// What PyTorch calls of NCCL for an entry.
struct NcclCall {
  model::Call call = model::Call::kOther;
  uint64_t count = 0;
  uint8_t datatype = 0;  // ncclDataType_t
};
// Nothing: its members may pass different sizes, or the trace does not give its size or type.
std::optional<NcclCall> NcclCallOf(const FlightEntry& entry);

// Refers to the traces, which must outlive the result. A rank that did not record an operation is
// missing in by_rank.
WholeOperations FindWholeOperations(const std::vector<RankTrace>& traces);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_WHOLE_OPERATIONS_H_
