#include "analyzer/importers/whole_operations.h"

#include <set>
#include <utility>

namespace gordian::importers {
namespace {

using Key = std::pair<std::string, int64_t>;  // group, number

bool Agree(const FlightEntry& one, const FlightEntry& other) {
  return one.operation == other.operation && one.type == other.type &&
         one.elements_in == other.elements_in && one.elements_out == other.elements_out;
}

}  // namespace

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
