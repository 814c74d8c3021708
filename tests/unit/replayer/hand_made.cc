#include "tests/unit/replayer/hand_made.h"

#include <algorithm>
#include <utility>

namespace gordian::replayer::testing {
namespace {

class Maker {
 public:
  explicit Maker(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      RankProgram& program = schedule_.ranks.emplace_back();
      program.rank = program.device = rank;
      program.streams.push_back({.name = "s1"});
      program.threads.emplace_back();
    }
    schedule_.origin = {.signature = {"deadlock", {"started_collective"}},
                        .check = "communicator-order-cycle",
                        .confidence = "confirmed",
                        .summary = "Ranks 0 and 1 wait for each other.",
                        .command = "./train --steps 100",
                        .source = "session",
                        .gordian_version = "0.1.0",
                        .ranks = static_cast<size_t>(ranks),
                        .operations = 1000,
                        .records = 5000,
                        .notes = {}};
  }

  int Comm(const std::string& name, std::vector<int> members, bool ready = true) {
    Communicator& comm = schedule_.comms.emplace_back();
    comm.name = comm.label = name;
    comm.members = std::move(members);
    comm.ready = comm.connected = ready;
    return static_cast<int>(schedule_.comms.size()) - 1;
  }
  Op& Add(int rank, OpKind kind, size_t thread = 0) {
    std::vector<ThreadProgram>& threads = schedule_.ranks[static_cast<size_t>(rank)].threads;
    if (threads.size() <= thread) threads.resize(thread + 1);
    Op& op = threads[thread].ops.emplace_back();
    op.id = ++last_;
    op.kind = kind;
    op.witness = true;
    op.in_group = group_ && kind != OpKind::kGroupEnd && kind != OpKind::kGroupStart;
    if (kind == OpKind::kGroupStart) group_ = true;
    if (kind == OpKind::kGroupEnd) group_ = false;
    return op;
  }
  Op& Operation(int rank, OpKind kind, int comm, int stream = 0, size_t thread = 0) {
    Op& op = Add(rank, kind, thread);
    op.comm = comm;
    op.stream = stream;
    op.count = 1024;
    op.datatype = 7;
    op.reduce_op = 0;
    return op;
  }
  Op& Sync(int rank, int stream = 0, size_t thread = 0) {
    Op& op = Add(rank, OpKind::kStreamSync, thread);
    op.stream = stream;
    op.unfinished = true;
    return op;
  }
  Schedule& schedule() { return schedule_; }

 private:
  Schedule schedule_;
  OpId last_ = 0;
  bool group_ = false;
};

Schedule Inversion() {
  Maker maker(3);
  const int dp = maker.Comm("dp", {0, 1, 2});
  const int tp = maker.Comm("tp", {0, 1});
  const int idle = maker.Comm("idle", {1, 2});
  for (const int rank : {0, 1}) {
    maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? dp : tp).site = "train.cc:88 step()";
    maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? tp : dp).site = "train.cc:88 step()";
    maker.Operation(rank, OpKind::kBroadcast, dp).root_or_peer = 0;
    maker.schedule().ranks[static_cast<size_t>(rank)].threads[0].ops.back().witness = false;
    maker.Sync(rank).site = "train.cc:90 step()";
  }
  maker.Operation(2, OpKind::kAllReduce, dp);
  maker.Operation(2, OpKind::kAllGather, idle).witness = false;
  maker.Sync(2);
  return maker.schedule();
}

Schedule TwoThreads() {
  Maker maker(2);
  const int a = maker.Comm("a", {0, 1});
  const int b = maker.Comm("b", {0, 1});
  for (const int rank : {0, 1}) {
    const OpId first = maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? a : b, 0, 0).id;
    maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? b : a, 0, 1).gates = {
        {first, Gate::Moment::kReturned}};
    const OpId second = maker.schedule().ranks[static_cast<size_t>(rank)].threads[1].ops.back().id;
    maker.Sync(rank, 0, 0).gates = {{second, Gate::Moment::kCalled}};
    maker.Add(rank, OpKind::kSleep, 1);
  }
  maker.schedule().environment = {{"NCCL_PROTO", "Simple"}};
  return maker.schedule();
}

Schedule Events() {
  Maker maker(2);
  const int dp = maker.Comm("dp", {0, 1});
  const int tp = maker.Comm("tp", {1, 0});
  for (const int rank : {0, 1}) {
    RankProgram& program = maker.schedule().ranks[static_cast<size_t>(rank)];
    program.streams.push_back({.name = "s2", .kind = StreamKind::kBlocking});
    program.streams.push_back({.name = "legacy", .kind = StreamKind::kLegacy});
    program.events = 1;
    maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? dp : tp, rank);
    Op& record = maker.Add(rank, OpKind::kEventRecord);
    record.stream = rank;
    record.event = 0;
    Op& wait = maker.Add(rank, OpKind::kStreamWaitEvent);
    wait.stream = 1 - rank;
    wait.event = 0;
    maker.Operation(rank, OpKind::kReduceScatter, rank == 0 ? tp : dp, 1 - rank);
    maker.Add(rank, OpKind::kKernel).stream = 2;
    Op& copy = maker.Add(rank, rank == 0 ? OpKind::kCopy : OpKind::kFree);
    copy.stream = rank == 0 ? 0 : -1;
    copy.symbol = rank == 0 ? "cudaMemcpyAsync" : "cudaFree";
    copy.unfinished = true;
  }
  return maker.schedule();
}

Schedule Graph() {
  Maker maker(2);
  const int a = maker.Comm("a", {0, 1});
  const int b = maker.Comm("b", {0, 1});
  for (const int rank : {0, 1}) {
    maker.schedule().ranks[static_cast<size_t>(rank)].graphs = 1;
    Op& begin = maker.Add(rank, OpKind::kCaptureBegin);
    begin.stream = 0;
    begin.graph = 0;
    maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? a : b).captured = true;
    maker.Operation(rank, OpKind::kAllReduce, rank == 0 ? b : a).captured = true;
    Op& end = maker.Add(rank, OpKind::kCaptureEnd);
    end.stream = 0;
    end.graph = 0;
    Op& launch = maker.Add(rank, OpKind::kGraphLaunch);
    launch.stream = 0;
    launch.graph = 0;
    maker.Add(rank, OpKind::kDeviceSync).unfinished = true;
  }
  return maker.schedule();
}

Schedule Transfers() {
  Maker maker(3);
  const int pp = maker.Comm("pp", {0, 1, 2});
  maker.schedule().comms[0].connected = false;
  maker.schedule().comms[0].connected_pairs = {{0, 1}, {1, 2}};
  maker.schedule().origin.signature = {"rank_exited", {}};
  maker.Operation(0, OpKind::kSend, pp).root_or_peer = 1;
  maker.Sync(0);
  maker.Add(1, OpKind::kGroupStart);
  maker.Operation(1, OpKind::kRecv, pp).root_or_peer = 0;
  maker.Operation(1, OpKind::kRecv, pp).root_or_peer = 2;
  maker.Add(1, OpKind::kGroupEnd);
  maker.Sync(1);
  maker.Add(2, OpKind::kExit).exit_code = 7;
  return maker.schedule();
}

Schedule Missing() {
  Maker maker(8);
  const int world = maker.Comm("world", {0, 1, 2, 3, 4, 5, 6, 7});
  maker.schedule().origin.signature = {"rank_not_joined", {}};
  maker.schedule().origin.notes = {
      "the trace is incomplete: ended after 12 whole chunks, 3456 events"};
  for (int rank = 0; rank < 8; ++rank) {
    if (rank == 5) {
      maker.Add(rank, OpKind::kSpin);
      continue;
    }
    Op& gather = maker.Operation(rank, OpKind::kAllGather, world);
    gather.reduce_op = 255;
    gather.site = "model.cc:12 forward()";
    maker.Sync(rank);
  }
  return maker.schedule();
}

Schedule Split() {
  Maker maker(2);
  const int world = maker.Comm("world", {0, 1});
  const int half = maker.Comm("half", {0}, /*ready=*/false);
  maker.schedule().comms[static_cast<size_t>(half)].parent = world;
  maker.schedule().origin.signature = {"init_hang", {}};
  Op& split = maker.Add(0, OpKind::kCommSplit);
  split.parent = world;
  split.comm = half;
  split.color = 0;
  split.unfinished = true;
  maker.Operation(1, OpKind::kAllReduce, world);
  Op& poll = maker.Add(1, OpKind::kPoll);
  poll.stream = 0;
  poll.unfinished = true;
  return maker.schedule();
}

}  // namespace

Schedule Steps() {
  Maker maker(3);
  const int dp = maker.Comm("dp", {0, 1, 2});
  for (const int rank : {0, 1, 2}) {
    maker.schedule().ranks[static_cast<size_t>(rank)].graphs = 1;
    Op& begin = maker.Add(rank, OpKind::kCaptureBegin);
    begin.stream = begin.graph = 0;
    maker.Operation(rank, OpKind::kAllGather, dp).captured = true;
    Op& end = maker.Add(rank, OpKind::kCaptureEnd);
    end.stream = end.graph = 0;
    Op& reduce = maker.Operation(rank, OpKind::kAllReduce, dp);
    reduce.site = "train.cc:88 step()";
    reduce.datatype = 9;
    reduce.reduce_op = 2;
    maker.Add(rank, OpKind::kGroupStart);
    maker.Operation(rank, OpKind::kSend, dp).root_or_peer = (rank + 1) % 3;
    maker.Operation(rank, OpKind::kRecv, dp).root_or_peer = (rank + 2) % 3;
    maker.Add(rank, OpKind::kGroupEnd);
    Op& launch = maker.Add(rank, OpKind::kGraphLaunch);
    launch.stream = launch.graph = 0;
    maker.Sync(rank).unfinished = false;
  }
  return maker.schedule();
}

std::vector<Sample> Samples() {
  return {{"inversion", Inversion()}, {"threads", TwoThreads()},  {"events", Events()},
          {"graph", Graph()},         {"transfers", Transfers()}, {"missing", Missing()},
          {"split", Split()}};
}

const Schedule& SampleOf(const std::vector<Sample>& samples, const std::string& name) {
  return std::find_if(samples.begin(), samples.end(),
                      [&](const Sample& sample) { return sample.name == name; })
      ->schedule;
}

}  // namespace gordian::replayer::testing
