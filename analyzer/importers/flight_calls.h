// What Flight Recorder dumps say of each operation at each of its members: called or not, open or
// done, and which of the open ones cannot end as long as nobody makes a further call.
//
// Pure. Refers to the dumps that it was made of; these must outlive it. Not thread-safe.
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

// What a rank has made of an operation.
enum class Made : uint8_t { kOpen, kDone, kCalled, kNotCalled, kUnknown };

// A group's key, which names all its ranks and is long: each is held once, so that equal ones are
// one.
struct GroupKey {
  const std::string* text = nullptr;
  operator const std::string&() const { return *text; }  // NOLINT: it is that text
  friend bool operator==(const GroupKey& a, const GroupKey& b) { return a.text == b.text; }
  friend std::strong_ordering operator<=>(const GroupKey& a, const GroupKey& b) {
    return a.text == b.text ? std::strong_ordering::equal : *a.text <=> *b.text;
  }
};

// One operation of all its members. Of sends and receives: the pair's, as seen from one of its
// ends.
struct FlightOperation {
  GroupKey group;
  bool p2p = false;
  int64_t sequence = 0;
  int low = -1, high = -1;  // p2p: ranks of the job
  friend auto operator<=>(const FlightOperation&, const FlightOperation&) = default;
};

// Where sequence numbers count by themselves at a rank: a group's collectives, or a pair's sends
// and receives.
struct FlightChannel {
  GroupKey group;
  bool p2p = false;
  int low = -1, high = -1;
  friend auto operator<=>(const FlightChannel&, const FlightChannel&) = default;
};

struct FlightRank {
  const FlightDump* dump = nullptr;
  // By operation: its first entry. Coalesced operations share a number, and are one launch.
  std::map<FlightOperation, const FlightEntry*> entries;
  std::map<FlightOperation, const FlightEntry*> open;
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
  // Ranks whose entries are of this group.
  const std::set<int>& Users(GroupKey group) const { return users_.at(group); }
  size_t entries() const { return entries_; }
  int expected() const { return expected_; }  // ranks, as far as the dumps name them
  // One line each.
  const std::set<std::string>& not_visible() const { return not_visible_; }

  // The operation that an entry of a rank is part of. False: a send or receive whose peer is not
  // named.
  bool OperationOf(int rank, const FlightEntry& entry, FlightOperation* operation) const;
  Made At(int rank, const FlightOperation& operation) const;
  std::vector<int> Members(const FlightOperation& operation) const;
  // Whether both ends of the sends and receives of this group count them alike.
  bool InLockstep(GroupKey group) const { return lockstep_.count(group) > 0; }
  // The entry of some member; null: none holds one.
  const FlightEntry* AnyEntry(const FlightOperation& operation) const;

  // What waits for what at one rank, beside the other members.
  enum class Order : uint8_t {
    kGroup,  // an operation for those before it in its group
    kCalls,  // an operation for all that the rank has called before
  };
  // The operations that are open at a rank and cannot end with no call made that was not made:
  // least fixed point.
  std::set<std::pair<int, FlightOperation>> Stuck(Order order) const;

 private:
  void FindLockstep();

  std::map<int, FlightRank> ranks_;
  std::map<std::string, FlightGroup> groups_;
  std::set<std::string> mixed_;  // groups of collectives and of sends: their status counts both
  std::set<std::string> lockstep_;
  std::set<FlightOperation> operations_;
  std::set<std::string> keys_;  // what each GroupKey is one of
  std::map<GroupKey, std::set<int>> users_;
  int expected_ = 0;
  size_t entries_ = 0;
  std::set<std::string> not_visible_;
};

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_CALLS_H_
