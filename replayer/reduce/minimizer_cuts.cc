#include "replayer/reduce/minimizer_cuts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "analyzer/model/collective.h"
#include "replayer/record/buffers.h"
#include "replayer/reduce/mismatch.h"

namespace gordian::replayer {
namespace {

template <typename Condition>
void EraseOps(Schedule* schedule, Condition condition) {
  for (size_t rank = 0; rank < schedule->ranks.size(); ++rank) {
    for (ThreadProgram& thread : schedule->ranks[rank].threads) {
      std::erase_if(thread.ops,
                    [&](const Op& op) { return condition(static_cast<int>(rank), op); });
    }
  }
}

// The least bytes of each class of sizes.
constexpr uint64_t kClassFrom[] = {0,
                                   1,
                                   kSmallBelowBytes,
                                   kUnequalMeetFromBytes,
                                   kUnequalEndFromBytes,
                                   kMostBytes,
                                   kLargeAboveBytes + 1,
                                   kUnequalEndUpToBytes + 1};
static_assert(std::is_sorted(std::begin(kClassFrom), std::end(kClassFrom)));
constexpr size_t kSmallest = 1;  // class of any bytes

bool NamesMember(OpKind kind) { return IsTransfer(kind) || HasRoot(kind); }

// The new indices of the remaining ones of `size` things; -1: removed.
std::vector<int> Renumber(const std::vector<bool>& left) {
  std::vector<int> numbers(left.size(), -1);
  int next = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i]) numbers[i] = next++;
  }
  return numbers;
}
template <typename Thing>
void Keep(const std::vector<bool>& left, std::vector<Thing>* things) {
  std::vector<Thing> kept;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i]) kept.push_back(std::move((*things)[i]));
  }
  *things = std::move(kept);
}
void Move(const std::vector<int>& numbers, int* number) {
  if (*number >= 0) *number = numbers[static_cast<size_t>(*number)];
}

// A group may stay open only if its thread stands in it.
void TidyGroups(ThreadProgram* thread) {
  std::vector<Op> tidy;
  bool open = false;
  for (size_t i = 0; i < thread->ops.size(); ++i) {
    Op& op = thread->ops[i];
    if (op.kind == OpKind::kGroupStart) {
      size_t end = i + 1;
      bool filled = false;
      while (end < thread->ops.size() && thread->ops[end].kind != OpKind::kGroupEnd &&
             thread->ops[end].kind != OpKind::kGroupStart) {
        filled |= IsOperation(thread->ops[end].kind) ||
                  thread->ops[end].kind == OpKind::kCommInit ||
                  thread->ops[end].kind == OpKind::kCommSplit;
        ++end;
      }
      const bool ends = end < thread->ops.size() && thread->ops[end].kind == OpKind::kGroupEnd;
      open = filled && (ends || thread->ops.back().unfinished);
      if (!open) continue;
      tidy.push_back(std::move(op));
      continue;
    }
    if (op.kind == OpKind::kGroupEnd) {
      if (open) tidy.push_back(std::move(op));
      open = false;
      continue;
    }
    op.in_group = open;
    tidy.push_back(std::move(op));
  }
  thread->ops = std::move(tidy);
}

// Removes graphs without a capture or without operations, and all calls that use them.
void TidyGraphs(RankProgram* rank) {
  std::vector<int> parts(static_cast<size_t>(rank->graphs), 0);  // begin, end, operations
  for (const ThreadProgram& thread : rank->threads) {
    int open = -1;
    for (const Op& op : thread.ops) {
      if (op.kind == OpKind::kCaptureBegin) open = op.graph;
      if (op.kind == OpKind::kCaptureBegin) parts[static_cast<size_t>(op.graph)] |= 1;
      if (op.kind == OpKind::kCaptureEnd) parts[static_cast<size_t>(op.graph)] |= 2;
      if (op.captured && IsOperation(op.kind) && open >= 0) parts[static_cast<size_t>(open)] |= 4;
    }
  }
  for (ThreadProgram& thread : rank->threads) {
    int open = -1;
    std::erase_if(thread.ops, [&](const Op& op) {
      if (op.kind == OpKind::kCaptureBegin) open = op.graph;
      const int graph = op.graph >= 0 ? op.graph : op.captured ? open : -1;
      const bool lost = op.captured && open < 0;
      if (op.kind == OpKind::kCaptureEnd) open = -1;
      return lost || (graph >= 0 && parts[static_cast<size_t>(graph)] != 7);
    });
  }
}

// Finds communicators that a rank uses and does not make.
void TidyUnmade(Schedule* schedule) {
  std::set<std::pair<int, int>> made;
  ForEachOp(*schedule, [&](size_t rank, size_t, const Op& op) {
    if (op.kind == OpKind::kCommInit || op.kind == OpKind::kCommSplit)
      made.insert({static_cast<int>(rank), op.comm});
  });
  EraseOps(schedule, [&](int rank, const Op& op) {
    const int used = op.kind == OpKind::kCommSplit  ? op.parent
                     : op.kind == OpKind::kCommInit ? -1
                                                    : op.comm;
    return used >= 0 && !schedule->comms[static_cast<size_t>(used)].ready &&
           !made.contains({rank, used});
  });
}

void TidyComms(Schedule* schedule) {
  std::vector<bool> left(schedule->comms.size(), false);
  ForEachOp(*schedule, [&](size_t, size_t, const Op& op) {
    if (op.comm >= 0) left[static_cast<size_t>(op.comm)] = true;
    if (op.parent >= 0) left[static_cast<size_t>(op.parent)] = true;
  });
  const std::vector<int> numbers = Renumber(left);
  for (Communicator& comm : schedule->comms) Move(numbers, &comm.parent);
  Keep(left, &schedule->comms);
  ForEachOp(*schedule, [&](size_t, size_t, Op& op) {
    Move(numbers, &op.comm);
    Move(numbers, &op.parent);
  });
}

void TidyRanks(Schedule* schedule) {
  std::vector<bool> left(schedule->ranks.size(), false);
  ForEachOp(*schedule, [&](size_t rank, size_t, const Op&) { left[rank] = true; });
  for (const Communicator& comm : schedule->comms) {
    for (const int member : comm.members) {
      if (member >= 0) left[static_cast<size_t>(member)] = true;
    }
  }
  const std::vector<int> numbers = Renumber(left);
  Keep(left, &schedule->ranks);
  for (Communicator& comm : schedule->comms) {
    for (int& member : comm.members) Move(numbers, &member);
  }
  for (size_t i = 0; i < schedule->ranks.size(); ++i)
    schedule->ranks[i].device = static_cast<int>(i);
}

void TidyPlaces(RankProgram* rank) {
  std::vector<bool> streams(rank->streams.size()), events(static_cast<size_t>(rank->events)),
      graphs(static_cast<size_t>(rank->graphs));
  const auto note = [](int number, std::vector<bool>* left) {
    if (number >= 0) (*left)[static_cast<size_t>(number)] = true;
  };
  for (const ThreadProgram& thread : rank->threads) {
    for (const Op& op : thread.ops) {
      note(op.stream, &streams);
      note(op.event, &events);
      note(op.graph, &graphs);
    }
  }
  const std::vector<int> stream = Renumber(streams), event = Renumber(events),
                         graph = Renumber(graphs);
  Keep(streams, &rank->streams);
  rank->events = static_cast<int>(std::count(events.begin(), events.end(), true));
  rank->graphs = static_cast<int>(std::count(graphs.begin(), graphs.end(), true));
  for (ThreadProgram& thread : rank->threads) {
    for (Op& op : thread.ops) {
      Move(stream, &op.stream);
      Move(event, &op.event);
      Move(graph, &op.graph);
    }
  }
}

Schedule Tidy(const Schedule& before, Schedule after) {
  TidyUnmade(&after);
  for (RankProgram& rank : after.ranks) {
    for (ThreadProgram& thread : rank.threads) TidyGroups(&thread);
    TidyGraphs(&rank);
    for (ThreadProgram& thread : rank.threads) TidyGroups(&thread);
    std::erase_if(rank.threads, [](const ThreadProgram& thread) { return thread.ops.empty(); });
  }
  DropDanglingGates(before, &after);
  TidyComms(&after);
  TidyRanks(&after);
  for (RankProgram& rank : after.ranks) TidyPlaces(&rank);
  return after;
}

}  // namespace

Schedule WithoutOps(const Schedule& schedule, const OpSet& ops) {
  Schedule after = schedule;
  EraseOps(&after, [&](int, const Op& op) { return ops.contains(op.id); });
  return Tidy(schedule, std::move(after));
}

Schedule WithoutMembers(const Schedule& schedule, const std::set<std::pair<int, int>>& members) {
  Schedule after = schedule;
  std::vector<std::vector<int>> numbers;  // by communicator and old index
  for (size_t i = 0; i < after.comms.size(); ++i) {
    Communicator& comm = after.comms[i];
    std::vector<bool> left(comm.members.size());
    for (size_t place = 0; place < left.size(); ++place)
      left[place] = !members.contains({static_cast<int>(i), static_cast<int>(place)});
    numbers.push_back(Renumber(left));
    Keep(left, &comm.members);
    std::erase_if(comm.connected_pairs, [&](const auto& pair) {
      return !left[static_cast<size_t>(pair.first)] || !left[static_cast<size_t>(pair.second)];
    });
    for (auto& [from, to] : comm.connected_pairs) {
      Move(numbers.back(), &from);
      Move(numbers.back(), &to);
    }
  }
  const auto is_member = [&](int comm, int rank) {
    const std::vector<int>& left = after.comms[static_cast<size_t>(comm)].members;
    return std::find(left.begin(), left.end(), rank) != left.end();
  };
  EraseOps(&after, [&](int rank, const Op& op) {
    if (op.parent >= 0 && !is_member(op.parent, rank)) return true;
    if (op.comm < 0) return false;
    if (!is_member(op.comm, rank)) return true;
    const std::vector<int>& of = numbers[static_cast<size_t>(op.comm)];
    return NamesMember(op.kind) && op.root_or_peer >= 0 &&
           op.root_or_peer < static_cast<int>(of.size()) &&
           of[static_cast<size_t>(op.root_or_peer)] < 0;
  });
  ForEachOp(after, [&](size_t, size_t, Op& op) {
    if (op.comm < 0 || !NamesMember(op.kind)) return;
    const std::vector<int>& of = numbers[static_cast<size_t>(op.comm)];
    if (op.root_or_peer < static_cast<int>(of.size())) Move(of, &op.root_or_peer);
  });
  return Tidy(schedule, std::move(after));
}

Schedule WithoutRanks(const Schedule& schedule, const std::set<int>& ranks) {
  std::set<std::pair<int, int>> members;
  for (size_t comm = 0; comm < schedule.comms.size(); ++comm) {
    const std::vector<int>& all = schedule.comms[comm].members;
    for (size_t place = 0; place < all.size(); ++place) {
      if (ranks.contains(all[place]))
        members.insert({static_cast<int>(comm), static_cast<int>(place)});
    }
  }
  Schedule after = schedule;
  EraseOps(&after, [&](int rank, const Op&) { return ranks.contains(rank); });
  return WithoutMembers(after, members);
}

Schedule WithReadyComm(const Schedule& schedule, int comm) {
  Schedule after = schedule;
  Communicator& made = after.comms[static_cast<size_t>(comm)];
  if (std::find(made.members.begin(), made.members.end(), -1) != made.members.end()) return after;
  made.ready = true;
  made.parent = -1;
  EraseOps(&after, [&](int, const Op& op) {
    return op.comm == comm && (op.kind == OpKind::kCommInit || op.kind == OpKind::kCommSplit);
  });
  return Tidy(schedule, std::move(after));
}

Schedule WithThreadsMerged(const Schedule& schedule, size_t rank, size_t into, size_t from) {
  Schedule after = schedule;
  std::vector<ThreadProgram>& threads = after.ranks[rank].threads;
  std::vector<Op> sources[2] = {threads[into].ops, threads[from].ops};
  size_t at[2] = {0, 0};
  OpSet open;
  for (const auto& source : sources) {
    for (const Op& op : source) open.insert(op.id);
  }
  std::vector<Op> merged;
  int turn = 0;
  for (int refused = 0; at[0] < sources[0].size() || at[1] < sources[1].size();) {
    const auto& source = sources[turn];
    const bool other_left = at[1 - turn] < sources[1 - turn].size();
    bool may = at[turn] < source.size();
    if (may) {
      const Op& op = source[at[turn]];
      may = std::none_of(op.gates.begin(), op.gates.end(),
                         [&](const Gate& gate) { return open.contains(gate.after); }) &&
            !((op.unfinished || EndsThread(op.kind)) && other_left);
    }
    if (!may) {
      if (++refused == 2) return {};
      turn = 1 - turn;
      continue;
    }
    refused = 0;
    open.erase(source[at[turn]].id);
    merged.push_back(source[at[turn]++]);
  }
  threads[into].ops = std::move(merged);
  threads[from].ops.clear();
  return Tidy(after, after);
}

Schedule WithStreamsMerged(const Schedule& schedule, size_t rank, int into, int from) {
  Schedule after = schedule;
  for (ThreadProgram& thread : after.ranks[rank].threads) {
    for (Op& op : thread.ops) {
      if (op.stream == from) op.stream = into;
    }
  }
  return Tidy(schedule, std::move(after));
}

size_t ClassOf(const Op& op, size_t members) {
  const uint64_t bytes =
      model::TunedElements(CallOf(op.kind), op.count, members) * model::DatatypeBytes(op.datatype);
  return static_cast<size_t>(std::upper_bound(std::begin(kClassFrom), std::end(kClassFrom), bytes) -
                             std::begin(kClassFrom) - 1);
}

std::vector<std::vector<OpId>> Steps(const Schedule& schedule) {
  // Communicator; source and destination of a transfer, else -1; number at the member.
  std::map<std::tuple<int, int, int, int>, std::vector<OpId>> steps;
  std::map<std::tuple<int, int, int, int>, int> next;  // rank, communicator, source, destination
  ForEachOp(schedule, [&](size_t place, size_t, const Op& op) {
    if (!IsOperation(op.kind)) return;
    const int rank = static_cast<int>(place);
    const int me = MemberOf(schedule.comms[static_cast<size_t>(op.comm)], rank);
    const auto [from, to] = model::EndsOf(RoleOf(op, me));
    // The two ends of a transfer to oneself are numbered apart.
    const int number = next[{op.kind == OpKind::kRecv ? -1 - rank : rank, op.comm, from, to}]++;
    steps[{op.comm, from, to, number}].push_back(op.id);
  });
  std::vector<std::vector<OpId>> all;
  for (auto& [step, ops] : steps) all.push_back(std::move(ops));
  return all;
}

Schedule WithLeastBytes(const Schedule& schedule, const Schedule& original,
                        const std::vector<std::vector<OpId>>& groups) {
  std::map<OpId, size_t> classes;
  ForEachOp(original, [&](size_t, size_t, const Op& op) {
    if (IsOperation(op.kind))
      classes[op.id] = ClassOf(op, original.comms[static_cast<size_t>(op.comm)].members.size());
  });
  Schedule after = schedule;
  std::map<OpId, Op*> ops;
  ForEachOp(after, [&](size_t, size_t, Op& op) { ops[op.id] = &op; });
  for (const std::vector<OpId>& group : groups) {
    std::map<size_t, std::set<uint64_t>> sizes;  // different sizes, in order
    for (const OpId id : group) sizes[classes.at(id)].insert(Bytes(*ops.at(id)));
    for (const OpId id : group) {
      Op& op = *ops.at(id);
      const size_t size = classes.at(id);
      if (size < kSmallest) continue;
      const std::set<uint64_t>& of_class = sizes.at(size);
      const uint64_t step =
          1 + static_cast<uint64_t>(std::distance(of_class.begin(), of_class.find(Bytes(op))));
      const uint64_t share = model::TunedElements(
          CallOf(op.kind), /*count=*/1, after.comms[static_cast<size_t>(op.comm)].members.size());
      const uint64_t width = model::DatatypeBytes(op.datatype);
      // Equal bytes for every type: the largest element has eight. Different sizes differ by a
      // little more than one element of the largest type.
      const uint64_t bytes =
          size == kSmallest ? 8 * step : (kClassFrom[size] + 7) / 8 * 8 + 64 * (step - 1);
      const uint64_t count = (bytes + share * width - 1) / (share * width);
      op.count = std::min(op.count, count);
    }
  }
  return after;
}

}  // namespace gordian::replayer
