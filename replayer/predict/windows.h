// Cuts the calls of a recorded job into windows, so that each operation of a window is there at all
// of its members: first those up to the making of the last communicator, which are left out, then
// windows of so many calls, which follow each other at each rank.
//
// An operation is known at all members by its channel, which is its communicator, or its sender and
// receiver there, and by its number among the calls of that channel.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_REPLAYER_PREDICT_WINDOWS_H_
#define GORDIAN_REPLAYER_PREDICT_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "replayer/record/call_log.h"
#include "replayer/record/unfinished.h"

namespace gordian::replayer {

class Windows {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Kind {
    bool called = false;  // by a call in the log
    int comm = -1;        // index into Matcher::comms(); -1: no operation, or not known
    uint32_t channel = kNone;
    uint32_t counter = kNone;  // index into Rank::counters
    uint32_t thread = 0;       // numbered as they come
  };
  // From the first operation of a group to its end; kNone: that is not recorded.
  struct Group {
    uint32_t first = 0, last = kNone;
  };
  // Calls are numbered as in `log->calls`; the window is [begin, end).
  struct Rank {
    const LoggedProcess* log = nullptr;
    size_t begin = 0, end = 0;
    std::vector<Kind> kinds;         // as in the log
    std::vector<uint32_t> counters;  // of operations on a channel
    std::vector<uint32_t> numbers;   // of each call, if it is an operation: on its channel
    // Of each operation in a group, and each end of one: index into `groups`, or kNone. Empty: the
    // process has none.
    std::vector<uint32_t> group_of;
    std::vector<Group> groups;
    uint32_t threads = 0;
    size_t operation_kinds = 0;  // whose channel is known
    bool group_ends = false;     // it made calls that end groups

    const Kind& KindOf(size_t call) const { return kinds[log->calls[call].kind]; }
    // From where on the call's operation is under way, and up to where; of calls outside of groups
    // that is the call.
    Group SpanOf(size_t call) const {
      const auto own = static_cast<uint32_t>(call);
      if (group_of.empty() || group_of[call] == kNone) return {own, own};
      const Group& group = groups[group_of[call]];
      return {group.first, group.last == kNone ? own : group.last};
    }
    // The call is an operation of the window.
    bool IsOperationOf(size_t call) const {
      return KindOf(call).channel != kNone && SpanOf(call).first >= begin &&
             SpanOf(call).last < end;
    }
    // The call is of the window; ends of groups only if the groups' operations are.
    bool IsOfWindow(size_t call) const {
      if (!log->kinds[log->calls[call].kind].IsGroupEnd()) return true;
      return !group_of.empty() && group_of[call] != kNone && SpanOf(call).first >= begin;
    }
  };

  // `log`: after Finish(). Both must outlive this object.
  Windows(const JobFacts& facts, const CallLog& log);

  const std::map<model::ProcessId, Rank>& ranks() const { return ranks_; }
  // The creation of an operation's communicator is not in the record.
  bool unknown_comm() const { return unknown_comm_; }
  size_t calls() const;   // of the window
  size_t before() const;  // calls before the first window
  // Some process made calls by several threads.
  bool HasThreads() const;

  // Goes on to the next window, of no more than `most` calls of all ranks: after the constructor,
  // to the first one. Returns whether calls remain after it.
  bool Next(size_t most);

 private:
  struct Channel {
    size_t members = 0;
    // While a window is cut: how many members have each number, from `least` on.
    uint32_t least = kNone;
    std::vector<uint32_t> seen;
  };

  // What the reader of a process knows so far.
  struct Known {
    std::unordered_map<uint32_t, uint32_t> threads;   // numbers
    std::unordered_map<uint32_t, uint32_t> counters;  // by channel
  };

  void Read(model::ProcessId id, Rank* rank);
  void Know(model::ProcessId id, uint32_t kind, Known* known, Rank* rank);
  void Begin();
  void Count();
  bool Lower(Rank* rank);

  const JobFacts& facts_;
  std::map<model::ProcessId, Rank> ranks_;
  std::map<std::tuple<int, int, int>, uint32_t> channel_of_;  // communicator, source, destination
  std::vector<Channel> channels_;
  std::vector<uint32_t> counted_;  // channels with `seen`
  bool unknown_comm_ = false;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_WINDOWS_H_
