// What Flight Recorder dumps show about each operation at each member: called or not, open or done,
// and which open operations cannot end without a further call.
//
// Pure. Refers to the dumps it was made of, which must outlive it. Not thread-safe.
#ifndef GORDIAN_ANALYZER_IMPORTERS_FLIGHT_CALLS_H_
#define GORDIAN_ANALYZER_IMPORTERS_FLIGHT_CALLS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/importers/flight_recorder.h"

namespace gordian::importers {

// How far a rank has got with an operation.
enum class Made : uint8_t { kOpen, kDone, kCalled, kNotCalled, kUnknown };

// A group's key. It names all ranks and is long, so equal keys share one text.
struct GroupKey {
  const std::string* text = nullptr;
  operator const std::string&() const { return *text; }  // NOLINT: implicit on purpose
  friend bool operator==(const GroupKey& a, const GroupKey& b) { return a.text == b.text; }
  friend std::strong_ordering operator<=>(const GroupKey& a, const GroupKey& b) {
    return a.text == b.text ? std::strong_ordering::equal : *a.text <=> *b.text;
  }
};

// One operation of all its members. For sends and receives: that of a pair, seen from one end.
struct FlightOperation {
  GroupKey group;
  bool p2p = false;
  int64_t sequence = 0;
  int low = -1, high = -1;  // p2p: ranks of the job
  friend auto operator<=>(const FlightOperation&, const FlightOperation&) = default;
};

// Operations that a rank numbers together: a group's collectives, or a pair's sends and receives.
struct FlightChannel {
  GroupKey group;
  bool p2p = false;
  int low = -1, high = -1;
  friend auto operator<=>(const FlightChannel&, const FlightChannel&) = default;
};

struct FlightRank {
  const FlightDump* dump = nullptr;
  // The first entry of each operation. Coalesced operations share a number and are one launch.
  std::map<FlightOperation, const FlightEntry*> entries;
  std::map<FlightOperation, const FlightEntry*> open;
  std::map<FlightOperation, std::set<bool>> ways;  // p2p: whether it sends; a batch may do both
  std::map<FlightChannel, std::pair<int64_t, int64_t>>
      numbers;  // the lowest and the highest in `entries`
};

class FlightCalls {
 public:
  explicit FlightCalls(const std::vector<FlightDump>& dumps);
  FlightCalls(const FlightCalls&) = delete;
  FlightCalls& operator=(const FlightCalls&) = delete;

  const std::map<int, FlightRank>& ranks() const { return ranks_; }  // that left a dump
  const std::map<std::string, FlightGroup>& groups() const { return groups_; }
  const std::set<FlightOperation>& operations() const { return operations_; }
  // Ranks that have entries of this group.
  const std::set<int>& Users(GroupKey group) const { return users_.at(group); }
  size_t entries() const { return entries_; }
  int expected() const { return expected_; }  // number of ranks, as far as the dumps name them
  // One line each.
  const std::set<std::string>& not_visible() const { return not_visible_; }

  // Finds the operation of a rank's entry. Returns false for a send or receive without a named
  // peer.
  bool OperationOf(int rank, const FlightEntry& entry, FlightOperation* operation) const;
  Made At(int rank, const FlightOperation& operation) const;
  // The dump says that the device has begun the open operation.
  bool HasBegun(int rank, const FlightOperation& operation) const;
  std::vector<int> Members(const FlightOperation& operation) const;
  // True if both ends of this group's sends and receives number them alike.
  bool InLockstep(GroupKey group) const { return lockstep_.count(group) > 0; }
  // Whether each of two ranks has, under the number of this transfer, what the other end of the
  // other's is; true where one has no entry.
  bool EndsAgree(int rank, int other, const FlightOperation& operation) const;
  // For people: "description" or "group 3"; the beginning of its key if the group has no
  // configuration.
  std::string GroupName(const std::string& key) const;
  // For people: "all_reduce #7 on default_pg (ranks 0-3)".
  std::string Name(const FlightOperation& operation) const;
  // Some member's entry; null if no member has one.
  const FlightEntry* AnyEntry(const FlightOperation& operation) const;

  // Which operations at one rank wait for others there, apart from waiting for other members.
  enum class Order : uint8_t {
    kGroup,  // an operation waits for earlier ones of its group
    kCalls,  // an operation waits for all earlier calls of the rank
  };
  // Operations open at a rank that cannot end unless some rank makes a further call: the complement
  // of a least fixed point.
  std::set<std::pair<int, FlightOperation>> Stuck(Order order) const;

 private:
  void FindLockstep();

  std::map<int, FlightRank> ranks_;
  std::map<std::string, FlightGroup> groups_;
  std::set<std::string> mixed_;  // groups of collectives and of sends: their status counts both
  std::set<std::string> lockstep_;
  std::set<FlightOperation> operations_;
  std::set<std::string> keys_;  // storage of the GroupKeys
  std::map<GroupKey, std::set<int>> users_;
  int expected_ = 0;
  size_t entries_ = 0;
  std::set<std::string> not_visible_;
};

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_CALLS_H_
