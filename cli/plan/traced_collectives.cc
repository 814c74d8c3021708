#include "cli/plan/traced_collectives.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "analyzer/exporters/torch_type_name.h"
#include "analyzer/importers/rank_traces.h"
#include "analyzer/model/collective.h"
#include "cli/output.h"

namespace gordian::cli {
namespace {

using importers::FlightEntry;
using importers::FlightGroup;
using model::Call;

constexpr uint8_t kTypes = 12;  // ncclDataType_t has so many

struct Known {
  std::string_view name;  // as importers::FlightEntry has it
  Call call;
  bool counts_output;  // NCCL's count is that of the output
};
constexpr Known kKnown[] = {{"all_reduce", Call::kAllReduce, false},
                            {"broadcast", Call::kBroadcast, false},
                            {"reduce", Call::kReduce, false},
                            {"_all_gather_base", Call::kAllGather, false},
                            {"_reduce_scatter_base", Call::kReduceScatter, true}};

const Known* Find(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::optional<uint64_t> BytesOf(std::string_view type) {
  for (uint8_t datatype = 0; datatype < kTypes; ++datatype) {
    if (type == exporters::TorchTypeName(datatype)) return model::DatatypeBytes(datatype);
  }
  return type == "Bool" ? std::optional<uint64_t>(1) : std::nullopt;
}

// One operation of a group, as far as the traces hold it.
struct Instance {
  const FlightEntry* entry = nullptr;  // of some member
  size_t members = 0;
  double least_us = -1;
  bool known = true;  // how long it took at each of these members
  bool alone = true;  // no member recorded two operations under the number, or different ones
};

// Returns nothing if the operation or its size is none that the cost model knows of.
std::optional<planner::TimedCollective> Timed(const Instance& instance, const FlightGroup& group,
                                              int comm) {
  const Known* const known = Find(instance.entry->operation);
  const std::optional<uint64_t> size = BytesOf(instance.entry->type);
  const int64_t count = known == nullptr       ? -1
                        : known->counts_output ? instance.entry->elements_out
                                               : instance.entry->elements_in;
  const size_t ranks = group.ranks.size();
  if (!size || count < 0 || ranks == 0 || !instance.alone) return std::nullopt;
  const uint64_t elements = model::TunedElements(known->call, static_cast<uint64_t>(count), ranks);
  planner::TimedCollective timed;
  timed.comm = comm;
  timed.call = known->call;
  timed.ranks = static_cast<int>(ranks);
  timed.bytes = static_cast<double>(elements) * static_cast<double>(*size);
  if (instance.known && instance.members == ranks) timed.least_us = instance.least_us;
  return timed;
}

}  // namespace

TracedCollectives TimesOf(const std::vector<importers::RankTrace>& traces) {
  std::map<std::string, const FlightGroup*> groups;
  std::map<std::pair<std::string, int64_t>, Instance> instances;
  size_t left_out = 0;
  for (const importers::RankTrace& trace : traces) {
    for (const auto& [key, group] : trace.dump.groups) groups.emplace(key, &group);
    std::set<std::pair<std::string, int64_t>> own;
    for (const FlightEntry& entry : trace.dump.entries) {
      if (!trace.numbered) {
        ++left_out;
        continue;
      }
      Instance& instance = instances[{entry.group, entry.sequence}];
      const bool fresh = own.emplace(entry.group, entry.sequence).second;
      // Without the number before, the trace may lack operations of a batch that have this one.
      const bool whole = fresh && own.contains({entry.group, entry.sequence - 1}) &&
                         !trace.transfer_groups.contains(entry.group);
      if (instance.entry == nullptr) instance.entry = &entry;
      const FlightEntry& other = *instance.entry;
      instance.alone = instance.alone && whole && entry.operation == other.operation &&
                       entry.type == other.type && entry.elements_in == other.elements_in;
      instance.members += fresh ? 1 : 0;
      instance.known = instance.known && entry.kernel_us >= 0;
      if (instance.least_us < 0 || entry.kernel_us < instance.least_us)
        instance.least_us = entry.kernel_us;
    }
  }
  TracedCollectives traced;
  std::map<std::string, int> numbers;
  for (const auto& [key, group] : groups) {
    numbers.emplace(key, static_cast<int>(traced.comms.size()));
    traced.comms.push_back(group->description.empty() ? "group " + group->name
                                                      : group->description);
  }
  for (const auto& [key, instance] : instances) {
    const std::optional<planner::TimedCollective> timed =
        Timed(instance, *groups.at(key.first), numbers.at(key.first));
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
