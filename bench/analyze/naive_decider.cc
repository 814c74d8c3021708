#include "bench/analyze/naive_decider.h"

#include <algorithm>
#include <deque>

#include "common/record_block.h"

namespace gordian::bench {
namespace {

struct Key {  // an operation across the job: communicator, kind of channel, number in it
  uint64_t uid;
  int from, to;  // -1 for collectives
  uint64_t sequence;
  auto operator<=>(const Key&) const = default;
};

struct Op {
  uint32_t process;
  uint32_t stream;
  uint64_t ordinal;
  Key key;
  size_t members;
  bool started = false, done = false;
};

}  // namespace

void NaiveDecider::OnEvent(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kCallName:
      symbols_[event.call_name().call()] = event.call_name().symbol();
      break;
    case v1::Event::kRecords:
      ForEachRecord(event.records(),
                    [&](const ring::Record& record) { Keep(event.records().process(), record); });
      break;
    case v1::Event::kRound:
      Decide(event.round());
      break;
    default:
      break;
  }
}

void NaiveDecider::Keep(uint32_t process, const ring::Record& record) {
  Record kept{};
  kept.process = process;
  kept.thread = record.thread;
  kept.begins = record.kind == ring::RecordKind::kBegin;
  const std::string& symbol = symbols_[record.call];
  if (kept.begins && symbol.starts_with("ncclCommInit")) {
    const ring::CommInitPayload& init = record.payload.comm_init;
    kept.what = What::kMakeCommunicator;
    kept.comm = init.comm;
    kept.uid = init.uid;
    kept.rank = init.rank;
    kept.size = static_cast<uint32_t>(init.nranks);
  } else if (kept.begins && symbol.starts_with("nccl")) {
    const ring::OperationPayload& operation = record.payload.operation;
    kept.what = symbol == "ncclSend"   ? What::kSend
                : symbol == "ncclRecv" ? What::kReceive
                                       : What::kCollective;
    kept.comm = operation.comm;
    kept.sequence = operation.sequence;
    kept.peer = operation.root_or_peer;
  } else if (record.kind == ring::RecordKind::kEnd && record.payload.end.ordinal != 0) {
    kept.stream = record.payload.end.stream;
    kept.ordinal = record.payload.end.ordinal;
  } else {
    return;
  }
  records_.push_back(kept);
}

void NaiveDecider::Decide(const v1::Round& round) {
  // All operations so far.
  std::map<std::pair<uint32_t, uint32_t>, const Record*> comms;  // (process, communicator)
  std::map<std::pair<uint32_t, uint32_t>, const Record*> open;   // (process, thread)
  std::vector<Op> ops;
  for (const Record& record : records_) {
    if (record.begins) {
      open[{record.process, record.thread}] = &record;
      if (record.what == What::kMakeCommunicator) comms[{record.process, record.comm}] = &record;
      continue;
    }
    const Record& operation = *open[{record.process, record.thread}];
    const Record& me = *comms[{record.process, operation.comm}];
    Key key{me.uid, -1, -1, operation.sequence};
    if (operation.what == What::kSend) key = {me.uid, me.rank, operation.peer, key.sequence};
    if (operation.what == What::kReceive) key = {me.uid, operation.peer, me.rank, key.sequence};
    ops.push_back({record.process, record.stream, record.ordinal, key, key.from < 0 ? me.size : 2});
  }

  // What the devices have done by themselves.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> done;  // (process, stream)
  for (const v1::ProcessState& state : round.processes()) {
    for (const v1::StreamState& stream : state.streams()) {
      done[{state.process(), stream.stream()}] = stream.done();
    }
  }

  // Over and over, until nothing moves: an operation starts when all before it on its stream are
  // done, and is done when all members have started theirs.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> streams;
  std::map<Key, std::vector<size_t>> members;
  for (size_t i = 0; i < ops.size(); ++i) {
    ops[i].done = ops[i].started = ops[i].ordinal <= done[{ops[i].process, ops[i].stream}];
    streams[{ops[i].process, ops[i].stream}].push_back(i);
    members[ops[i].key].push_back(i);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [stream, queue] : streams) {
      bool clear = true;
      for (size_t i : queue) {
        if (clear && !ops[i].started) ops[i].started = moved = true;
        clear = clear && ops[i].done;
      }
    }
    for (auto& [key, group] : members) {
      const bool all =
          group.size() == ops[group[0]].members &&
          std::all_of(group.begin(), group.end(), [&ops](size_t i) { return ops[i].started; });
      for (size_t i : group) {
        if (all && !ops[i].done) ops[i].done = moved = true;
      }
    }
  }

  // Who waits for whom among what is left: the shortest cycle from each process, by breadth.
  std::map<uint32_t, std::set<uint32_t>> waits;
  for (const Op& op : ops) {
    if (op.done || !op.started) continue;
    for (size_t i : members[op.key]) {
      if (!ops[i].started) waits[op.process].insert(ops[i].process);
    }
  }
  std::set<uint32_t> cycle;
  for (const auto& [start, unused] : waits) {
    std::map<uint32_t, uint32_t> parent;
    std::deque<uint32_t> queue{start};
    while (!queue.empty()) {
      const uint32_t at = queue.front();
      queue.pop_front();
      bool closed = false;
      for (uint32_t next : waits[at]) {
        if (next == start) {
          closed = true;
          break;
        }
        if (parent.emplace(next, at).second) queue.push_back(next);
      }
      if (!closed) continue;
      std::set<uint32_t> found{start};
      for (uint32_t on = at; on != start; on = parent[on]) found.insert(on);
      if (cycle.empty() || found.size() < cycle.size()) cycle = found;
      break;
    }
  }
  confirmed_ = cycle == last_ ? cycle : std::set<uint32_t>();
  last_ = std::move(cycle);
}

}  // namespace gordian::bench
