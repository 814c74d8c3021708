#include "testing/jobs/training_job.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>

#include "analyzer/ingest/graph_events.h"

namespace gordian::testing {
namespace {

constexpr uint32_t kCompute = 1, kSends = 2, kReceives = 3, kData = 4;
constexpr uint32_t kStreams = 4;
constexpr uint64_t kWorld = 1;
constexpr uint64_t kStartNs = 5'000'000'000'000;  // a machine that has been up for hours
constexpr uint64_t kActivations = 4096 * 8192, kGradients = 1 << 26;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "training job: %s\n", what.c_str());
  exit(1);
}

void Renumber(v1::Event* event, uint32_t by) {
  if (event->has_records()) {
    event->mutable_records()->set_process(event->records().process() + by);
  } else if (event->has_process_started()) {
    event->mutable_process_started()->set_process(event->process_started().process() + by);
  } else if (event->has_round()) {
    for (v1::ProcessState& state : *event->mutable_round()->mutable_processes()) {
      state.set_process(state.process() + by);
    }
  } else if (!event->has_call_name()) {
    Fail("an event that belongs to no process");
  }
}

}  // namespace

TrainingJob::TrainingJob(const TrainingShape& shape)
    : shape_(shape),
      job_(shape.ranks(), /*module=*/"", kStartNs),
      // Somewhere in the middle of everything.
      faulty_(RankOf(shape.data / 2, shape.pipeline / 2, shape.tensor / 2)) {
  if (shape.data > kReplicasOfPod && shape.data % kReplicasOfPod != 0) {
    Fail("more than eight replicas must be a multiple of eight");
  }
  programs_.resize(static_cast<size_t>(shape.ranks()));
}

TrainingJob::Place TrainingJob::PlaceOf(int rank) const {
  return {rank / (shape_.tensor * shape_.pipeline), rank / shape_.tensor % shape_.pipeline,
          rank % shape_.tensor};
}
int TrainingJob::RankOf(int data, int stage, int lane) const {
  return (data * shape_.pipeline + stage) * shape_.tensor + lane;
}
// One kind a million: far more than there are groups of a kind.
uint64_t TrainingJob::Tp(const Place& at) const {
  return 1'000'000 + static_cast<uint64_t>(at.data * shape_.pipeline + at.stage);
}
uint64_t TrainingJob::Pp(const Place& at, bool forward) const {
  return (forward ? 2'000'000 : 5'000'000) +
         static_cast<uint64_t>(at.data * shape_.tensor + at.lane);
}
uint64_t TrainingJob::Dp(const Place& at) const {
  return 3'000'000 +
         static_cast<uint64_t>(
             ((at.data / kReplicasOfPod) * shape_.pipeline + at.stage) * shape_.tensor + at.lane);
}
uint64_t TrainingJob::Dpx(const Place& at) const {
  return 4'000'000 +
         static_cast<uint64_t>(
             ((at.data % kReplicasOfPod) * shape_.pipeline + at.stage) * shape_.tensor + at.lane);
}

void TrainingJob::Begin(const Sink& sink) {
  std::map<uint64_t, std::pair<std::string, std::vector<int>>> comms;
  const auto join = [&comms](uint64_t uid, const char* name, int rank) {
    comms[uid].first = name;
    comms[uid].second.push_back(rank);
  };
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    const Place at = PlaceOf(rank);
    join(kWorld, "world", rank);
    if (shape_.tensor > 1) join(Tp(at), "tp", rank);
    if (shape_.pipeline > 1) {
      join(Pp(at, true), "ppf", rank);
      join(Pp(at, false), "ppb", rank);
    }
    if (shape_.data > 1) join(Dp(at), "dp", rank);
    if (Pods() > 1) join(Dpx(at), "dpx", rank);
  }
  for (const auto& [uid, comm] : comms) job_.MakeCommunicator(uid, comm.second, comm.first);
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    for (uint32_t stream = 1; stream <= kStreams; ++stream) job_.MakeStream(rank);
  }
  Deliver(sink);
}

// What a node's collector tells: its own processes, under its own numbers.
void TrainingJob::Deliver(const Sink& sink) {
  std::vector<std::vector<v1::Event>> of_node(static_cast<size_t>(nodes()));
  for (v1::Event& event : job_.Drain()) {
    if (event.has_call_name()) {
      for (auto& events : of_node) events.push_back(event);
      continue;
    }
    const uint32_t process =
        event.has_records() ? event.records().process() : event.process_started().process();
    const uint32_t node = (process - 1) / kRanksOfNode;
    Renumber(&event, 0u - node * kRanksOfNode);
    of_node[node].push_back(std::move(event));
  }
  for (size_t node = 0; node < of_node.size(); ++node) {
    if (of_node[node].empty()) continue;
    sink(static_cast<int>(node), AsCollected(std::move(of_node[node])));
  }
}

v1::Event TrainingJob::Round(int node, uint64_t number) {
  const auto first = static_cast<size_t>(node) * kRanksOfNode;
  const size_t end = std::min(first + kRanksOfNode, static_cast<size_t>(shape_.ranks()));
  v1::Event event = job_.RoundEvent(number, first, end);
  Renumber(&event, 0u - static_cast<uint32_t>(first));
  return event;
}

void TrainingJob::MakeUnique(int node, v1::Event* event) {
  Renumber(event, static_cast<uint32_t>(node) * analyzer::kProcessesOfNode);
}

v1::Event TrainingJob::WholeRound(uint64_t number) {
  v1::Event whole;
  v1::Round* const round = whole.mutable_round();
  round->set_round(number);
  for (int node = 0; node < nodes(); ++node) {
    v1::Event part = Round(node, number);
    MakeUnique(node, &part);
    if (node == 0) round->set_begin_ns(part.round().begin_ns());
    round->set_end_ns(part.round().end_ns());
    for (v1::ProcessState& state : *part.mutable_round()->mutable_processes()) {
      *round->add_processes() = std::move(state);
    }
  }
  return whole;
}

int TrainingJob::Note(int rank, Entry entry) {
  if (!last_step_) return -1;
  entry.ordinal = job_.Enqueued(rank, entry.stream);
  std::vector<Entry>& entries = programs_[static_cast<size_t>(rank)].entries;
  entries.push_back(entry);
  return static_cast<int>(entries.size()) - 1;
}

void TrainingJob::NoteOperation(int rank, uint64_t uid, Entry entry) {
  const auto last = programs_[static_cast<size_t>(rank)].last.try_emplace(uid, -1).first;
  entry.communicator = last->second;
  last->second = Note(rank, entry);
}

void TrainingJob::Collective(int rank, const char* symbol, uint64_t uid, int members,
                             uint32_t stream, uint64_t count) {
  if (members < 2) return;
  job_.CallSiteOf(rank,
                  RecordedJob::kModuleStart + 0x10000 + (uid / 1'000'000) * 0x140 + stream * 0x34);
  job_.Collective(rank, symbol, uid, stream, count);
  const uint64_t number = programs_[static_cast<size_t>(rank)].numbers[uid]++;
  NoteOperation(rank, uid, {.stream = stream, .match = uid << 32 | number, .members = members});
}

// With the same lane of another stage.
void TrainingJob::Transfer(int rank, bool send, int stage, bool forward) {
  const Place at = PlaceOf(rank);
  const uint32_t stream = send ? kSends : kReceives;
  const uint64_t pp = Pp(at, forward);
  job_.CallSiteOf(rank,
                  RecordedJob::kModuleStart + 0x20000 + (forward ? 0x150 : 0x260) + stream * 0x34);
  if (send) {
    job_.Send(rank, pp, stage, stream, kActivations);
  } else {
    job_.Receive(rank, pp, stage, stream, kActivations);
  }
  const auto from = static_cast<uint64_t>(send ? at.stage : stage);
  const auto to = static_cast<uint64_t>(send ? stage : at.stage);
  const uint64_t pair = pp << 10 | from << 5 | to;
  const uint64_t number = programs_[static_cast<size_t>(rank)].numbers[pair]++;
  NoteOperation(rank, pp,
                {.stream = stream, .match = uint64_t{1} << 63 | pair << 24 | number, .members = 2});
}

void TrainingJob::Order(int rank, uint32_t from, uint32_t to) {
  const uint64_t event = 0xe000 + from * 16 + to;
  job_.CallSiteOf(rank, RecordedJob::kModuleStart + 0x30000 + from * 0x80 + to * 0x24);
  job_.RecordEvent(rank, from, event);
  job_.WaitEvent(rank, to, event);
  if (!last_step_) return;
  const std::vector<Entry>& entries = programs_[static_cast<size_t>(rank)].entries;
  int last = static_cast<int>(entries.size()) - 1;
  while (last >= 0 && entries[static_cast<size_t>(last)].stream != from) --last;
  Note(rank, {.stream = to, .after = last});
}

void TrainingJob::Layers(int rank) {
  const uint64_t tp = Tp(PlaceOf(rank));
  for (int half = 0; half < 2 * shape_.layers; ++half) {
    job_.Kernels(rank, kCompute);
    Note(rank, {.stream = kCompute});
    Collective(rank, "ncclAllReduce", tp, shape_.tensor, kCompute, kActivations);
  }
}

void TrainingJob::Pass(int rank, bool forward) {
  const int stage = PlaceOf(rank).stage;
  const int before = forward ? stage - 1 : stage + 1, behind = forward ? stage + 1 : stage - 1;
  const auto exists = [this](int other) { return other >= 0 && other < shape_.pipeline; };
  if (exists(before)) {
    Transfer(rank, /*send=*/false, before, forward);
    Order(rank, kReceives, kCompute);
  }
  Layers(rank);
  if (exists(behind)) {
    Order(rank, kCompute, kSends);
    Transfer(rank, /*send=*/true, behind, forward);
  }
}

void TrainingJob::StepOf(int rank) {
  const Place at = PlaceOf(rank);
  const bool faulty = last_step_ && rank == faulty_;
  if (faulty && shape_.fault == Fault::kMissing) return;
  const int warm_up = std::min(shape_.pipeline - at.stage - 1, shape_.micro_batches);
  for (int i = 0; i < warm_up; ++i) Pass(rank, /*forward=*/true);
  for (int i = warm_up; i < shape_.micro_batches; ++i) {
    Pass(rank, /*forward=*/true);
    Pass(rank, /*forward=*/false);
  }
  for (int i = 0; i < warm_up; ++i) Pass(rank, /*forward=*/false);
  Order(rank, kCompute, kData);
  const auto world = [&] { Collective(rank, "ncclAllReduce", kWorld, shape_.ranks(), kData, 1); };
  const int members = std::min(shape_.data, kReplicasOfPod);
  const bool inverted = faulty && shape_.fault == Fault::kInversion;
  if (inverted) world();
  Collective(rank, "ncclReduceScatter", Dp(at), members, kData, kGradients);
  Collective(rank, "ncclAllReduce", Dpx(at), Pods(), kData, kGradients / kReplicasOfPod);
  Collective(rank, "ncclAllGather", Dp(at), members, kData, kGradients);
  if (!inverted) world();
  job_.BeginSynchronize(rank, kData);
}

void TrainingJob::Step(int step, const Sink& sink) {
  last_step_ = step == shape_.steps - 1;
  // A part of the ranks at a time: their events are many.
  for (int first = 0; first < shape_.ranks(); first += 64 * kRanksOfNode) {
    const int end = std::min(first + 64 * kRanksOfNode, shape_.ranks());
    for (int rank = first; rank < end; ++rank) StepOf(rank);
    Deliver(sink);
  }
  if (last_step_) {
    Run();
    if ((stuck_ != 0) != (shape_.fault != Fault::kNone))
      Fail("the job does not do what its fault says");
  } else {
    job_.AllDone();
  }
  if (stuck_ != 0) return;
  for (int rank = 0; rank < shape_.ranks(); ++rank) job_.EndSynchronize(rank);
  Deliver(sink);
}

// To the end, or until nothing moves.
void TrainingJob::Run() {
  struct Meeting {
    int arrived = 0;
    std::vector<int> ranks;
  };
  struct Lane {
    std::vector<size_t> entries;
    size_t next = 0;
    bool arrived = false;  // at the meeting of `next`
  };
  std::unordered_map<uint64_t, Meeting> meetings;
  std::vector<std::vector<Lane>> lanes(programs_.size(), std::vector<Lane>(kStreams + 1));
  std::vector<std::vector<bool>> ended(programs_.size());
  std::vector<int> work;
  for (size_t rank = 0; rank < programs_.size(); ++rank) {
    const std::vector<Entry>& entries = programs_[rank].entries;
    ended[rank].resize(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) lanes[rank][entries[i].stream].entries.push_back(i);
    work.push_back(static_cast<int>(rank));
  }
  const auto advance = [&](int number) {
    const auto rank = static_cast<size_t>(number);
    const std::vector<Entry>& entries = programs_[rank].entries;
    for (bool moved = true; moved;) {
      moved = false;
      for (Lane& lane : lanes[rank]) {
        while (lane.next < lane.entries.size()) {
          const size_t place = lane.entries[lane.next];
          const Entry& entry = entries[place];
          const auto holds = [&](int before) {
            return before >= 0 && !ended[rank][static_cast<size_t>(before)];
          };
          if (holds(entry.after) || holds(entry.communicator)) break;
          if (entry.match != 0) {
            Meeting& meeting = meetings[entry.match];
            if (!std::exchange(lane.arrived, true)) {
              meeting.ranks.push_back(number);
              if (++meeting.arrived == entry.members) {
                work.insert(work.end(), meeting.ranks.begin(), meeting.ranks.end());
              }
            }
            if (meeting.arrived < entry.members) break;
          }
          ended[rank][place] = true;
          lane.arrived = false;
          ++lane.next;
          moved = true;
        }
      }
    }
  };
  while (!work.empty()) {
    const int rank = work.back();
    work.pop_back();
    advance(rank);
  }
  for (size_t rank = 0; rank < programs_.size(); ++rank) {
    for (uint32_t stream = 1; stream <= kStreams; ++stream) {
      const Lane& lane = lanes[rank][stream];
      const std::vector<Entry>& entries = programs_[rank].entries;
      if (lane.next == lane.entries.size()) {
        job_.Done(static_cast<int>(rank), stream, job_.Enqueued(static_cast<int>(rank), stream));
      } else if (lane.next > 0) {
        job_.Done(static_cast<int>(rank), stream, entries[lane.entries[lane.next - 1]].ordinal);
      } else {
        job_.Done(static_cast<int>(rank), stream, entries[lane.entries[0]].ordinal - 1);
      }
      for (size_t i = lane.next; i < lane.entries.size(); ++i) {
        stuck_ += entries[lane.entries[i]].match != 0 ? 1 : 0;
      }
    }
  }
}

}  // namespace gordian::testing
