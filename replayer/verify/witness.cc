#include "replayer/verify/witness.h"

#include <algorithm>
#include <set>

namespace gordian::replayer {
namespace {

// Which operations of a thread stay, by index.
std::vector<bool> Stays(const ThreadProgram& thread) {
  const std::vector<Op>& ops = thread.ops;
  std::vector<bool> stays(ops.size(), false);
  for (size_t i = 0; i < ops.size(); ++i) stays[i] = ops[i].witness;
  // Keeps both ends of a group that holds something; removes empty groups.
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::kGroupStart) continue;
    size_t end = i + 1;
    bool holds = false;
    for (; end < ops.size() && ops[end].kind != OpKind::kGroupEnd; ++end) holds |= stays[end];
    stays[i] = holds;
    if (end < ops.size()) stays[end] = holds;
  }
  // Keeps the whole capture of a graph that is launched.
  std::set<int> launched;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (stays[i] && ops[i].kind == OpKind::kGraphLaunch) launched.insert(ops[i].graph);
  }
  int capturing = -1;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::kCaptureBegin) capturing = ops[i].graph;
    const bool part = ops[i].captured || ops[i].kind == OpKind::kCaptureBegin ||
                      ops[i].kind == OpKind::kCaptureEnd;
    if (part && capturing >= 0) stays[i] = launched.contains(capturing);
    if (ops[i].kind == OpKind::kGroupEnd && capturing >= 0 && ops[i].in_group)
      stays[i] = launched.contains(capturing);
    if (ops[i].kind == OpKind::kCaptureEnd) capturing = -1;
  }
  return stays;
}

}  // namespace

Schedule CutToWitness(const Schedule& schedule) {
  Schedule cut = schedule;
  for (size_t r = 0; r < cut.ranks.size(); ++r) {
    bool any = false;
    std::vector<ThreadProgram> threads;
    for (const ThreadProgram& thread : schedule.ranks[r].threads) {
      const std::vector<bool> stays = Stays(thread);
      ThreadProgram& left = threads.emplace_back();
      for (size_t i = 0; i < stays.size(); ++i) {
        if (stays[i]) left.ops.push_back(thread.ops[i]);
      }
      any |= !left.ops.empty();
    }
    // Keeps a rank's last call: a rank with nothing to do would end, and change the hang.
    if (!any) continue;
    if (threads[0].ops.empty()) {
      std::swap(threads[0], *std::find_if(threads.begin(), threads.end(),
                                          [](const ThreadProgram& t) { return !t.ops.empty(); }));
    }
    threads.erase(std::remove_if(threads.begin() + 1, threads.end(),
                                 [](const ThreadProgram& t) { return t.ops.empty(); }),
                  threads.end());
    cut.ranks[r].threads = std::move(threads);
  }
  DropDanglingGates(schedule, &cut);
  DropUnused(&cut);
  return cut;
}

void DropUnused(Schedule* schedule) {
  const size_t comms = schedule->comms.size();
  std::vector<bool> used(comms, false);
  for (const RankProgram& rank : schedule->ranks) {
    for (const ThreadProgram& thread : rank.threads) {
      for (const Op& op : thread.ops) {
        if (op.comm >= 0) used[static_cast<size_t>(op.comm)] = true;
        if (op.parent >= 0) used[static_cast<size_t>(op.parent)] = true;
      }
    }
  }
  // A split communicator stays without its parent if nothing else needs the parent.
  std::vector<int> place(comms, -1);
  std::vector<Communicator> left;
  for (size_t i = 0; i < comms; ++i) {
    if (!used[i]) continue;
    place[i] = static_cast<int>(left.size());
    Communicator& comm = left.emplace_back(std::move(schedule->comms[i]));
    comm.parent = comm.parent < 0 ? -1 : place[static_cast<size_t>(comm.parent)];
  }
  schedule->comms = std::move(left);
  std::vector<bool> stays(schedule->ranks.size(), false);
  for (size_t r = 0; r < stays.size(); ++r) {
    for (const ThreadProgram& thread : schedule->ranks[r].threads) {
      stays[r] = stays[r] || std::any_of(thread.ops.begin(), thread.ops.end(),
                                         [](const Op& op) { return !EndsThread(op.kind); });
    }
  }
  for (const Communicator& comm : schedule->comms) {
    for (const int member : comm.members) {
      if (member >= 0) stays[static_cast<size_t>(member)] = true;
    }
  }
  std::vector<int> rank_place(stays.size(), -1);
  std::vector<RankProgram> ranks;
  for (size_t r = 0; r < stays.size(); ++r) {
    if (!stays[r]) continue;
    rank_place[r] = static_cast<int>(ranks.size());
    ranks.push_back(std::move(schedule->ranks[r]));
    ranks.back().device = rank_place[r];
    for (ThreadProgram& thread : ranks.back().threads) {
      for (Op& op : thread.ops) {
        if (op.comm >= 0) op.comm = place[static_cast<size_t>(op.comm)];
        if (op.parent >= 0) op.parent = place[static_cast<size_t>(op.parent)];
      }
    }
  }
  schedule->ranks = std::move(ranks);
  for (Communicator& comm : schedule->comms) {
    for (int& member : comm.members)
      member = member < 0 ? -1 : rank_place[static_cast<size_t>(member)];
  }
  const Schedule renumbered = *schedule;
  DropDanglingGates(renumbered, schedule);
}

}  // namespace gordian::replayer
