#include "tests/unit/replayer/schedule_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "replayer/reduce/model_run.h"

namespace gordian::replayer::testing {

std::vector<Op>& Calls::ops() const {
  return schedule_->ranks[static_cast<size_t>(rank_)].threads[static_cast<size_t>(thread_)].ops;
}

Calls& Calls::Add(Op op) {
  RankProgram& rank = schedule_->ranks[static_cast<size_t>(rank_)];
  while (static_cast<int>(rank.streams.size()) <= op.stream)
    rank.streams.push_back({.name = "s" + std::to_string(rank.streams.size() + 1)});
  rank.events = std::max(rank.events, op.event + 1);
  rank.graphs = std::max(rank.graphs, op.graph + 1);
  op.id = (*next_)++;
  for (const Op& before : ops()) {
    if (before.kind == OpKind::kGroupStart || before.kind == OpKind::kGroupEnd)
      op.in_group = before.kind == OpKind::kGroupStart;
    if (before.kind == OpKind::kCaptureBegin || before.kind == OpKind::kCaptureEnd)
      op.captured = before.kind == OpKind::kCaptureBegin;
  }
  if (op.kind == OpKind::kGroupStart || op.kind == OpKind::kGroupEnd) op.in_group = false;
  if (op.kind == OpKind::kCaptureEnd) op.captured = false;
  ops().push_back(std::move(op));
  return *this;
}

Calls& Calls::Do(OpKind kind, int comm, int stream, uint64_t count, int root_or_peer) {
  const bool reduces =
      kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kReduce;
  return Add({.kind = kind,
              .comm = comm,
              .stream = stream,
              .count = count,
              .datatype = 7,
              .reduce_op = static_cast<uint8_t>(reduces ? 0 : 255),
              .root_or_peer = root_or_peer});
}

Calls& Calls::GroupStart() { return Add({.kind = OpKind::kGroupStart}); }
Calls& Calls::GroupEnd() { return Add({.kind = OpKind::kGroupEnd}); }
Calls& Calls::CaptureBegin(int graph, int stream) {
  return Add({.kind = OpKind::kCaptureBegin, .stream = stream, .graph = graph});
}
Calls& Calls::CaptureEnd(int graph, int stream) {
  return Add({.kind = OpKind::kCaptureEnd, .stream = stream, .graph = graph});
}

Calls& Calls::Stands() {
  ops().back().unfinished = true;
  ops().back().witness = true;
  return *this;
}

Calls& Calls::After(OpId id, Gate::Moment moment) {
  ops().back().gates.push_back({id, moment});
  return *this;
}

OpId Calls::last() const { return ops().back().id; }

ScheduleBuilder::ScheduleBuilder(int ranks) {
  schedule_.ranks.resize(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    schedule_.ranks[static_cast<size_t>(rank)].rank = rank;
    schedule_.ranks[static_cast<size_t>(rank)].device = rank;
  }
}

int ScheduleBuilder::Comm(const std::string& name, std::vector<int> members, bool cold) {
  Communicator comm;
  comm.name = comm.label = name;
  comm.ready = true;
  comm.connected = !cold;
  for (int from = 0; from < static_cast<int>(members.size()) && !cold; ++from) {
    for (int to = 0; to < static_cast<int>(members.size()); ++to) {
      if (from != to) comm.connected_pairs.emplace_back(from, to);
    }
  }
  comm.members = std::move(members);
  schedule_.comms.push_back(std::move(comm));
  return static_cast<int>(schedule_.comms.size()) - 1;
}

int ScheduleBuilder::UnmadeComm(const std::string& name, std::vector<int> members, int parent) {
  Communicator comm;
  comm.name = comm.label = name;
  comm.members = std::move(members);
  comm.parent = parent;
  schedule_.comms.push_back(std::move(comm));
  return static_cast<int>(schedule_.comms.size()) - 1;
}

Calls ScheduleBuilder::On(int rank, int thread) {
  auto& threads = schedule_.ranks[static_cast<size_t>(rank)].threads;
  while (static_cast<int>(threads.size()) <= thread) threads.emplace_back();
  return Calls(&schedule_, rank, thread, &next_);
}

Schedule ScheduleBuilder::Build() {
  for (const std::string& problem : Check(schedule_)) ADD_FAILURE() << problem;
  Schedule built = schedule_;
  built.origin.signature = RunModel(built).signature;
  built.origin.ranks = built.ranks.size();
  built.origin.operations = CountOperations(built);
  return built;
}

}  // namespace gordian::replayer::testing
