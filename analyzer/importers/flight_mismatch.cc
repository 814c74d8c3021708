#include "analyzer/importers/flight_mismatch.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "analyzer/model/verdict/names.h"

namespace gordian::importers {
namespace {

using Parts = std::map<std::string, std::vector<int>>;  // what, and who recorded it

void Take(const Parts& parts, FlightMismatch* mismatch) {
  size_t most = 0, same = 0;
  for (const auto& [what, who] : parts) {
    same = who.size() == most ? same + 1 : who.size() > most ? 1 : same;
    most = std::max(most, who.size());
  }
  for (const auto& [what, who] : parts) {
    mismatch->disagree += (mismatch->disagree.empty() ? "" : "; ") + model::RankList(who) +
                          (who.size() == 1 ? " has " : " have ") + what;
    if (same > 1 || who.size() < most)
      mismatch->culprits.insert(mismatch->culprits.end(), who.begin(), who.end());
  }
  std::sort(mismatch->culprits.begin(), mismatch->culprits.end());
}

}  // namespace

// PyTorch has several names for one operation of NCCL; ranks that use different ones agree.
std::string_view FlightKind(std::string_view operation) {
  if (operation == "_all_gather_base") return "all_gather";
  if (operation == "_reduce_scatter_base") return "reduce_scatter";
  if (operation == "_broadcast_oop") return "broadcast";
  if (operation == "_reduce_oop") return "reduce";
  return operation;
}

bool TakesEqualSizes(std::string_view operation) {
  static const std::set<std::string_view> kEqual = {"all_reduce",       "allreduce_coalesced",
                                                    "broadcast",        "reduce",
                                                    "_all_gather_base", "_reduce_scatter_base"};
  return kEqual.count(operation) > 0;
}

std::vector<FlightMismatch> FindFlightMismatches(const FlightCalls& calls,
                                                 const Comparable& comparable) {
  std::vector<FlightMismatch> found;
  std::set<std::string> reported;
  for (const FlightOperation& operation : calls.operations()) {
    if (operation.p2p || reported.count(operation.group) > 0) continue;
    Parts by_kind, by_shape;
    std::set<std::string_view> kinds;
    std::set<int64_t> sizes;
    for (const int number : calls.Users(operation.group)) {
      const FlightRank& rank = calls.ranks().at(number);
      const auto entry = rank.entries.find(operation);
      if (entry == rank.entries.end() || !comparable(number, operation)) continue;
      const FlightEntry& e = *entry->second;
      kinds.insert(FlightKind(e.operation));
      by_kind[e.operation].push_back(number);
      if (TakesEqualSizes(e.operation) && e.elements_in >= 0) {
        sizes.insert(e.elements_in);
        by_shape[std::to_string(e.elements_in) + (e.in_bytes       ? std::string(" bytes")
                                                  : e.type.empty() ? std::string(" elements")
                                                                   : " elements of " + e.type)]
            .push_back(number);
      }
    }
    // Ranks that agree on the operation by two names pass it different kinds of buffers.
    const bool one_name = by_kind.size() == 1;
    if (kinds.size() <= 1 && (!one_name || by_shape.size() <= 1)) continue;
    reported.insert(operation.group);
    FlightMismatch mismatch;
    mismatch.operation = operation;
    mismatch.check = kinds.size() > 1   ? "mismatch-kind"
                     : sizes.size() > 1 ? "mismatch-count"
                                        : "mismatch-type";
    Take(kinds.size() > 1 ? by_kind : by_shape, &mismatch);
    found.push_back(std::move(mismatch));
  }
  return found;
}

}  // namespace gordian::importers
