#include "replayer/reduce/fixes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "replayer/reduce/model_run.h"

namespace gordian::replayer {
namespace {

// Identifies an operation at all its members: communicator, source and destination (-1 for
// collectives), number.
using Key = std::tuple<int, int, int, size_t>;

class Keys {
 public:
  explicit Keys(const Schedule& schedule) : schedule_(schedule) {}

  // Numbers the operations of one rank in the order of its calls.
  Key Next(int rank, const Op& op) {
    const std::vector<int>& members = schedule_.comms[static_cast<size_t>(op.comm)].members;
    const auto place = static_cast<size_t>(op.root_or_peer);  // no place where it is -1
    const int peer = place < members.size() ? members[place] : -1;
    const auto [source, destination] = model::EndsOf({CallOf(op.kind), rank, peer});
    return {op.comm, source, destination, counts_[{rank, op.comm, source, destination}]++};
  }

 private:
  const Schedule& schedule_;
  std::map<std::tuple<int, int, int, int>, size_t> counts_;
};

// True if one thread of each rank makes all calls, without graphs and groups: the order of calls is
// then the program's.
bool Plain(const Schedule& schedule) {
  for (const RankProgram& rank : schedule.ranks) {
    size_t calling = 0;
    for (const ThreadProgram& thread : rank.threads) {
      bool calls = false;
      for (const Op& op : thread.ops) {
        if (IsOperation(op.kind) && (op.in_group || op.captured)) return false;
        calls |= IsOperation(op.kind);
      }
      calling += calls;
    }
    if (calling > 1) return false;
  }
  return true;
}

bool HasGates(const Schedule& schedule) {
  bool has = false;
  ForEachOp(schedule, [&](size_t, size_t, const Op& op) { has |= !op.gates.empty(); });
  return has;
}

std::optional<Schedule> OneOrder(const Schedule& schedule) {
  if (!Plain(schedule)) return std::nullopt;
  Schedule fixed = schedule;
  Keys keys(schedule);
  std::vector<std::vector<std::pair<Key, Op*>>> calls(fixed.ranks.size());
  for (size_t r = 0; r < fixed.ranks.size(); ++r) {
    for (ThreadProgram& thread : fixed.ranks[r].threads) {
      for (Op& op : thread.ops) {
        if (IsOperation(op.kind)) calls[r].emplace_back(keys.Next(static_cast<int>(r), op), &op);
      }
    }
  }
  // The rank with most calls first, then the calls that only others make.
  std::vector<size_t> by_length(calls.size());
  for (size_t r = 0; r < by_length.size(); ++r) by_length[r] = r;
  std::stable_sort(by_length.begin(), by_length.end(),
                   [&](size_t a, size_t b) { return calls[a].size() > calls[b].size(); });
  std::map<Key, size_t> place;
  for (const size_t r : by_length) {
    for (const auto& [key, op] : calls[r]) place.emplace(key, place.size());
  }
  bool changed = false;
  for (auto& own : calls) {
    std::vector<std::pair<size_t, Op>> ordered;
    for (const auto& [key, op] : own) ordered.emplace_back(place.at(key), *op);
    const bool in_order =
        std::is_sorted(ordered.begin(), ordered.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
    if (in_order) continue;
    changed = true;
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < own.size(); ++i) *own[i].second = std::move(ordered[i].second);
  }
  return changed ? std::optional(std::move(fixed)) : std::nullopt;
}

std::optional<Schedule> Hoisted(const Schedule& schedule) {
  Schedule fixed = schedule;
  bool changed = false;
  for (RankProgram& rank : fixed.ranks) {
    for (ThreadProgram& thread : rank.threads) {
      size_t end = thread.ops.size();  // after the last operation and its group
      while (end > 0 && !IsOperation(thread.ops[end - 1].kind) &&
             thread.ops[end - 1].kind != OpKind::kGroupEnd)
        --end;
      const auto waits = [](const Op& op) { return IsHostWait(op.kind); };
      changed |= std::any_of(thread.ops.begin(),
                             thread.ops.begin() + static_cast<std::ptrdiff_t>(end), waits);
      std::stable_partition(thread.ops.begin(),
                            thread.ops.begin() + static_cast<std::ptrdiff_t>(end),
                            [&](const Op& op) { return !waits(op); });
    }
  }
  return changed ? std::optional(std::move(fixed)) : std::nullopt;
}

// NCCL launches one kernel for a communicator's operations in a group, so each member must have the
// same ones in it.
bool SameGroups(const Schedule& schedule) {
  std::map<int, std::map<size_t, std::map<size_t, size_t>>>
      calls;  // number by communicator, rank and group
  size_t group = 0;
  ForEachOp(schedule, [&](size_t rank, size_t, const Op& op) {
    if (!op.in_group || op.kind == OpKind::kGroupStart) ++group;
    if (IsCollective(op.kind)) ++calls[op.comm][rank][group];
  });
  const auto sizes = [](const auto& groups) {
    std::vector<size_t> out;
    for (const auto& [number, count] : groups) out.push_back(count);
    return out;
  };
  return std::all_of(calls.begin(), calls.end(), [&](const auto& comm) {
    const std::vector<size_t> first = sizes(comm.second.begin()->second);
    return std::all_of(comm.second.begin(), comm.second.end(),
                       [&](const auto& rank) { return sizes(rank.second) == first; });
  });
}

std::optional<Schedule> Grouped(const Schedule& schedule) {
  Schedule fixed = schedule;
  OpId next = NextId(schedule);
  bool changed = false;
  for (RankProgram& rank : fixed.ranks) {
    for (ThreadProgram& thread : rank.threads) {
      std::vector<Op> ops;
      for (size_t i = 0; i < thread.ops.size();) {
        size_t end = i;
        while (end < thread.ops.size() && IsOperation(thread.ops[end].kind) &&
               !thread.ops[end].in_group && !thread.ops[end].captured)
          ++end;
        const bool group = end - i > 1;
        const auto bracket = [&](OpKind kind) {
          Op op;
          op.id = next++;
          op.kind = kind;
          ops.push_back(op);
        };
        if (group) bracket(OpKind::kGroupStart);
        for (size_t j = i; j < std::max(end, i + 1); ++j) {
          ops.push_back(thread.ops[j]);
          ops.back().in_group |= group;
        }
        if (group) bracket(OpKind::kGroupEnd);
        changed |= group;
        i = std::max(end, i + 1);
      }
      thread.ops = std::move(ops);
    }
  }
  if (!SameGroups(fixed)) return std::nullopt;
  return changed ? std::optional(std::move(fixed)) : std::nullopt;
}

std::optional<Schedule> Implicit(const Schedule& schedule) {
  constexpr char kName[] = "NCCL_LAUNCH_ORDER_IMPLICIT";
  Schedule fixed = schedule;
  for (auto& [name, value] : fixed.environment) {
    if (name != kName) continue;
    if (value == "1") return std::nullopt;
    value = std::string("1");  // GCC 12 warns of a literal here
    return fixed;
  }
  fixed.environment.emplace_back(kName, "1");
  return fixed;
}

bool Ends(const Schedule& schedule) {
  std::vector<Turns> turns = {kFirstFirst, Turns{1}};
  for (size_t r = 0; r < schedule.ranks.size(); ++r) turns.push_back(LastThreadFirst(r));
  return std::none_of(turns.begin(), turns.end(),
                      [&](Turns t) { return RunModel(schedule, t).hangs; });
}

}  // namespace

std::vector<Fix> ProposeFixes(const Schedule& schedule) {
  std::vector<Fix> fixes;
  if (HasGates(schedule)) return fixes;
  const auto propose = [&](const char* name, const char* what, std::optional<Schedule> fixed) {
    if (!fixed || !Check(*fixed).empty() || !Ends(*fixed)) return;
    ForEachOp(*fixed, [](size_t, size_t, Op& op) { op.unfinished = op.not_reached = false; });
    fixes.push_back({name, what, std::move(*fixed)});
  };
  propose("order", "every rank calls the operations in one order", OneOrder(schedule));
  propose("hoisted", "host waits come after all operations of their thread", Hoisted(schedule));
  propose("grouped",
          "operations with nothing between them are one group (ncclGroupStart, ncclGroupEnd)",
          Grouped(schedule));
  propose("implicit",
          "NCCL_LAUNCH_ORDER_IMPLICIT=1: NCCL orders what one process launches on one device",
          Implicit(schedule));
  return fixes;
}

}  // namespace gordian::replayer
