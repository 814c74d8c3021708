#include "analyzer/importers/whole_operations.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace gordian::importers {
namespace {

using Key = std::pair<std::string, int64_t>;  // group, number

struct Known {
  std::string_view name;  // as FlightEntry has it
  model::Call call;
  bool counts_output;  // NCCL's count is that of the output
};
constexpr Known kKnown[] = {{"all_reduce", model::Call::kAllReduce, false},
                            {"broadcast", model::Call::kBroadcast, false},
                            {"reduce", model::Call::kReduce, false},
                            {"_all_gather_base", model::Call::kAllGather, false},
                            {"_reduce_scatter_base", model::Call::kReduceScatter, true}};

struct Type {
  std::string_view name;  // c10::toString of the tensor's
  uint8_t nccl;
};
constexpr Type kTypes[] = {
    {"Char", 0},     {"Byte", 1},           {"Bool", 1},        {"Int", 2},   {"UInt32", 3},
    {"Long", 4},     {"UInt64", 5},         {"Half", 6},        {"Float", 7}, {"Double", 8},
    {"BFloat16", 9}, {"Float8_e4m3fn", 10}, {"Float8_e5m2", 11}};

bool Agree(const FlightEntry& one, const FlightEntry& other) {
  return one.operation == other.operation && one.type == other.type &&
         one.elements_in == other.elements_in && one.elements_out == other.elements_out;
}

}  // namespace

std::optional<NcclCall> NcclCallOf(const FlightEntry& entry) {
  const auto known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Known& one) { return one.name == entry.operation; });
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const Type& one) { return one.name == entry.type; });
  if (known == std::end(kKnown) || type == std::end(kTypes)) return std::nullopt;
  const int64_t count = known->counts_output ? entry.elements_out : entry.elements_in;
  if (count < 0) return std::nullopt;
  return NcclCall{known->call, static_cast<uint64_t>(count), type->nccl};
}

bool AtAllMembers(const WholeOperation& operation, const FlightGroup& group) {
  // A damaged trace may name a rank twice, or leave out its own.
  const std::set<int> members(group.ranks.begin(), group.ranks.end());
  return !members.empty() && members.size() == group.ranks.size() &&
         members.size() == operation.by_rank.size() &&
         std::all_of(members.begin(), members.end(),
                     [&](int rank) { return operation.by_rank.contains(rank); });
}

WholeOperations FindWholeOperations(const std::vector<RankTrace>& traces) {
  WholeOperations whole;
  std::map<Key, WholeOperation> found;
  std::set<Key> spoilt;
  for (const RankTrace& trace : traces) {
    for (const auto& [key, group] : trace.dump.groups) whole.groups.emplace(key, &group);
    if (!trace.numbered) {
      whole.left_out += trace.dump.entries.size();
      continue;
    }
    std::set<Key> own;
    for (const FlightEntry& entry : trace.dump.entries) {
      const Key key = {entry.group, entry.sequence};
      WholeOperation& operation = found[key];
      operation.group = entry.group;
      operation.sequence = entry.sequence;
      // Without the number before, the trace may lack operations of a batch that have this one.
      const bool all = own.contains({entry.group, entry.sequence - 1}) &&
                       !trace.transfer_groups.contains(entry.group);
      const bool fresh = own.insert(key).second;
      const bool agrees =
          operation.by_rank.empty() || Agree(entry, *operation.by_rank.begin()->second);
      if (!all || !fresh || !agrees) spoilt.insert(key);
      operation.by_rank.emplace(trace.dump.rank, &entry);
    }
  }
  for (auto& [key, operation] : found) {
    if (spoilt.contains(key)) {
      ++whole.left_out;
    } else {
      whole.operations.push_back(std::move(operation));
    }
  }
  return whole;
}

}  // namespace gordian::importers
