// Prepares what exists before the first thread of a schedule: ready and connected communicators,
// and streams.
#include <algorithm>

#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer {
namespace {

const std::vector<Op> kNoOps;

}  // namespace

Machine::Machine(const Schedule& schedule)
    : schedule_(schedule), ranks_(schedule.ranks.size()), comms_(schedule.comms.size()) {
  // As the shim reads them: interpose/state/ring_file.cc.
  runtime_connect_ = !Setting("NCCL_RUNTIME_CONNECT", "0") && !Setting("NCCL_CUMEM_ENABLE", "0");
  launch_order_ = Setting("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  one_queue_ = Setting("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  SetUp();
}

bool Machine::Setting(const char* name, const char* value) const {
  return std::any_of(
      schedule_.environment.begin(), schedule_.environment.end(),
      [&](const auto& setting) { return setting.first == name && setting.second == value; });
}

void Machine::SetUp() {
  for (size_t index = 0; index < ranks_.size(); ++index) {
    const RankProgram& program = schedule_.ranks[index];
    Rank& rank = ranks_[index];
    rank.threads.resize(std::max<size_t>(program.threads.size(), 1));
    for (size_t i = 0; i < rank.threads.size(); ++i) {
      rank.threads[i].ops = i < program.threads.size() ? &program.threads[i].ops : &kNoOps;
    }
    rank.queues.resize(program.streams.size());
    rank.events.resize(static_cast<size_t>(program.events));
    rank.graphs.resize(static_cast<size_t>(program.graphs));
  }
  for (size_t comm = 0; comm < schedule_.comms.size(); ++comm) {
    const std::vector<int>& members = schedule_.comms[comm].members;
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i] < 0) continue;
      ranks_[static_cast<size_t>(members[i])].comms[static_cast<int>(comm)].place =
          static_cast<int>(i);
    }
  }
  for (size_t comm = 0; comm < schedule_.comms.size(); ++comm) {
    if (!schedule_.comms[comm].ready) continue;
    for (const int member : schedule_.comms[comm].members)
      EmitMade(static_cast<size_t>(member), static_cast<int>(comm));
    EmitConnected(static_cast<int>(comm));
  }
  for (size_t index = 0; index < ranks_.size(); ++index) {
    const std::vector<Stream>& streams = schedule_.ranks[index].streams;
    for (size_t i = 0; i < streams.size(); ++i) {
      auto& made = Emit(index, 0, model::RecordKind::kPoint, model::Call::kStreamCreate, nullptr)
                       .Make<ring::StreamPayload>();
      made.stream = StreamIdOf(static_cast<int>(i));
      made.device = 0;
      made.handle = StreamHandle(static_cast<int>(i));
      made.connections = one_queue_ ? 1 : 0;
      made.flags = streams[i].kind == StreamKind::kBlocking    ? model::kStreamBlocking
                   : streams[i].kind == StreamKind::kLegacy    ? model::kStreamLegacy
                   : streams[i].kind == StreamKind::kPerThread ? model::kStreamPerThread
                                                               : 0u;
    }
  }
}

model::CommUid Machine::UidOf(const Meeting& meeting) {
  const auto& [kind, comm, ordinal] = meeting;
  return (static_cast<uint64_t>(kind) << 48) + (static_cast<uint64_t>(comm) << 24) + ordinal + 1;
}

void Machine::EmitMade(size_t rank, int comm) {
  const auto id = static_cast<model::CommId>(comm + 1);
  const auto nranks = static_cast<int>(Comm(comm).members.size());
  const int place = At(rank).comms.at(comm).place;
  model::CallRecord& begin =
      Emit(rank, 0, model::RecordKind::kBegin, model::Call::kCommInit, nullptr);
  begin.payload = ring::CommInitPayload{.comm = id,
                                        .nranks = nranks,
                                        .rank = place,
                                        .uid = UidOf({OpKind::kCommInit, comm, 0}),
                                        .color = -1};
  if (launch_order_) begin.flags |= model::kLaunchOrder;
  Emit(rank, 0, model::RecordKind::kEnd, model::Call::kCommInit, nullptr).payload =
      ring::EndPayload{.comm = id, .nranks = nranks, .rank = place};
  At(rank).comms.at(comm).made = true;
}

void Machine::EmitConnected(int comm) {
  const Communicator& made = Comm(comm);
  if (made.connected) {
    for (const int member : made.members) {
      Local& local = At(static_cast<size_t>(member)).comms.at(comm);
      EmitConnection(static_cast<size_t>(member), comm, OpKind::kAllReduce, -1);
      local.used = true;
    }
    auto& all = comms_[static_cast<size_t>(comm)].collectives;
    all.emplace_back(made.members.size());  // takes that number
  }
  for (const auto& [from, to] : made.connected_pairs) {
    const size_t source = static_cast<size_t>(made.members[static_cast<size_t>(from)]);
    const size_t target = static_cast<size_t>(made.members[static_cast<size_t>(to)]);
    EmitConnection(source, comm, OpKind::kSend, to);
    EmitConnection(target, comm, OpKind::kRecv, from);
    At(source).comms.at(comm).peers.insert({to, true});
    At(target).comms.at(comm).peers.insert({from, false});
    comms_[static_cast<size_t>(comm)].transfers[{from, to}].emplace_back();
  }
}

// Runs an operation of one element before anything else begins.
void Machine::EmitConnection(size_t rank, int comm, OpKind kind, int peer) {
  Local& local = At(rank).comms.at(comm);
  Numbers& numbers = kind == OpKind::kAllReduce ? local.collectives
                                                : local.transfers[{peer, kind == OpKind::kSend}];
  model::CallRecord& begin = Emit(rank, 0, model::RecordKind::kBegin, CallOf(kind), nullptr);
  begin.payload = ring::OperationPayload{
      .comm = static_cast<model::CommId>(comm + 1),
      .stream = kConnectStream,
      .count = 1,
      .sequence = numbers.called++,
      .root_or_peer = peer,
      .reduce_op = static_cast<uint8_t>(kind == OpKind::kAllReduce ? 0 : 255)};
  ++numbers.launched;
  auto& end =
      Emit(rank, 0, model::RecordKind::kEnd, CallOf(kind), nullptr).Make<ring::EndPayload>();
  end.stream = kConnectStream;
  end.ordinal = ++At(rank).connected;
}

}  // namespace gordian::replayer
