#include "bench/analyze/naive_decider.h"

#include <algorithm>
#include <deque>

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
    case v1::Event::kRecord:
      records_.push_back(event.record());
      break;
    case v1::Event::kRound:
      Decide(event.round());
      break;
    default:
      break;
  }
}

void NaiveDecider::Decide(const v1::Round& round) {
  // All operations so far.
  struct Member {
    uint64_t uid;
    int rank, size;
  };
  std::map<std::pair<uint32_t, uint32_t>, Member> comms;         // (process, communicator)
  std::map<std::pair<uint32_t, uint32_t>, v1::CallRecord> open;  // (process, thread)
  std::map<std::pair<uint64_t, int>, uint32_t> process_of;       // (uid, rank)
  std::vector<Op> ops;
  for (const v1::CallRecord& record : records_) {
    const auto thread = std::make_pair(record.process(), record.thread());
    if (record.kind() == v1::RECORD_KIND_BEGIN) {
      open[thread] = record;
      if (record.has_comm_init()) {
        const v1::CommInit& init = record.comm_init();
        comms[{record.process(), init.comm()}] = {init.uid(), init.rank(), init.nranks()};
        process_of[{init.uid(), init.rank()}] = record.process();
      }
    } else if (record.kind() == v1::RECORD_KIND_END && open[thread].has_operation() &&
               record.end().ordinal() != 0) {
      const v1::Operation& operation = open[thread].operation();
      const Member& me = comms[{record.process(), operation.comm()}];
      const std::string& symbol = symbols_[record.call()];
      Key key{me.uid, -1, -1, operation.sequence()};
      if (symbol == "ncclSend") key = {me.uid, me.rank, operation.root_or_peer(), key.sequence};
      if (symbol == "ncclRecv") key = {me.uid, operation.root_or_peer(), me.rank, key.sequence};
      ops.push_back({record.process(), record.end().stream(), record.end().ordinal(), key,
                     key.from < 0 ? static_cast<size_t>(me.size) : 2});
    }
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
