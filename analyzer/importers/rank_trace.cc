#include "analyzer/importers/rank_trace.h"

#include <functional>
#include <map>

#include "analyzer/model/hash.h"

namespace gordian::importers {

// Members may pass split sizes or none to one all-to-all.
std::string OperationOfProfiler(const std::string& collective) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"allreduce", "all_reduce"},
      {"allgather", "all_gather"},
      {"_allgather_base", "_all_gather_base"},
      {"all_to_allv", "all_to_all"},
      {"alltoall", "all_to_all"},
      {"alltoall_base", "all_to_all"}};
  const auto known = kNames.find(collective);
  return known == kNames.end() ? collective : known->second;
}

std::string ShortKey(const FlightGroup& group) {
  model::Hash hash;
  for (const int rank : group.ranks) hash.Add(static_cast<uint64_t>(rank));
  return group.name + "/" + std::to_string(group.ranks.size()) + "/" + std::to_string(hash.value());
}

}  // namespace gordian::importers
