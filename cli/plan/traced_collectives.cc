#include "cli/plan/traced_collectives.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/importers/rank_traces.h"
#include "analyzer/importers/whole_operations.h"
#include "analyzer/model/collective.h"
#include "cli/output.h"

namespace gordian::cli {
namespace {

using importers::FlightGroup;

// Returns nothing if the operation or its size is none that the cost model knows of.
std::optional<planner::TimedCollective> Timed(const importers::WholeOperation& operation,
                                              const FlightGroup& group, int comm) {
  const std::optional<importers::NcclCall> call =
      importers::NcclCallOf(*operation.by_rank.begin()->second);
  const size_t ranks = group.ranks.size();
  if (!call || ranks == 0) return std::nullopt;
  const uint64_t elements = model::TunedElements(call->call, call->count, ranks);
  planner::TimedCollective timed;
  timed.comm = comm;
  timed.call = call->call;
  timed.ranks = static_cast<int>(ranks);
  timed.bytes =
      static_cast<double>(elements) * static_cast<double>(model::DatatypeBytes(call->datatype));
  if (!importers::AtAllMembers(operation, group)) return timed;
  double least = -1;
  for (const auto& [rank, member] : operation.by_rank) {
    if (member->kernel_us < 0) return timed;
    if (least < 0 || member->kernel_us < least) least = member->kernel_us;
  }
  timed.least_us = least;
  return timed;
}

}  // namespace

TracedCollectives TimesOf(const std::vector<importers::RankTrace>& traces) {
  const importers::WholeOperations whole = importers::FindWholeOperations(traces);
  size_t left_out = whole.left_out;
  TracedCollectives traced;
  std::map<std::string, int> numbers;
  for (const auto& [key, group] : whole.groups) {
    numbers.emplace(key, static_cast<int>(traced.comms.size()));
    traced.comms.push_back(group->description.empty() ? "group " + group->name
                                                      : group->description);
  }
  for (const importers::WholeOperation& operation : whole.operations) {
    const std::optional<planner::TimedCollective> timed =
        Timed(operation, *whole.groups.at(operation.group), numbers.at(operation.group));
    if (timed) {
      traced.collectives.push_back(*timed);
    } else {
      ++left_out;
    }
  }
  if (left_out > 0)
    traced.note = "left out " + WithCommas(left_out) +
                  " operations: of batches, without a number (Seq), or of no known size or group";
  return traced;
}

StatusOr<TracedCollectives> ReadTracedCollectives(const std::string& path) {
  const StatusOr<importers::SourceFiles> files = importers::FindSources(path);
  GORDIAN_RETURN_IF_ERROR(files.status());
  const StatusOr<std::vector<importers::RankTrace>> traces = importers::ReadRankTraces(*files);
  GORDIAN_RETURN_IF_ERROR(traces.status());
  return TimesOf(*traces);
}

}  // namespace gordian::cli
