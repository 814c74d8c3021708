#include "replayer/record/steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::replayer {
namespace {

using model::Call;
using model::ProcessId;
using model::WaitKind;
using model::WorkKind;

class Finder {
 public:
  Finder(const JobFacts& facts, const StepRange& range)
      : facts_(facts), names_(facts.execution, facts.matcher), range_(range) {}

  JobSteps Run() {
    for (const auto& [id, recorded] : facts_.recording.processes()) {
      if (!names_.incarnations().Replaced(id)) Read(id, recorded);
    }
    if (model::SaysTrouble(facts_.verdict.main.verdict)) LeaveOutUnfinished();
    for (Rank& rank : ranks_) FindPeriod(&rank);
    if (ranks_.empty()) Refuse("the record holds no completed NCCL operation");
    if (Choose()) {
      for (const Rank& rank : ranks_) Take(rank);
      CheckMembers();
    }
    return std::move(steps_);
  }

 private:
  struct Rank {
    ProcessId id = 0;
    const RecordedProcess* recorded = nullptr;
    std::vector<const RecordedCall*> operations;  // and launches of graphs with operations
    size_t left_out = 0;                          // operations behind them, in the hang
    uint64_t until = UINT64_MAX;                  // the order of the first of those
    Repetition repetition;
  };
  // The operations of a communicator, or of a pair of its members, that a step holds at one member.
  struct Share {
    uint64_t before = 0, within = 0;
    friend bool operator==(const Share&, const Share&) = default;
  };
  struct Placed {
    uint64_t when = 0;  // an order of the process
    const RecordedCall* call = nullptr;
    int graph = -1;  // that it was captured into
  };
  using Queue =
      std::tuple<int, int, int>;        // communicator, source and destination (-1 for collectives)
  using Member = std::pair<int, bool>;  // rank in the communicator, and whether it sends

  void Refuse(const std::string& why) { steps_.calls.refused.insert(why); }

  std::string RankName(ProcessId id) const { return names_.RankOf(id); }

  static bool Counts(const RecordedCall& call) {
    if (call.work == WorkKind::kGraphLaunch) return call.content >= 0;
    return call.IsOperation() && !call.Captured() && call.Returned() && model::Took(call.result);
  }

  void Read(ProcessId id, const RecordedProcess& recorded) {
    Rank rank{.id = id, .recorded = &recorded, .operations = {}, .repetition = {}};
    for (const RecordedCall& call : recorded.calls) {
      if (Counts(call)) rank.operations.push_back(&call);
    }
    if (!rank.operations.empty()) ranks_.push_back(std::move(rank));
  }

  static void FindPeriod(Rank* rank) {
    std::map<std::tuple<int, uint64_t, uint32_t, uint32_t, int, int, int, int>, uint32_t> letters;
    std::vector<uint32_t> text;
    for (const RecordedCall* const call : rank->operations) {
      const auto letter =
          std::make_tuple(static_cast<int>(call->call), call->count, call->comm, call->stream,
                          call->datatype | call->reduce_op << 8, call->root_or_peer,
                          static_cast<int>(call->InGroup()), call->content);
      text.push_back(
          letters.try_emplace(letter, static_cast<uint32_t>(letters.size())).first->second);
    }
    rank->repetition = FindRepetition(text);
    KeepGroupsWhole(rank);
  }

  // Ends each rank's operations before the first that has not finished at all members, or was not
  // called by all: a benchmark with it would hang as the job did.
  void LeaveOutUnfinished() {
    const std::set<std::pair<ProcessId, uint64_t>> unfinished = UnfinishedOrders();
    for (Rank& rank : ranks_) {
      const auto first = std::find_if(rank.operations.begin(), rank.operations.end(),
                                      [&](const RecordedCall* call) {
                                        return unfinished.contains({rank.id, call->order});
                                      });
      Cut(&rank, static_cast<size_t>(first - rank.operations.begin()));
    }
    for (bool changed = true; changed;) {
      changed = false;
      std::map<Queue, std::map<Member, uint64_t>> calls;
      for (const Rank& rank : ranks_) {
        for (const RecordedCall* call : rank.operations) {
          ForEachUse(rank, *call, [&](const Queue& queue, Member me) { ++calls[queue][me]; });
        }
      }
      for (Rank& rank : ranks_) {
        std::map<std::pair<Queue, Member>, uint64_t> made;
        size_t end = 0;
        for (bool everywhere = true; end < rank.operations.size(); ++end) {
          ForEachUse(rank, *rank.operations[end], [&](const Queue& queue, Member me) {
            const std::map<Member, uint64_t>& of = calls.at(queue);
            const bool all = of.size() == MembersOf(queue);
            const auto fewest =
                std::min_element(of.begin(), of.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; });
            everywhere &= all && ++made[{queue, me}] <= fewest->second;
          });
          if (!everywhere) break;
        }
        changed |= Cut(&rank, end);
      }
    }
    size_t left_out = 0;
    for (const Rank& rank : ranks_) left_out += rank.left_out;
    std::erase_if(ranks_, [](const Rank& rank) { return rank.operations.empty(); });
    if (left_out > 0) {
      steps_.notes.push_back("left out: " + std::to_string(left_out) +
                             " operations from the hang on (the replay of the hang itself: "
                             "without --all-steps)");
    }
  }

  // Keeps the first `size` operations, less the start of a group. Returns whether it dropped any.
  static bool Cut(Rank* rank, size_t size) {
    while (CutsGroup(*rank, size)) --size;
    const size_t dropped = rank->operations.size() - size;
    if (dropped > 0) rank->until = rank->operations[size]->order;
    rank->left_out += dropped;
    rank->operations.resize(size);
    return dropped > 0;
  }

  // The process and order of each call, or launch of a graph, with an operation that some member
  // has not finished.
  std::set<std::pair<ProcessId, uint64_t>> UnfinishedOrders() const {
    std::set<std::pair<ProcessId, uint64_t>> orders;
    for (const auto& [id, launch] : facts_.execution.launches()) {
      if (launch.launch_order != 0) orders.insert({launch.process, launch.launch_order});
      for (const model::Part& part : launch.parts) orders.insert({launch.process, part.order});
    }
    const auto add = [&](const model::Communicator& comm, int rank, const model::MemberSlot& slot) {
      if (slot.state == model::SlotState::kNone || rank < 0 ||
          rank >= static_cast<int>(comm.members.size()))
        return;
      const model::CommMember& member = comm.members[static_cast<size_t>(rank)];
      if (member.known && slot.order != 0) orders.insert({member.process, slot.order});
    };
    for (const model::Communicator& comm : facts_.matcher.comms()) {
      for (const auto& [sequence, instance] : comm.instances) {
        for (size_t rank = 0; rank < instance.members.size(); ++rank)
          add(comm, static_cast<int>(rank), instance.members[rank]);
      }
      for (const auto& [pair, transfers] : comm.transfers) {
        for (const auto& [sequence, transfer] : transfers) {
          add(comm, pair.first, transfer.send);
          add(comm, pair.second, transfer.receive);
        }
      }
    }
    return orders;
  }

  static bool CutsGroup(const Rank& rank, size_t at) {
    if (at == 0 || at >= rank.operations.size()) return false;
    const RecordedCall &before = *rank.operations[at - 1], &next = *rank.operations[at];
    return before.InGroup() && next.InGroup() && before.thread == next.thread &&
           before.group == next.group;
  }

  // A step begins where no group is open, even if that costs a repetition.
  static void KeepGroupsWhole(Rank* rank) {
    Repetition& r = rank->repetition;
    for (size_t moved = 0; moved < r.period && r.count > 1; ++moved) {
      if (!CutsGroup(*rank, r.begin + moved)) {
        if (moved > 0) r.count -= 1;
        r.begin += moved;
        return;
      }
    }
  }

  bool Choose() {
    if (ranks_.empty()) return false;
    const auto by_count = [](const Rank& a, const Rank& b) {
      return a.repetition.count < b.repetition.count;
    };
    const auto [least, most] = std::minmax_element(ranks_.begin(), ranks_.end(), by_count);
    steps_.found = least->repetition.count;
    if (range_.all) {
      const bool alike = least->repetition.count == most->repetition.count && steps_.found > 1;
      for (Rank& rank : ranks_) rank.repetition = {0, rank.operations.size(), 1};
      if (alike) {
        steps_.notes.push_back("all operations; they repeat " + std::to_string(steps_.found) +
                               " times: --all-steps 0..0 is the first");
      }
      return true;
    }
    if (range_.last >= steps_.found) {
      Refuse("there are no steps " + std::to_string(range_.first) + ".." +
             std::to_string(range_.last) + ": the operations of " + RankName(least->id) +
             " repeat " + std::to_string(steps_.found) + " times, which makes steps 0.." +
             std::to_string(steps_.found - 1));
      return false;
    }
    first_ = range_.first;
    last_ = range_.last;
    const Repetition& one = ranks_.front().repetition;
    steps_.notes.push_back("steps " + std::to_string(first_) + ".." + std::to_string(last_) +
                           " of " + std::to_string(steps_.found) +
                           ", by the operations that repeat: " + std::to_string(one.period) +
                           " calls of " + RankName(ranks_.front().id));
    return true;
  }

  int CommIndex(const Rank& rank, const RecordedCall& call) const {
    return CommOf(facts_, rank.id, call.comm);
  }

  void Take(const Rank& rank) {
    const Repetition& r = rank.repetition;
    const size_t begin = r.begin + first_ * r.period, end = r.begin + (last_ + 1) * r.period;
    const uint64_t from = rank.operations[begin]->order;
    const uint64_t until = end < rank.operations.size() ? rank.operations[end]->order : rank.until;
    Count(rank, begin, end);

    std::set<std::pair<uint32_t, uint32_t>>
        groups;                  // that hold operations of these steps: thread and number
    std::set<int32_t> contents;  // of launched graphs
    for (size_t i = begin; i < end; ++i) {
      const RecordedCall& call = *rank.operations[i];
      if (call.InGroup()) groups.insert({call.thread, call.group});
      if (call.content >= 0) contents.insert(call.content);
    }
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> group_ends;
    for (const RecordedCall& call : rank.recorded->calls) {
      if (call.call == Call::kGroupEnd && call.order >= from)
        group_ends.try_emplace({call.thread, call.group}, call.order);
    }

    // Places groups, and host waits, at their end: nothing of a group begins before, and other
    // threads' calls meanwhile are not held up. Captures come first: graphs are captured before the
    // steps.
    std::vector<Placed> calls;
    for (const RecordedCall& call : rank.recorded->calls) {
      if (call.order < from || call.order >= until || !call.Returned() ||
          !model::Took(call.result) || call.Captured())
        continue;
      const std::pair group(call.thread, call.group);
      const bool waits = call.wait == WaitKind::kStream || call.wait == WaitKind::kEvent ||
                         call.wait == WaitKind::kDevice;
      const bool orders = call.work == WorkKind::kEventRecord || call.work == WorkKind::kEventWait;
      const bool ends_group = call.call == Call::kGroupEnd && groups.contains(group);
      if (!Counts(call) && !(call.call == Call::kHostWait && waits) && !orders && !ends_group)
        continue;
      uint64_t when = waits ? call.end_order : call.order;
      if (call.InGroup() && groups.contains(group)) {
        const auto group_end = group_ends.find(group);
        when = group_end == group_ends.end() ? when : group_end->second;
      }
      calls.push_back({.when = when, .call = &call});
    }
    std::set<uint64_t> captured_ends;
    for (const int32_t content : contents) {
      for (const uint64_t order : rank.recorded->graphs[static_cast<size_t>(content)]) {
        const RecordedCall* const call = rank.recorded->Find(order);
        if (call == nullptr) continue;
        calls.push_back({.call = call, .graph = content});
        const RecordedCall* const end =
            call->InGroup() ? rank.recorded->GroupEndOf(*call) : nullptr;
        if (end != nullptr && captured_ends.insert(end->order).second)
          calls.push_back({.call = end});
      }
    }
    std::stable_sort(calls.begin(), calls.end(), [](const Placed& a, const Placed& b) {
      return std::pair(a.when, a.call->order) < std::pair(b.when, b.call->order);
    });
    auto& needed = steps_.calls.by_process[rank.id];
    uint64_t order = 0;
    for (const Placed& placed : calls) {
      RecordedCall& merged = steps_.merged.emplace_back(*placed.call);
      merged.order = ++order;
      merged.end_order = ++order;
      merged.thread = 1;
      needed[merged.order] = {.call = &merged, .witness = false, .graph = placed.graph};
      if (const int comm = CommIndex(rank, merged); comm >= 0) steps_.calls.comms.insert(comm);
    }
  }

  // Calls visit(queue, member) for the operation, or for each operation of the launched graph.
  template <typename Visit>
  void ForEachUse(const Rank& rank, const RecordedCall& call, const Visit& visit) const {
    const auto use = [&](const RecordedCall& operation) {
      const int comm = CommIndex(rank, operation);
      if (comm < 0) return;
      const auto local = facts_.execution.Find(rank.id)->comms.find(operation.comm);
      const int me = local->second.rank;
      const model::Role role = {operation.call, me, operation.root_or_peer, operation.count};
      const model::Ends ends = model::EndsOf(role);
      visit(Queue{comm, ends.source, ends.destination}, Member{me, operation.call == Call::kSend});
    };
    if (call.content < 0) return use(call);
    for (const uint64_t order : rank.recorded->graphs[static_cast<size_t>(call.content)]) {
      if (const RecordedCall* held = rank.recorded->Find(order); held != nullptr) use(*held);
    }
  }

  // Counts the operations of the steps, and those before them, by counterpart.
  void Count(const Rank& rank, size_t begin, size_t end) {
    for (size_t i = 0; i < end; ++i) {
      ForEachUse(rank, *rank.operations[i], [&](const Queue& queue, Member me) {
        Share& share = shares_[queue][me];
        ++(i >= begin ? share.within : share.before);
      });
    }
  }

  // How many members, or ends of a transfer, make a call each for an operation of the queue.
  size_t MembersOf(const Queue& queue) const {
    const auto comm = static_cast<size_t>(std::get<0>(queue));
    return std::get<1>(queue) >= 0 ? 2 : facts_.matcher.comms()[comm].members.size();
  }

  void CheckMembers() {
    for (const auto& [queue, shares] : shares_) {
      const int comm = std::get<0>(queue);
      const bool within = std::any_of(shares.begin(), shares.end(),
                                      [](const auto& share) { return share.second.within > 0; });
      const bool alike = shares.size() == MembersOf(queue) &&
                         std::all_of(shares.begin(), shares.end(),
                                     [&first = shares.begin()->second](const auto& share) {
                                       return share.second == first;
                                     });
      if (within && !alike) {
        Refuse("the steps do not hold the same operations on " + names_.CommName(comm) +
               " at all of its members; other steps may, or --all-steps without a range");
      }
    }
  }

  const JobFacts& facts_;
  const model::Names names_;
  const StepRange range_;
  std::vector<Rank> ranks_;
  std::map<Queue, std::map<Member, Share>> shares_;
  uint64_t first_ = 0, last_ = 0;
  JobSteps steps_;
};

}  // namespace

Repetition FindRepetition(const std::vector<uint32_t>& text) {
  const size_t n = text.size();
  const auto at = [&](size_t i) { return text[n - 1 - i]; };  // from the end
  std::vector<size_t> z(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && at(z[i]) == at(i + z[i])) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  for (size_t period = 1; 2 * period <= n; ++period) {
    const size_t covered = period + z[period];
    if (covered < 2 * period || 2 * covered < n) continue;
    const size_t count = covered / period;
    return {n - count * period, period, count};
  }
  return {0, n, n == 0 ? size_t{0} : size_t{1}};
}

JobSteps FindSteps(const JobFacts& facts, const StepRange& range) {
  return Finder(facts, range).Run();
}

}  // namespace gordian::replayer
